"""Random histories of a compacted log, cleaned at random moments, compared with all that was ever appended."""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.broker.compacted import RETENTION_MS, CompactedLog, Producer
from tests.storage.batches import SteppingClock

from ottla.ports import LogStore
from ottla.records.batch import BatchFlag
from ottla.records.compression import Codec
from ottla.records.control import MarkerType
from ottla.records.record import Record
from ottla.storage.local import open_local_store
from ottla.storage.memory import MemoryStore

keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
values = st.one_of(st.none(), st.binary(min_size=1, max_size=4))
batches = st.lists(st.tuples(keys, values), min_size=1, max_size=4)
codecs = st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD, Codec.LZ4])
PLAIN, TRANSACTIONAL = (1, 2), (11, 12)


@dataclass
class Sender:
    """A producer id: its next sequence, its epoch, and whether a transaction of it is open."""

    sequence: int = 0
    epoch: int = 0
    open: bool = False


class CompactionModel(RuleBasedStateMachine):
    """`decided` has what was appended outside of transactions and in committed ones."""

    store: LogStore

    def __init__(self) -> None:
        super().__init__()
        self.clock = SteppingClock()
        self.senders = {producer_id: Sender() for producer_id in (*PLAIN, *TRANSACTIONAL)}
        self.pending: dict[int, list[Record]] = {}
        self.appended: dict[int, Record] = {}
        self.decided: dict[int, Record] = {}
        self.aborted: set[int] = set()
        self.appended_at_ms: dict[int, int] = {}
        self.log: CompactedLog

    def open(self) -> LogStore:
        return MemoryStore(clock=self.clock)

    @initialize(buffer_bytes=st.sampled_from([400, 1000, 1 << 20]))
    def begin(self, buffer_bytes: int) -> None:
        self.store = self.open()
        self.log = CompactedLog(
            self.store,
            self.clock,
            {"segment.bytes": "600"},
            log_cleaner_dedupe_buffer_size=buffer_bytes,
        )

    def teardown(self) -> None:
        self.store.close()

    def _appended(self, records: list[Record]) -> None:
        for record in records:
            self.appended[record.offset] = record
            self.appended_at_ms[record.offset] = self.clock.value_ms

    @rule(pairs=batches, codec=codecs)
    def append(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        records = self.log.append(*pairs, codec=codec)
        self._appended(records)
        self.decided |= {record.offset: record for record in records}

    @rule(producer_id=st.sampled_from(PLAIN), pairs=batches)
    def append_idempotently(
        self, producer_id: int, pairs: list[tuple[bytes, bytes | None]]
    ) -> None:
        sender = self.senders[producer_id]
        producer = Producer(producer_id, sender.epoch, sender.sequence)
        records = self.log.append(*pairs, producer=producer)
        sender.sequence += len(records)
        self._appended(records)
        self.decided |= {record.offset: record for record in records}

    @rule(producer_id=st.sampled_from(TRANSACTIONAL), pairs=batches)
    def append_in_transaction(
        self, producer_id: int, pairs: list[tuple[bytes, bytes | None]]
    ) -> None:
        sender = self.senders[producer_id]
        producer = Producer(producer_id, sender.epoch, sender.sequence, BatchFlag.TRANSACTIONAL)
        records = self.log.append(*pairs, producer=producer)
        sender.sequence += len(records)
        sender.open = True
        self._appended(records)
        self.pending.setdefault(producer_id, []).extend(records)

    @rule(
        producer_id=st.sampled_from(TRANSACTIONAL),
        outcome=st.sampled_from(list(MarkerType)),
        bump=st.booleans(),
    )
    def end_transaction(self, producer_id: int, outcome: MarkerType, bump: bool) -> None:
        """Also without data: such markers exist."""
        sender = self.senders[producer_id]
        if bump:  # KIP-890: a marker with the next epoch begins a new row of sequences
            sender.epoch += 1
            sender.sequence = 0
        self.log.end_transaction(Producer(producer_id, sender.epoch), outcome)
        sender.open = False
        records = self.pending.pop(producer_id, [])
        if outcome is MarkerType.COMMIT:
            self.decided |= {record.offset: record for record in records}
        else:
            self.aborted |= {record.offset for record in records}

    @rule(ms=st.sampled_from([0, 1, RETENTION_MS]))
    def roll(self, ms: int) -> None:
        self.clock.value_ms += ms
        self.store.tick(self.clock.value_ms)
        self.log.roll()

    @rule(ms=st.sampled_from([0, RETENTION_MS // 2, RETENTION_MS]), fill=st.booleans())
    def clean(self, ms: int, fill: bool) -> None:
        if fill:  # so that there is something to clean
            self.append([(b"z", b"%d" % len(self.appended))], Codec.NONE)
            self.log.roll()
        self.clock.value_ms += ms
        if not self.log.clean():
            return
        cleaned = self.log.shard.log.cleaned_offset
        assert cleaned is not None
        below = [record for record in self.log.records() if record.offset < cleaned]
        assert not self.aborted & {record.offset for record in below}
        found = [record.key for record in below]
        assert len(found) == len(set(found)), "one record of each key is left"

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        start, stable = self.log.shard.log.start_offset, self.log.shard.partition.last_stable_offset
        self.log.shard.trim(start + round(share * share * (stable - start)))

    @precondition(lambda self: hasattr(self, "log"))
    @rule()
    def claim_anew(self) -> None:
        self.log.claim_anew()

    @invariant()
    def readers_miss_nothing(self) -> None:
        if not hasattr(self, "log"):
            return
        seen = self.log.committed()
        offsets = [record.offset for record in seen]
        assert offsets == sorted(set(offsets))
        stable = self.log.shard.partition.last_stable_offset
        assert all(self.decided.get(record.offset) == record for record in seen)
        latest = {
            record.key: record for offset, record in sorted(self.decided.items()) if offset < stable
        }
        for record in latest.values():
            if record.offset < self.log.shard.log.start_offset:
                assert record.offset not in offsets
            elif record.value is not None:
                assert record.offset in offsets, f"{record} was lost"
            elif record.offset not in offsets:
                age_ms = self.clock.value_ms - self.appended_at_ms[record.offset]
                assert age_ms >= RETENTION_MS, f"the tombstone {record} went early"
                assert not any(other.key == record.key for other in seen), "it rose from the dead"

    @invariant()
    def the_log_alone_gives_the_state_of_its_producers(self) -> None:
        if not hasattr(self, "log"):
            return
        live, replayed = self.log.shard.partition, self.log.replayed()
        firsts = [records[0].offset for records in self.pending.values()]
        assert replayed.producers.first_open_offset == (min(firsts) if firsts else None)
        for producer in live.producers:
            again = replayed.producers.get(producer.producer_id)
            if (
                producer.recent_batches
                and producer.recent_batches[-1].last_offset >= live.start_offset
            ):
                assert again is not None
                assert (again.epoch, again.last_sequence, again.recent_batches[-1].last_offset) == (
                    producer.epoch,
                    producer.last_sequence,
                    producer.recent_batches[-1].last_offset,
                )


class LocalCompactionModel(CompactionModel):
    """The same over files."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())

    def open(self) -> LogStore:
        return open_local_store(self.folder / "0", clock=self.clock)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)


STEPS = settings(
    deadline=None, stateful_step_count=60, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.hypothesis
def test_compaction_in_memory_keeps_what_readers_and_producers_need() -> None:
    run_state_machine_as_test(CompactionModel, settings=settings(STEPS, max_examples=150))


@pytest.mark.hypothesis
def test_compaction_on_disk_keeps_what_readers_and_producers_need() -> None:
    run_state_machine_as_test(LocalCompactionModel, settings=settings(STEPS, max_examples=40))


def _random_step(model: CompactionModel, rng: random.Random) -> None:
    pairs = [
        (rng.choice(b"abcde").to_bytes(1, "big"), rng.choice([None, b"x", b"y"]))
        for _ in range(rng.randint(1, 3))
    ]
    match rng.randrange(7):
        case 0:
            model.append(pairs, rng.choice(list(Codec)))
        case 1:
            model.append_idempotently(rng.choice(PLAIN), pairs)
        case 2:
            model.append_in_transaction(rng.choice(TRANSACTIONAL), pairs)
        case 3 | 4:
            outcome = rng.choice(list(MarkerType))
            model.end_transaction(rng.choice(TRANSACTIONAL), outcome, rng.random() < 0.2)
        case 5:
            model.clean(rng.choice([0, RETENTION_MS // 2, RETENTION_MS]), rng.random() < 0.8)
        case 6 if rng.random() < 0.9:
            model.roll(0)
        case 6:
            model.delete_records(rng.random())


@pytest.mark.parametrize("seed", range(20))
def test_long_histories_keep_what_readers_and_producers_need(seed: int) -> None:
    """Longer ones than the state machine makes: a marker goes two cleanings after its transaction's data."""
    rng = random.Random(seed)
    model = CompactionModel()
    model.begin(rng.choice([400, 1000, 1 << 20]))
    for _ in range(300):
        _random_step(model, rng)
        model.readers_miss_nothing()
        model.the_log_alone_gives_the_state_of_its_producers()
    model.teardown()
