"""A read_committed reader sees committed records and no others, whatever range it reads."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from tests.core.client_batches import NOW_MS, client_batch
from tests.storage.batches import SteppingClock, ref_of

from ottla.broker.partitions.replay import replay
from ottla.broker.partitions.shard import Appended, Shard
from ottla.broker.partitions.unsettled_bytes import UnsettledBytes
from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan, overlapping
from ottla.core.append import Prepared, prepare
from ottla.core.partition import READ_COMMITTED
from ottla.core.producer_state import Verification
from ottla.records.batch import BatchHeader, read_batch, split_batches
from ottla.records.control import MarkerType, parse_marker
from ottla.storage.memory import MemoryStore

CONFIG = TopicConfig()


class Transactions:
    """A shard, and what became of every record in it."""

    def __init__(self) -> None:
        self.store = MemoryStore(clock=SteppingClock(NOW_MS))
        self.sequences: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        self.committed: set[int] = set()
        self.restart()

    def restart(self) -> None:
        log = self.store.claim(ref_of(), CONFIG)
        self.shard = Shard(replay(log, NOW_MS), CONFIG, lambda shard: None, UnsettledBytes())

    def send(self, producer_id: int, count: int) -> None:
        """A batch of an open transaction; producer 0 has none and what it sends counts at once."""
        is_transactional = producer_id > 0
        sequence = self.sequences.get(producer_id, 0)
        batch = client_batch(
            count,
            producer_id=producer_id if is_transactional else -1,
            producer_epoch=0 if is_transactional else -1,
            first_sequence=sequence if is_transactional else -1,
            transactional=is_transactional,
        )
        made = prepare(batch, CONFIG, NOW_MS, 9)
        assert isinstance(made, Prepared)
        needed = self.shard.partition.verification_for(made.header, 1) if is_transactional else None
        verification = needed if isinstance(needed, Verification) else None
        appended = self.shard.append(made, NOW_MS, verification)
        assert isinstance(appended, Appended)
        self.sequences[producer_id] = sequence + count
        offsets = range(appended.base_offset, appended.base_offset + count)
        if is_transactional:
            self.open.setdefault(producer_id, []).extend(offsets)
        else:
            self.committed.update(offsets)

    def end(self, producer_id: int, kind: MarkerType) -> None:
        assert isinstance(self.shard.append_marker(kind, producer_id, 0, 1, 1, NOW_MS), Appended)
        offsets = self.open.pop(producer_id, [])
        if kind is MarkerType.COMMIT:
            self.committed.update(offsets)

    def read(self, offset: int, max_bytes: int) -> tuple[list[int], int]:
        """The offsets that a read_committed client would hand out, and where it goes on."""
        bounds = self.shard.partition.bounds(READ_COMMITTED)
        records = self.shard.read(offset, max_bytes, bounds.end_offset)
        aborted = self.shard.aborted_in(records, offset, bounds.end_offset)
        return filtered(bytes(records), offset, aborted)


def filtered(records: bytes, offset: int, aborted: Sequence[AbortedSpan]) -> tuple[list[int], int]:
    """What Kafka's consumer does with records and the list of aborted transactions."""
    waiting = sorted(aborted, key=lambda span: span.first_offset)
    active: set[int] = set()
    seen: list[int] = []
    following = offset
    for header, batch in batches_of(records):
        while waiting and waiting[0].first_offset <= header.last_offset:
            active.add(waiting.pop(0).producer_id)
        following = header.last_offset + 1
        if header.is_control:
            marker = parse_marker(read_batch(batch, 0)[0])
            if marker is not None and marker.type is MarkerType.ABORT:
                active.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in active):
            seen += range(max(offset, header.base_offset), header.last_offset + 1)
    return seen, following


def batches_of(records: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    for position, header in split_batches(records):
        yield header, records[position : position + header.size_bytes]


@pytest.mark.parametrize("seed", range(20))
def test_every_read_gives_the_committed_records_and_no_others(seed: int) -> None:
    rng = random.Random(seed)
    log = Transactions()
    for _ in range(120):
        step = rng.random()
        producer_id = rng.randrange(5)
        if step < 0.6:
            log.send(producer_id, rng.randint(1, 4))
        elif step < 0.95:
            if producer_id:
                log.end(producer_id, rng.choice(list(MarkerType)))
        elif step < 0.97:
            log.shard.roll()
        else:
            log.restart()
    stable = log.shard.partition.last_stable_offset
    expected = sorted(offset for offset in log.committed if offset < stable)
    for offset in range(stable):
        seen, following = log.read(offset, rng.choice([1, 300, 2000, 1 << 20]))
        assert seen == [found for found in expected if offset <= found < following]


def test_a_transaction_without_data_on_the_partition_leaves_no_span() -> None:
    log = Transactions()
    log.end(1, MarkerType.ABORT)
    log.send(2, 1)
    log.end(2, MarkerType.COMMIT)
    assert list(log.shard.log.aborted(0)) == []


def test_a_span_tells_how_far_nothing_was_open_any_more() -> None:
    log = Transactions()
    log.send(1, 2)  # 0, 1
    log.send(2, 1)  # 2
    log.end(2, MarkerType.ABORT)  # 3, while 1 is open
    log.end(1, MarkerType.ABORT)  # 4
    assert list(log.shard.log.aborted(0)) == [AbortedSpan(2, 2, 3, 0), AbortedSpan(1, 0, 4, 5)]


def test_a_replay_notes_no_span_twice() -> None:
    log = Transactions()
    for producer_id in (1, 2, 3):
        log.send(producer_id, 1)
        log.end(producer_id, MarkerType.ABORT)
    expected = list(log.shard.log.aborted(0))
    for _ in range(3):
        log.restart()
        assert list(log.shard.log.aborted(0)) == expected
    assert len(expected) == 3


def test_the_search_stops_where_nothing_can_follow() -> None:
    spans = [AbortedSpan(1, 0, 4, 5), AbortedSpan(1, 6, 8, 9)]

    def then_a_bug() -> Iterator[AbortedSpan]:
        yield from spans
        raise AssertionError("read on")

    assert overlapping(then_a_bug(), 0, 9) == spans
    assert overlapping(then_a_bug(), 5, 7) == spans[1:]
    assert overlapping(iter(spans), 0, 10) == spans
