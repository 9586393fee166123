"""Finding batches of a log by timestamp.

Rows of the tail have headers, which say where a batch is and when it was written; of stored segments the batches are
looked at, and read if they are not in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Protocol

from ottla.ports import Buffer
from ottla.storage.shared.log.runs import Run, Runs
from ottla.storage.shared.read.block import Block
from ottla.storage.shared.run_headers import read_run_headers
from ottla.storage.shared.segment_marks import Mark


class TimedLog(Protocol):
    @property
    def runs(self) -> Runs: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def block_at(self, offset: int) -> Block:
        """May raise ReadPendingError."""
        ...

    def marks_of(self, base_offset: int) -> Sequence[Mark]:
        """The marks of a stored segment; may raise ReadPendingError."""
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer: ...


def batch_at_timestamp(log: TimedLog, timestamp_ms: int, offset: int) -> Buffer | None:
    """The first batch at or after an offset whose max timestamp is at least `timestamp_ms`."""
    for run in log.runs.from_offset(offset):
        if run.max_timestamp_ms >= timestamp_ms and run.size_bytes:
            found = _in_run(log, run, timestamp_ms, max(offset, run.base_offset))
            if found is not None:
                return found
    return None


def batch_of_max_timestamp(log: TimedLog) -> Buffer | None:
    """The first batch with the largest timestamp of a log."""
    best: tuple[int, Run] | None = None
    for run in log.runs.from_offset(log.start_offset):
        if not run.size_bytes:
            continue
        timestamp_ms: int | None = run.max_timestamp_ms
        if run.base_offset < log.start_offset:
            timestamp_ms = _largest_in(log, run, log.start_offset)
        if timestamp_ms is not None and (best is None or timestamp_ms > best[0]):
            best = timestamp_ms, run
    if best is None:
        return None
    return _in_run(log, best[1], best[0], max(log.start_offset, best[1].base_offset))


def _in_run(log: TimedLog, run: Run, timestamp_ms: int, offset: int) -> Buffer | None:
    if run.headers is not None:
        for entry in read_run_headers(run.headers):
            header = entry.header
            if header.last_offset >= offset and header.max_timestamp >= timestamp_ms:
                return log.read(header.base_offset, 0, log.end_offset)
        return None
    marks = log.marks_of(run.base_offset)
    for mark, next_mark in zip_longest(marks, marks[1:]):
        end_offset = run.end_offset if next_mark is None else next_mark.base_offset
        if mark.max_timestamp_ms < timestamp_ms or end_offset <= offset:
            continue
        offset = max(offset, mark.base_offset)
        while offset < end_offset:
            block = log.block_at(offset)
            found = block.first_at_timestamp(timestamp_ms, offset)
            if found is not None:
                return found
            offset = block.end_offset
    return None


def _largest_in(log: TimedLog, run: Run, offset: int) -> int | None:
    if run.headers is not None:
        return max(
            (
                entry.header.max_timestamp
                for entry in read_run_headers(run.headers)
                if entry.header.last_offset >= offset
            ),
            default=None,
        )
    best: int | None = None
    while offset < run.end_offset:
        block = log.block_at(offset)
        found = block.max_timestamp_ms(offset)
        if found is not None and (best is None or found > best):
            best = found
        offset = block.end_offset
    return best
