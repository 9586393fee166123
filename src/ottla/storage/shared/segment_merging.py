"""Which stored segments are merged with their neighbours.

Consolidation of the tail leaves a small piece each minute where little is written. Pieces are merged when there are
several and the result is at least twice as large as the largest of them: so every merge doubles what it moves, and a
byte is written a few times at most until its piece is large enough. Segments of the log, by which retention and
compaction work, stay apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

# A piece of this size is left alone.
SMALL_BYTES: Final = 8 << 20
MAX_MERGED_BYTES: Final = 64 << 20
MIN_PIECES: Final = 8


class Piece(NamedTuple):
    """A stored segment; `begins_segment`: a segment of the log begins with it."""

    size_bytes: int
    begins_segment: bool


def pieces_to_merge(pieces: Sequence[Piece]) -> range | None:
    """The numbers of neighbours that become one, None if there are none worth it: the first ones, and many at once."""
    start = 0
    for number, piece in enumerate(pieces):
        if number > start and piece.begins_segment:
            found = _best_of(pieces, start, number)
            if found is not None:
                return found
            start = number
        if piece.size_bytes >= SMALL_BYTES:
            found = _best_of(pieces, start, number)
            if found is not None:
                return found
            start = number + 1
    return _best_of(pieces, start, len(pieces))


def _best_of(pieces: Sequence[Piece], start: int, end: int) -> range | None:
    """The longest row of small pieces between two numbers that may be merged; it reaches to the end, or was cut."""
    found: range | None = None
    stop = end
    size_bytes = largest_bytes = 0
    for first in range(end - 1, start - 1, -1):
        piece_bytes = pieces[first].size_bytes
        size_bytes += piece_bytes
        while size_bytes > MAX_MERGED_BYTES and stop > first + 1:
            stop -= 1
            size_bytes -= pieces[stop].size_bytes
        largest_bytes = max(largest_bytes, piece_bytes)
        if stop - first >= MIN_PIECES and size_bytes >= 2 * largest_bytes:
            found = range(first, stop)
    return found
