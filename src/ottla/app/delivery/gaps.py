"""What is finished beyond a committed offset, as text in the offset's metadata.

    ottla1:<base offset>:<run lengths>:<attempts>

Run lengths alternate from the base offset on: unfinished, finished, unfinished … Numbers are written in the digits of
URL-safe base64, five bits each, the lowest first; the sixth bit says that another digit follows. A base offset that is
not the committed offset means that the offset was reset by hand: the text says nothing about it then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

DEFAULT_MAX_METADATA_BYTES: Final = 4096
"""Kafka's default of the broker option `offset.metadata.max.bytes`."""

_PREFIX: Final = "ottla1"
_DIGITS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_VALUES: Final = {digit: value for value, digit in enumerate(_DIGITS)}
_BITS: Final = 5
_MORE: Final = 1 << _BITS
_MASK: Final = _MORE - 1
_MAX_NUMBER_BITS: Final = 63
_MAX_OFFSET: Final = (1 << 63) - 1


class Attempts(NamedTuple):
    """How often a record has failed, and when its next attempt is due."""

    offset: int
    failed: int
    due_ms: int


class Gaps(NamedTuple):
    """What a commit said beyond its offset."""

    finished: tuple[tuple[int, int], ...] = ()
    """Ranges of finished offsets, from start to end (exclusive), in order, all above the committed offset."""
    attempts: tuple[Attempts, ...] = ()


NO_GAPS: Final = Gaps()


def encode_gaps(base_offset: int, gaps: Gaps, max_bytes: int) -> str | None:
    """The metadata of a commit at `base_offset`; None if the ranges do not fit. Attempts are left out if need be."""
    if not gaps.finished and not gaps.attempts:
        return ""
    runs = "".join(map(_encode_number, _run_lengths(base_offset, gaps.finished)))
    text = f"{_PREFIX}:{base_offset}:{runs}:"
    left = max_bytes - len(text)
    if left < 0:
        return None if gaps.finished else ""
    for offset, failed, due_ms in gaps.attempts:
        each = "".join(map(_encode_number, (offset - base_offset, failed, due_ms)))
        left -= len(each)
        if left < 0:
            break
        text += each
    return text


def decode_gaps(metadata: str, committed_offset: int) -> Gaps:
    """What the metadata of a commit says; nothing if other programs wrote it, or if the offset was reset since."""
    parts = metadata.split(":")
    if len(parts) != 4 or parts[0] != _PREFIX or parts[1] != str(committed_offset):
        return NO_GAPS
    try:
        finished = tuple(_ranges(committed_offset, _decode_numbers(parts[2])))
        numbers = list(_decode_numbers(parts[3]))
    except ValueError:
        return NO_GAPS
    if len(numbers) % 3:
        return NO_GAPS
    attempts = tuple(
        Attempts(committed_offset + numbers[i], numbers[i + 1], numbers[i + 2])
        for i in range(0, len(numbers), 3)
    )
    return Gaps(finished, attempts)


def number_size(number: int) -> int:
    """How many characters a number takes."""
    return max(1, -(-number.bit_length() // _BITS))


def encoded_size(base_offset: int, finished: Sequence[tuple[int, int]]) -> int:
    """How many characters the metadata takes without attempts."""
    runs = sum(map(number_size, _run_lengths(base_offset, finished)))
    return len(f"{_PREFIX}:{base_offset}::") + runs


def _run_lengths(base_offset: int, finished: Iterable[tuple[int, int]]) -> Iterator[int]:
    at = base_offset
    for start, end in finished:
        yield start - at
        yield end - start
        at = end


def _ranges(base_offset: int, lengths: Iterator[int]) -> Iterator[tuple[int, int]]:
    at = base_offset
    for unfinished in lengths:
        length = next(lengths, 0)
        if not unfinished or not length:
            raise ValueError("runs are never empty")
        start = at + unfinished
        at = start + length
        if at > _MAX_OFFSET:
            raise ValueError("no log is that long")
        yield start, at


def _encode_number(number: int) -> str:
    text = ""
    while number > _MASK:
        text += _DIGITS[_MORE | (number & _MASK)]
        number >>= _BITS
    return text + _DIGITS[number]


def _decode_numbers(text: str) -> Iterator[int]:
    number = shift = 0
    for digit in text:
        value = _VALUES.get(digit)
        if value is None or shift > _MAX_NUMBER_BITS:
            raise ValueError("no digit, or too many")
        number |= (value & _MASK) << shift
        shift += _BITS
        if value < _MORE:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("the last number is cut")
