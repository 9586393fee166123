"""Saving the state of a partition's producers, from which the next replay begins.

No snapshot lies above the high watermark: the snapshot of a fenced leader would count once its successor has appended
other batches up to there.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, NamedTuple

from ottla.core.partition import Partition
from ottla.core.producer_snapshot import SnapshotDraft
from ottla.ports import PartitionLog, SaveTime, Snapshot, StorageError
from ottla.ports.futures import after

# After this many batches, or as many bytes as a segment may have, the state of the producers is saved.
SNAPSHOT_BATCHES: Final = 20_000
# A snapshot of more producers is encoded in slices of this many, which take one or two milliseconds.
SNAPSHOT_PRODUCERS: Final = 1_000


class _Slices(NamedTuple):
    """A snapshot of the state at an offset that is being encoded in slices."""

    draft: SnapshotDraft
    offset: int
    when: SaveTime


class ProducerSnapshots:
    """The snapshots of one partition."""

    def __init__(
        self, log: PartitionLog, partition: Partition, saved_offset: int, unsaved_batches: int
    ) -> None:
        self.saved_offset = saved_offset  # of the newest snapshot
        self._log = log
        self._partition = partition
        self._unsaved_batches = unsaved_batches
        self._unsaved_bytes = 0
        self._slices: _Slices | None = None

    def appended(self, size_bytes: int, segment_bytes: int) -> None:
        """Counts a batch; saves the state now and then, so that a replay after a crash is short."""
        self._unsaved_batches += 1
        self._unsaved_bytes += size_bytes
        if self._unsaved_batches >= SNAPSHOT_BATCHES or self._unsaved_bytes >= segment_bytes:
            with suppress(StorageError):
                self._save_in_background(SaveTime.SOON)

    def save_at_roll(self) -> None:
        """Saves the state with every new segment, as Kafka does."""
        _ignore_failure(self._finish_slices())
        self._save_in_background(SaveTime.NOW)

    def save_if_durable(self) -> asyncio.Future[None] | None:
        """Saves the state if the whole log is durable, so that the next claim needs no replay."""
        if self.saved_offset < self._partition.end_offset <= self._partition.high_watermark:
            return self._save(SaveTime.NOW)
        return None

    def save_at_close(self) -> None:
        """Saves the state for the next start: the engine makes everything durable when it closes."""
        if self._partition.end_offset > self.saved_offset:
            self._log.save_snapshot(self._snapshot(), SaveTime.AT_CLOSE)

    def cover(self, offset: int) -> asyncio.Future[None] | None:
        """Saves a snapshot at or above an offset, unless there is one: batches below can then be deleted."""
        return after(self._finish_slices(), lambda: self._save_unless_covered(offset))

    def _save_unless_covered(self, offset: int) -> asyncio.Future[None] | None:
        if self.saved_offset >= offset or not self._partition.producers:
            return None
        return self._save(SaveTime.NOW)

    def _save_in_background(self, when: SaveTime) -> None:
        """Saves the state as it is now; in slices if there are many producers, and a loop is running."""
        self._unsaved_batches = self._unsaved_bytes = 0
        if len(self._partition.producers) > SNAPSHOT_PRODUCERS:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                pass
            else:
                self._begin_slices(loop, when)
                return
        _ignore_failure(self._save(when))

    def _save(self, when: SaveTime) -> asyncio.Future[None] | None:
        return self._save_when_durable(self._snapshot(), when)

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._partition.end_offset, self._partition.producers.to_snapshot())

    def _save_when_durable(self, snapshot: Snapshot, when: SaveTime) -> asyncio.Future[None] | None:
        """Saves a snapshot when everything that it covers is durable."""
        durable = None if snapshot.offset <= self._partition.high_watermark else self._log.flush()
        saved = after(durable, lambda: self._log.save_snapshot(snapshot, when))
        return after(saved, lambda: self._set_saved(snapshot.offset))

    def _set_saved(self, offset: int) -> None:
        self.saved_offset = max(self.saved_offset, offset)

    # Snapshots in slices.

    def _begin_slices(self, loop: asyncio.AbstractEventLoop, when: SaveTime) -> None:
        if self._slices is None:
            draft = self._partition.producers.begin_snapshot()
            self._slices = _Slices(draft, self._partition.end_offset, when)
            loop.call_soon(self._encode_slice, self._slices)

    def _encode_slice(self, slices: _Slices) -> None:
        if slices is not self._slices:
            return
        if not self._log.is_open:
            self._end_slices()
            return
        slices.draft.advance(SNAPSHOT_PRODUCERS)
        if not slices.draft.is_complete:
            asyncio.get_running_loop().call_soon(self._encode_slice, slices)
            return
        self._end_slices()
        with suppress(StorageError):
            snapshot = Snapshot(slices.offset, slices.draft.finish())
            _ignore_failure(self._save_when_durable(snapshot, slices.when))

    def _finish_slices(self) -> asyncio.Future[None] | None:
        """Encodes the rest of a snapshot in slices at once, and saves it."""
        slices = self._slices
        if slices is None:
            return None
        self._end_slices()
        snapshot = Snapshot(slices.offset, slices.draft.finish())
        return self._save_when_durable(snapshot, SaveTime.NOW)

    def _end_slices(self) -> None:
        self._slices = None
        self._partition.producers.end_snapshot()


def _ignore_failure(saved: asyncio.Future[None] | None) -> None:
    """Without a snapshot only the next replay is longer."""
    if saved is not None:
        saved.add_done_callback(lambda done: done.cancelled() or done.exception())
