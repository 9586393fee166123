"""The aborted transactions of a log, by the segments in which their markers are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from ottla.core.aborted import AbortedSpan


class AbortedSpans:
    """All spans by rising last offset. A span travels with the append of its marker, so it is as durable as that."""

    __slots__ = ("_last_offsets", "_spans", "unstored")

    def __init__(self, spans: Sequence[AbortedSpan]) -> None:
        self._spans = sorted(spans, key=lambda span: span.last_offset)
        self._last_offsets = [span.last_offset for span in self._spans]
        # Spans of markers that were stored without them: the next append has them.
        self.unstored: list[AbortedSpan] = []

    def add(self, span: AbortedSpan) -> bool:
        """Adds a span; False if it is known."""
        position = bisect_left(self._last_offsets, span.last_offset)
        if position < len(self._spans) and self._last_offsets[position] == span.last_offset:
            return False
        self._spans.insert(position, span)
        self._last_offsets.insert(position, span.last_offset)
        return True

    def since(self, offset: int) -> Iterator[AbortedSpan]:
        """The spans whose last offset is not below an offset; more may be added meanwhile."""
        position = bisect_left(self._last_offsets, offset)
        while position < len(self._spans):
            span = self._spans[position]
            yield span
            position = bisect_right(self._last_offsets, span.last_offset)

    def between(self, start_offset: int, end_offset: int) -> list[AbortedSpan]:
        """The spans whose markers are between two offsets."""
        first = bisect_left(self._last_offsets, start_offset)
        return self._spans[first : bisect_left(self._last_offsets, end_offset)]

    def drop_below(self, offset: int) -> None:
        """Forgets spans whose markers were deleted."""
        count = bisect_left(self._last_offsets, offset)
        del self._spans[:count], self._last_offsets[:count]
