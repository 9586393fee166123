"""Which letters of a dead-letter partition were replayed or dropped, as ranges of offsets."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, Self

_VERSION: Final = 1


class DoneLetters:
    """The letters that are done: all before `start_offset`, and those in ranges behind it.

    Read a partition from `start_offset` on and call `pass_by` or `finish` for each of its letters, in order: offsets
    between letters, as those of markers, then belong to the letter before them, and the ranges stay few.
    """

    def __init__(self, start_offset: int = 0, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.start_offset = start_offset
        self._ranges = [*ranges]
        self._previous_end: int | None = start_offset

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The ranges behind the start offset, from start (inclusive) to end (exclusive), in order and apart."""
        return [*self._ranges]

    def __contains__(self, offset: int) -> bool:
        if offset < self.start_offset:
            return True
        place = bisect_right(self._ranges, (offset, 1 << 63)) - 1
        return place >= 0 and offset < self._ranges[place][1]

    def trim(self, log_start_offset: int) -> None:
        """Forget what is before the start of the log."""
        if log_start_offset > self.start_offset:
            self._add(self.start_offset, log_start_offset)
            self._previous_end = self.start_offset

    def pass_by(self, offset: int) -> None:
        """The next letter stays as it is: done, or not."""
        if offset in self:
            self.finish(offset)
        else:
            self._previous_end = None

    def finish(self, offset: int) -> None:
        """The next letter is done."""
        start = offset if self._previous_end is None else min(offset, self._previous_end)
        self._add(start, offset + 1)
        self._previous_end = offset + 1

    def _add(self, start: int, end: int) -> None:
        merged: list[tuple[int, int]] = []
        for each in sorted([*self._ranges, (start, end)]):
            if merged and each[0] <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], each[1]))
            else:
                merged.append(each)
        while merged and merged[0][0] <= self.start_offset:
            self.start_offset = max(self.start_offset, merged.pop(0)[1])
        self._ranges = merged

    def encode(self, topic_id: str | None) -> bytes:
        """As the value of a record; the id tells a topic from a later one with the same name."""
        fields = {
            "version": _VERSION,
            "topic_id": topic_id,
            "start_offset": self.start_offset,
            "ranges": self._ranges,
        }
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, value: bytes | None, topic_id: str | None) -> Self:
        """The letters that are done; none if the value is about an earlier topic. Raises ValueError for garbage."""
        if value is None:
            return cls()
        fields = json.loads(value)
        if not isinstance(fields, dict) or fields.get("version") != _VERSION:
            raise ValueError("it is not of version 1")
        if fields["topic_id"] != topic_id:
            return cls()
        ranges = [(int(start), int(end)) for start, end in fields["ranges"]]
        return cls(int(fields["start_offset"]), ranges)
