"""Random operations on every engine, compared with a list of batches."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.storage.batches import Batch, SteppingClock, append, joined, make_batch, ref_of
from tests.storage.conftest import crash_copy
from tests.storage_contract.shared_stores import SharedPlaces, rewrite_tail

from ottla.config.topic import TopicConfig
from ottla.ports import EpochStart, LogStore, PartitionLog, Snapshot
from ottla.storage.local import open_local_store
from ottla.storage.local.store import LocalStoreOptions
from ottla.storage.memory import MemoryStore

CONFIG = TopicConfig(index_interval_bytes=200, file_delete_delay_ms=1000)
END = 2**62

sizes = st.integers(0, 300)
shares = st.floats(0, 1)


class LogModel(RuleBasedStateMachine):
    """A log beside what it should hold; no batch is ever forgotten by the model, only trimmed."""

    store: LogStore

    def __init__(self) -> None:
        super().__init__()
        self.clock = SteppingClock()
        self.batches: list[Batch] = []
        self.start_offset = 0
        self.end_offset = 0
        self.bases = [0]
        self.epochs: list[EpochStart] = []
        self.log: PartitionLog

    def open(self) -> LogStore:
        return MemoryStore(clock=self.clock)

    @initialize()
    def begin(self) -> None:
        self.store = self.open()
        self.log = self.store.claim(ref_of(), CONFIG)

    def teardown(self) -> None:
        self.store.close()

    def kept(self, offset: int = 0) -> list[Batch]:
        first = max(offset, self.start_offset)
        return [batch for batch in self.batches if batch.extent.last_offset >= first]

    def offset_at(self, share: float) -> int:
        return self.start_offset + round(share * (self.end_offset - self.start_offset))

    @rule(
        shapes=st.lists(
            st.tuples(st.integers(1, 5), st.integers(-1, 60), sizes, st.sampled_from([0, 0, 0, 7])),
            min_size=1,
            max_size=4,
        )
    )
    def append(self, shapes: list[tuple[int, int, int, int]]) -> None:
        made = []
        next_offset = self.end_offset
        for records, timestamp_ms, size_bytes, gap in shapes:
            batch = make_batch(
                next_offset + gap,
                records,
                timestamp_ms=timestamp_ms,
                body=bytes([next_offset % 251]) * size_bytes,
                epoch=self.log.epoch,
            )
            made.append(batch)
            next_offset = batch.extent.last_offset + 1
        if not self.epochs or self.epochs[-1].epoch != self.log.epoch:
            start = EpochStart(self.log.epoch, made[0].extent.base_offset)
            lasting = [entry for entry in self.epochs if entry.start_offset < start.start_offset]
            self.epochs = [*lasting, start]
        append(self.log, *made)
        self.batches += made
        self.end_offset = next_offset

    @rule()
    def roll(self) -> None:
        self.log.roll()
        if self.bases[-1] != self.end_offset and any(
            batch.extent.base_offset >= self.bases[-1] for batch in self.batches
        ):
            self.bases.append(self.end_offset)

    @rule(share=shares)
    def trim(self, share: float) -> None:
        self.start_offset = self.offset_at(share)
        self.log.trim(self.start_offset)
        while len(self.bases) > 1 and self.bases[1] <= self.start_offset:
            del self.bases[0]
        below = [entry for entry in self.epochs if entry.start_offset <= self.start_offset]
        if below:
            first = EpochStart(below[-1].epoch, self.start_offset)
            self.epochs = [first, *self.epochs[len(below) :]]

    @rule(share=shares, max_bytes=st.integers(0, 2000), width=st.integers(0, 60))
    def read(self, share: float, max_bytes: int, width: int) -> None:
        offset = self.offset_at(share)
        end_offset = offset + width
        data = bytes(self.log.read(offset, max_bytes, end_offset))
        wanted = [batch for batch in self.kept(offset) if batch.extent.last_offset < end_offset]
        # Whether the first batch is below the end decides: later ones would leave a hole.
        following = self.kept(offset)
        if not wanted or wanted[0] is not following[0]:
            assert data == b""
            return
        assert data, "there is a batch to give"
        count = next(
            number for number in range(1, len(wanted) + 1) if joined(wanted[:number]) == data
        )
        assert count == 1 or len(data) <= max_bytes

    @rule(timestamp_ms=st.integers(-1, 62), share=shares)
    def find_timestamp(self, timestamp_ms: int, share: float) -> None:
        offset = self.offset_at(share)
        found = self.log.batch_at_timestamp(timestamp_ms, offset)
        wanted = [
            batch.data
            for batch in self.kept(offset)
            if batch.extent.max_timestamp_ms >= timestamp_ms
        ]
        assert (None if found is None else bytes(found)) == (wanted[0] if wanted else None)

    @rule()
    def find_largest_timestamp(self) -> None:
        found = self.log.batch_of_max_timestamp()
        wanted = max(self.kept(), key=lambda batch: batch.extent.max_timestamp_ms, default=None)
        assert (None if found is None else bytes(found)) == (wanted.data if wanted else None)

    @rule()
    def save_snapshot(self) -> None:
        self.log.save_snapshot(Snapshot(self.end_offset, b"at %d" % self.end_offset))
        assert next(self.log.snapshots()) == (self.end_offset, b"at %d" % self.end_offset)

    @rule()
    def claim_anew(self) -> None:
        earlier = self.log.epoch
        self.log = self.store.claim(ref_of(), CONFIG)
        assert self.log.epoch > earlier

    @rule(ms=st.integers(0, 100_000))
    def pass_time(self, ms: int) -> None:
        self.clock.value_ms += ms
        self.store.tick(self.clock.value_ms)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.start_offset, self.log.end_offset) == (self.start_offset, self.end_offset)
        assert [info.base_offset for info in self.log.segments()] == self.bases
        assert list(self.log.epochs) == self.epochs
        held = [batch for batch in self.batches if batch.extent.last_offset >= self.bases[0]]
        assert self.log.size_bytes == len(joined(held))
        for info in self.log.segments():
            inside = [
                batch.extent.max_timestamp_ms
                for batch in held
                if info.base_offset <= batch.extent.base_offset < info.end_offset
            ]
            if max(inside, default=-1) < 0:
                assert info.max_timestamp_ms >= SteppingClock().now_ms(), "when it was written"
            else:
                assert info.max_timestamp_ms == max(inside)


class LocalLogModel(LogModel):
    """The local engine, which is also stopped and killed now and then."""

    def __init__(self) -> None:
        super().__init__()
        # Thousands of syncs: in memory where there is such a place (tests/quick_folders.py).
        self.root = Path(tempfile.mkdtemp(prefix="ottla-model-"))
        self.folder = self.root / "0"
        self.copies = 0

    def open(self) -> LogStore:
        options = LocalStoreOptions(checkpoint_interval_ms=20_000)
        return open_local_store(self.folder, clock=self.clock, options=options)

    def _claim_after_restart(self, earlier: int) -> None:
        self.store = self.open()
        self.log = self.store.claim(ref_of(), CONFIG)
        assert self.log.epoch > earlier

    @rule()
    def stop_and_start(self) -> None:
        self.store.close()
        self._claim_after_restart(self.log.epoch)

    @rule()
    def kill_and_start(self) -> None:
        self.copies += 1
        copy = crash_copy(self.folder, self.root / str(self.copies))
        self.store.close()
        shutil.rmtree(self.folder)
        self.folder = copy
        self._claim_after_restart(self.log.epoch)

    @precondition(
        lambda self: self.batches and self.batches[-1].extent.last_offset >= self.bases[-1]
    )
    @rule(cut_bytes=st.integers(1, 400))
    def tear_a_write(self, cut_bytes: int) -> None:
        """A kill in the middle of an append that nobody was told of."""
        batch = make_batch(self.end_offset, 2, body=b"y" * 300)
        self.copies += 1
        copy = crash_copy(self.folder, self.root / str(self.copies))
        self.store.close()
        shutil.rmtree(self.folder)
        self.folder = copy
        path = copy / "orders-0" / f"{self.bases[-1]:020d}.log"
        with path.open("ab") as file:
            file.write(batch.data[: min(cut_bytes, len(batch.data) - 1)])
        self._claim_after_restart(self.log.epoch)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.root)


class SharedLogModel(LogModel):
    """The shared engine, whose trims delete whole appends, and which rewrites its rows now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.places = SharedPlaces(self.clock)
        self.runs = [0]  # where the stored runs begin
        self.rewritten_offset = 0

    def open(self) -> LogStore:
        return self.places.open()

    @rule(
        shapes=st.lists(
            st.tuples(st.integers(1, 5), st.integers(-1, 60), sizes, st.sampled_from([0, 0, 0, 7])),
            min_size=1,
            max_size=4,
        )
    )
    def append(self, shapes: list[tuple[int, int, int, int]]) -> None:
        before = self.end_offset
        if self.runs[-1] != before:
            self.runs.append(before)
        is_new = not self.epochs or self.epochs[-1].epoch != self.log.epoch
        super().append(shapes)
        if is_new:
            # An epoch begins where the log ended, also if the first batch lies behind a gap.
            lasting = [entry for entry in self.epochs[:-1] if entry.start_offset < before]
            self.epochs = [*lasting, EpochStart(self.log.epoch, before)]

    @rule(share=shares)
    def trim(self, share: float) -> None:
        super().trim(share)
        ends = [*self.runs[1:], self.end_offset]
        kept = [base for base, end in zip(self.runs, ends, strict=True) if end > self.start_offset]
        self.runs = kept or [self.end_offset]
        self.bases = [self.runs[0], *(base for base in self.bases if base > self.runs[0])]

    @rule()
    def claim_anew(self) -> None:
        super().claim_anew()
        self._forget_empty_segment()

    def _forget_empty_segment(self) -> None:
        if len(self.bases) > 1 and self.bases[-1] == self.end_offset:
            del self.bases[-1]

    @rule()
    def rewrite(self) -> None:
        rewrite_tail(self.log)
        done = self.rewritten_offset
        self.runs = [base for base in self.runs if base <= done or base in self.bases]
        self.rewritten_offset = self.end_offset

    @rule()
    def stop_and_start(self) -> None:
        earlier = self.log.epoch
        self.store.close()
        self.store = self.open()
        self.log = self.store.claim(ref_of(), CONFIG)
        assert self.log.epoch > earlier
        self._forget_empty_segment()

    @rule(ms=st.integers(0, 50_000))
    def pass_time(self, ms: int) -> None:
        # Rows are rewritten by `rewrite` alone.
        self.clock.value_ms += ms


@pytest.mark.hypothesis
@pytest.mark.parametrize(
    ("machine", "examples"), [(LogModel, 60), (LocalLogModel, 60), (SharedLogModel, 60)]
)
def test_an_engine_behaves_like_a_list_of_batches(machine: type[LogModel], examples: int) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=40, deadline=None)
    )
