"""Patterns that clients send: they match in linear time, whatever they say (RE2, as in Kafka).

Linear still means the size of the pattern times the length of the text, which is not for the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

# In RE2's instructions; a pattern that needs more is refused.
MAX_PATTERN_SIZE: Final = 1000
# RE2 is quicker where it may remember more.
MEMORY_BYTES: Final = 8 << 20
# A thread is given so many characters at a time.
CHARS_AT_A_TIME: Final = 1 << 16


class PatternError(ValueError):
    """It is no pattern that RE2 knows, or too large a one."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        # Few brokers are ever asked for it.
        import re2

        options = re2.Options()
        options.max_mem = MEMORY_BYTES
        options.log_errors = False
        try:
            self._compiled: Any = re2.compile(text, options)
        except re2.error as error:
            raise PatternError(str(error)) from error
        if self._compiled.programsize > MAX_PATTERN_SIZE:
            raise PatternError(f"a pattern has at most {MAX_PATTERN_SIZE} instructions")

    async def matching(self, texts: Sequence[str]) -> set[str]:
        """Which of these it matches from end to end; found on a thread."""
        found: set[str] = set()
        for some in _portions(texts):
            found.update(await asyncio.to_thread(self._matching, some))
        return found

    def _matching(self, texts: Sequence[str]) -> list[str]:
        return [text for text in texts if self._compiled.fullmatch(text) is not None]


def _portions(texts: Sequence[str]) -> Iterator[list[str]]:
    portion: list[str] = []
    chars = 0
    for text in texts:
        portion.append(text)
        chars += len(text)
        if chars >= CHARS_AT_A_TIME:
            yield portion
            portion, chars = [], 0
    if portion:
        yield portion
