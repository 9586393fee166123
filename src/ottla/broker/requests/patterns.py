"""Patterns of clients, which match in linear time (RE2, as in Kafka).

Linear still means the size of the pattern times the length of the text, which is not for the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

# A longer pattern is refused, and so is one of which RE2 makes more instructions than fit here: compiling cannot be
# interrupted, and holds all threads up.
MAX_PATTERN_CHARS: Final = 1000
PROGRAM_BYTES: Final = 1 << 20
# The same for patterns that are compiled and matched on the event loop.
MAX_SMALL_PATTERN_CHARS: Final = 256
SMALL_PROGRAM_BYTES: Final = 1 << 16
# RE2 matches faster where it may remember more.
MEMORY_BYTES: Final = 8 << 20
# A thread matches this many characters at a time.
CHARS_AT_A_TIME: Final = 1 << 16
# What one who has others to serve may do at a time: characters times instructions, some 50 ms.
WORK_AT_A_TIME: Final = 1 << 27


class PatternError(ValueError):
    """The pattern is not valid in RE2, or too large."""


class Pattern:
    """A compiled pattern. Making one takes milliseconds, and so is not for the event loop either."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN_CHARS:
            raise PatternError(f"a pattern has at most {MAX_PATTERN_CHARS} characters")
        _compile(text, PROGRAM_BYTES)
        self._compiled = _compile(text, MEMORY_BYTES)

    async def matching(self, texts: Sequence[str]) -> set[str]:
        """The texts that it matches from end to end; found on a thread."""
        found: set[str] = set()
        for some in _portions(texts):
            found.update(await asyncio.to_thread(self._matching, some))
        return found

    @property
    def chars_at_a_time(self) -> int:
        """The characters after which it is the turn of another pattern."""
        instructions: int = self._compiled.programsize
        return max(1, WORK_AT_A_TIME // instructions)

    def _matching(self, texts: Sequence[str]) -> list[str]:
        return [text for text in texts if self._compiled.fullmatch(text) is not None]


class SmallPattern:
    """A pattern that the event loop may compile, and match with texts of a few hundred characters."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_SMALL_PATTERN_CHARS:
            raise PatternError(f"a pattern has at most {MAX_SMALL_PATTERN_CHARS} characters")
        self._compiled = _compile(text, SMALL_PROGRAM_BYTES)

    def matches(self, text: str) -> bool:
        """Whether it matches the text from end to end."""
        return self._compiled.fullmatch(text) is not None


def _compile(text: str, memory_bytes: int) -> Any:
    # Few brokers ever need it.
    import re2

    options = re2.Options()
    options.max_mem = memory_bytes
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        (reason,) = error.args
        raise PatternError(reason.decode(errors="replace")) from error


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
