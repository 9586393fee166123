"""How far a listener has come in one partition: which records it took, which are finished, what may be committed."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import log
from typing import Final, Self

from ottla.app.delivery.gaps import NO_GAPS, Attempts, Gaps, encode_gaps, encoded_size

# More than any number or header takes: a window has less than 2**60 offsets.
_DIGITS: Final = 12


class PartitionProgress:
    """The records of a partition from the first unfinished one on.

    Offsets without records (compacted, control records, aborted transactions) never finish: the position passes them.
    """

    __slots__ = ("_finished", "_restored", "_window", "position")

    def __init__(self, position: int | None = None, gaps: Gaps = NO_GAPS) -> None:
        self.position = position
        """Everything before it was taken, or does not exist; None until the first record came."""
        self._window: deque[int] = deque()
        self._finished: set[int] = set()
        # Finished before this process had the partition; most of it lies beyond the position.
        self._restored: tuple[tuple[int, int], ...] = gaps.finished

    def __len__(self) -> int:
        """How many records are in the window, finished ones beyond the first unfinished one included."""
        return len(self._window)

    def take(self, offsets: Sequence[int], next_offset: int) -> set[int]:
        """Records came, and the position is behind them; returns those that were finished earlier."""
        if offsets and self.position is not None and offsets[0] < self.position:
            # The topic was made again, or the position was reset: what is known is about other records.
            self._restored = ()
            self._window.clear()
            self._finished.clear()
        self.position = next_offset
        self._window.extend(offsets)
        if not self._restored:
            return set()
        known = {offset for offset in offsets if self._was_finished(offset)}
        for offset in known:
            self.finish(offset)
        self._restored = tuple(each for each in self._restored if each[1] > next_offset)
        return known

    def _was_finished(self, offset: int) -> bool:
        place = bisect_right(self._restored, (offset, float("inf")))
        return place > 0 and offset < self._restored[place - 1][1]

    def finish(self, offset: int) -> None:
        """A record that was taken is finished."""
        window, finished = self._window, self._finished
        if not window or offset != window[0]:
            finished.add(offset)
            return
        window.popleft()
        while finished and window and window[0] in finished:
            finished.remove(window.popleft())

    def is_unfinished(self, offset: int) -> bool:
        """Whether a record at this offset, taken or still to come, is not finished."""
        base = self.commit_offset
        return (
            base is not None
            and offset >= base
            and offset not in self._finished
            and not self._was_finished(offset)
        )

    @property
    def unfinished_count(self) -> int:
        """How many taken records are not finished."""
        return len(self._window) - len(self._finished)

    @property
    def commit_offset(self) -> int | None:
        """The offset to commit: everything before it is finished."""
        offset = self._window[0] if self._window else self.position
        if offset is None:
            return None
        for start, end in self._restored:
            if start <= offset < end:
                return end
        return offset

    def finished_ranges(self) -> list[tuple[int, int]]:
        """The finished offsets beyond the commit offset; offsets without records belong to what is before them."""
        ranges = list(self._taken_ranges())
        position = self.position
        if self._restored and position is not None:
            base = self.commit_offset or 0
            for start, end in self._restored:
                if end > position and start > base:
                    start = max(start, position)
                    if ranges and ranges[-1][1] == start:
                        start = ranges.pop()[0]
                    ranges.append((start, end))
        return ranges

    def _taken_ranges(self) -> Iterator[tuple[int, int]]:
        if not self._finished:
            return
        finished = self._finished
        start: int | None = None
        for offset in self._window:
            if offset in finished:
                if start is None:
                    start = offset
            elif start is not None:
                yield start, offset
                start = None
        if start is not None:
            assert self.position is not None
            yield start, self.position

    def metadata(self, attempts: Iterable[Attempts], max_bytes: int) -> str | None:
        """The metadata for a commit at the commit offset; None if it does not fit."""
        base = self.commit_offset
        assert base is not None
        return encode_gaps(base, Gaps(tuple(self.finished_ranges()), tuple(attempts)), max_bytes)

    def has_room(self, started: int, max_bytes: int, pause_bytes: int) -> bool:
        """Whether one more record may start: the metadata fits, in whatever order this and those started finish."""
        base, position = self.commit_offset, self.position
        if base is None or position is None:
            return True
        restored = self._restored
        if not restored and (2 * (len(self._finished) + started) + 4) * _DIGITS <= pause_bytes:
            return True
        span = max(position, restored[-1][1]) - base if restored else position - base
        # A record that finishes divides a run of unfinished ones: two more numbers. There are never more runs than
        # records.
        growth = 2 * (started + 1)
        most = len(self._window) + 2 + 2 * len(restored)
        runs = 2 * (min(len(self._finished), self.unfinished_count) + len(restored) + 1)
        if self._size_bound(base, span, min(runs + growth, most)) <= pause_bytes:
            return True
        ranges = self.finished_ranges()
        if encoded_size(base, ranges) >= pause_bytes:
            return False
        return self._size_bound(base, span, min(2 * len(ranges) + growth, most)) <= max_bytes

    @staticmethod
    def _size_bound(base: int, span: int, numbers: int) -> float:
        """The most that so many numbers take whose sum is the span: the logarithm is concave."""
        return encoded_size(base, ()) + numbers * (1 + log(max(1.0, span / numbers), 32))

    def copy(self) -> Self:
        """An independent copy, to see what a commit would say."""
        made = type(self)(self.position)
        made._window = self._window.copy()
        made._finished = self._finished.copy()
        made._restored = self._restored
        return made
