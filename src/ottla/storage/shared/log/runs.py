"""The runs of which a log is made, and the segments that they form.

A run is a row of the tail or a stored segment: what the sequencer appends, trims and replaces as one piece. A segment,
as the port has it, is one run or several: it begins at a run that says so, or at the first one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.ports import Buffer, SegmentInfo


@dataclass(slots=True)
class Run:
    """Consecutive batches that are stored together; `headers` is None for a stored segment."""

    base_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int
    written_ms: int
    headers: Buffer | None
    begins_segment: bool
    first_timestamp_ms: int


class Runs:
    """The runs of a log in order; the last segment is the one that is written to."""

    __slots__ = (
        "_active_bytes",
        "_active_first_ms",
        "_bases",
        "_end_offset",
        "_is_rolled",
        "_runs",
        "last_base_offset",
        "size_bytes",
    )

    def __init__(self, runs: Sequence[Run], end_offset: int) -> None:
        self._runs = list(runs)
        self._bases = [run.base_offset for run in runs]
        self._end_offset = end_offset
        self._is_rolled = False
        self.size_bytes = sum(run.size_bytes for run in runs)
        self.last_base_offset = end_offset
        self._active_bytes = 0
        self._active_first_ms = -1
        self._find_active()

    def _find_active(self) -> None:
        """Sums up the last segment again."""
        if self._is_rolled or not self._runs:
            self.last_base_offset = self._end_offset
            self._active_bytes, self._active_first_ms = 0, -1
            return
        first = len(self._runs) - 1
        while first > 0 and not self._runs[first].begins_segment:
            first -= 1
        self.last_base_offset = self._runs[first].base_offset
        self._active_bytes = sum(run.size_bytes for run in self._runs[first:])
        self._active_first_ms = self._runs[first].first_timestamp_ms

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @property
    def active_bytes(self) -> int:
        return self._active_bytes

    @property
    def active_first_ms(self) -> int:
        """The timestamp of the first batch of the last segment, -1 if it has none."""
        return self._active_first_ms

    @property
    def is_rolled(self) -> bool:
        """Whether the next run begins a segment."""
        return self._is_rolled

    def begin(self, run: Run) -> None:
        """Adds an empty run at the end, which then grows."""
        if run.begins_segment or not self._runs:
            self.last_base_offset = run.base_offset
            self._active_bytes = 0
            self._active_first_ms = -1
        self._is_rolled = False
        self._runs.append(run)
        self._bases.append(run.base_offset)

    def grown(self, first_timestamp_ms: int, size_bytes: int) -> None:
        """The last run has grown."""
        run = self._runs[-1]
        if self._active_bytes == 0:
            self._active_first_ms = first_timestamp_ms
        self._active_bytes += size_bytes
        self.size_bytes += size_bytes
        self._end_offset = run.end_offset

    def roll(self) -> bool:
        """Ends the last segment, unless it is empty."""
        if self._active_bytes == 0:
            return False
        self._is_rolled = True
        self._find_active()
        return True

    def from_offset(self, offset: int) -> Sequence[Run]:
        """The runs from the one that contains an offset, or the next one, on."""
        number = max(bisect_right(self._bases, offset) - 1, 0)
        if number < len(self._runs) and self._runs[number].end_offset <= offset:
            number += 1
        return self._runs[number:]

    def rows(self) -> Sequence[Run]:
        """The rows of the tail: they lie behind all stored segments."""
        first = len(self._runs)
        while first > 0 and self._runs[first - 1].headers is not None:
            first -= 1
        return self._runs[first:]

    def stored(self) -> Sequence[Run]:
        """The stored segments, below all rows of the tail."""
        return self._runs[: len(self._runs) - len(self.rows())]

    def segments(self, empty_since_ms: int) -> list[SegmentInfo]:
        """The segments; an empty last one counts as written to at `empty_since_ms`."""
        found: list[SegmentInfo] = []
        group: list[Run] = []
        for run in self._runs:
            if run.begins_segment and group:
                found.append(_segment_of(group, run.base_offset))
                group = []
            group.append(run)
        if group:
            found.append(_segment_of(group, self._end_offset))
        if self._is_rolled or not found:
            found.append(SegmentInfo(self._end_offset, self._end_offset, 0, empty_since_ms))
        return found

    def drop_below(self, offset: int) -> None:
        """Forgets the runs that lie wholly below an offset."""
        count = 0
        for run in self._runs:
            if run.end_offset > offset:
                break
            count += 1
        if count:
            self.size_bytes -= sum(run.size_bytes for run in self._runs[:count])
            del self._runs[:count], self._bases[:count]
            self._find_active()

    def between(self, start_offset: int, end_offset: int) -> list[Run] | None:
        """The runs that fill a range exactly, None if none do."""
        found = [
            run
            for run in self._runs
            if start_offset <= run.base_offset and run.end_offset <= end_offset
        ]
        if not found or found[0].base_offset != start_offset or found[-1].end_offset != end_offset:
            return None
        return found

    def replace(self, start_offset: int, end_offset: int, runs: Sequence[Run]) -> bool:
        """Puts runs in the place of those between two offsets; False if no runs fill that range exactly."""
        old = self.between(start_offset, end_offset)
        if old is None:
            return False
        first = self._bases.index(start_offset)
        self._runs[first : first + len(old)] = runs
        self._bases[first : first + len(old)] = [run.base_offset for run in runs]
        self.size_bytes += sum(run.size_bytes for run in runs) - sum(run.size_bytes for run in old)
        self._find_active()
        return True


def _segment_of(runs: Sequence[Run], end_offset: int) -> SegmentInfo:
    max_timestamp_ms = max(run.max_timestamp_ms for run in runs)
    if max_timestamp_ms < 0:
        max_timestamp_ms = max(run.written_ms for run in runs)
    return SegmentInfo(
        runs[0].base_offset, end_offset, sum(run.size_bytes for run in runs), max_timestamp_ms
    )
