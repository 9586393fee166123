"""Which topics and partitions a command is about."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ottla.cli.failing import CommandError, UsageError

# Not those inside [] or {}, which are part of a pattern.
_COMMA: Final = re.compile(r",(?![^{\[]*[}\]])")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_NUMBERS: Final = re.compile(r"(\d+)(?:-(\d+)?)?")


def choose_topics(words: Iterable[str], names: Collection[str]) -> tuple[list[str], list[str]]:
    """The topics that are there, sorted, of names and patterns; and which words chose none.

    What could be a name is one, so that `a.b` never means `a-b`; anything else is a regular expression for whole names.
    """
    chosen: dict[str, None] = {}
    missing = []
    for word in split_words(words):
        found = [word] if word in names else matching(word, names)
        if not found:
            missing.append(word)
        chosen.update(dict.fromkeys(found))
    return sorted(chosen), missing


def split_words(words: Iterable[str]) -> list[str]:
    """Single names and patterns; Kafka's tools take several with commas."""
    return [part.strip() for word in words for part in _COMMA.split(word) if part.strip()]


def is_name(word: str) -> bool:
    """Whether it is the name of a topic, not a pattern."""
    return _NAME.fullmatch(word) is not None


def matching(word: str, names: Collection[str]) -> list[str]:
    """The names that a pattern describes."""
    if is_name(word):
        return []
    try:
        pattern = re.compile(word)
    except re.error as error:
        raise UsageError(f"{word!r} is no regular expression ({error})") from None
    return [name for name in names if pattern.fullmatch(name)]


def no_such_topics(missing: Sequence[str]) -> CommandError:
    """The error about words that chose nothing."""
    if len(missing) > 1:
        what = f"there are no topics {', '.join(missing)}"
    elif is_name(missing[0]):
        what = f"there is no topic {missing[0]}"
    else:
        what = f"no topic matches {missing[0]}"
    return CommandError(what, "`ottla topics list` shows which topics there are")


def partition_numbers(text: str) -> list[tuple[int, int | None]]:
    """Ranges with start and exclusive end, of `0,4-6,9-`: the numbers 0, 4, 5, 6 and from 9 on."""
    ranges: list[tuple[int, int | None]] = []
    for part in text.split(","):
        found = _NUMBERS.fullmatch(part.strip())
        if found is None:
            raise UsageError(f"{part!r} is no partition", "write numbers and ranges, as 0,4-6")
        first = int(found[1])
        if "-" not in found[0]:
            ranges.append((first, first + 1))
        else:
            ranges.append((first, None if found[2] is None else int(found[2]) + 1))
    return ranges


def is_in(number: int, ranges: Iterable[tuple[int, int | None]]) -> bool:
    """Whether a partition is in one of the ranges."""
    return any(start <= number and (end is None or number < end) for start, end in ranges)
