"""Opening a partition after a kill: bounded, in slices, and nobody sees a state that is not complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.compacted import CompactedLog, Producer, WithoutSnapshots
from tests.storage.batches import SteppingClock
from tests.storage.conftest import Opener, crash_copy

from ottla.broker.clock import SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.loop.loop_share import at_once
from ottla.broker.node import Node
from ottla.broker.partitions import replay
from ottla.broker.partitions import shard as shards
from ottla.broker.partitions.replay import SLICE_BATCHES, Replay
from ottla.broker.partitions.shard import Shard
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.core.catalog import GROUPS_TOPIC, NewTopic, Topic
from ottla.core.outcomes import Refused
from ottla.core.partition import Partition
from ottla.core.producer_snapshot import SnapshotDraft, read_snapshot
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.ports import BatchEntry, LogStore
from ottla.ports.futures import settled
from ottla.records.batch import BatchFlag, build_batch
from ottla.records.control import MarkerType
from ottla.records.record import Record
from ottla.storage.local import LocalStore, open_local_store
from ottla.storage.local.folder import checkpoint_files
from ottla.storage.memory import MemoryStore

TOPIC = "orders"
NOW_MS = SteppingClock().now_ms()
NOT_YET = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def open_store() -> Iterator[Opener]:
    opened: list[LocalStore] = []

    def open_one(folder: Path) -> LocalStore:
        opened.append(open_local_store(folder, clock=SteppingClock()))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def node_over(store: LogStore, partitions: int = 1) -> Node:
    cluster = Cluster(store, SteppingClock(), SystemIds())
    node = Node(cluster, BrokerConfig.read({"offsets.topic.num.partitions": 1}))
    cluster.join(node)
    if TOPIC not in cluster.catalog.topics:
        (made,) = node.topics.create([NewTopic(TOPIC, partitions, 1, {}, {})])
        assert isinstance(made, Topic)
    return node


def shard_of(node: Node, partition: int = 0, topic: str = TOPIC) -> Shard:
    found = node.partitions.shard(topic, partition)
    assert isinstance(found, Shard)
    return found


def batch(producer_id: int, sequence: int) -> bytes:
    record = Record(0, 0, b"k", b"v")
    return build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def fill(shard: Shard, count: int) -> None:
    for sequence in range(count):
        shard.append_own(batch(7, sequence), NOW_MS)


def forget(node: Node) -> None:
    """Leaves every partition as a kill does."""
    for one in node.partitions.open_shards():
        node.partitions.discard(one)


def state_of(partition: Partition) -> object:
    producers = {producer.producer_id: producer for producer in partition.producers}
    return partition.start_offset, partition.end_offset, partition.high_watermark, producers


async def opened(node: Node, partition: int = 0) -> Shard:
    for _ in range(10_000):
        if isinstance(found := node.partitions.shard(TOPIC, partition), Shard):
            return found
        assert found is NOT_YET
        await asyncio.sleep(0)
    raise AssertionError("the replay does not end")


class Turns:
    """How many batches were replayed in each turn of the loop."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.counts = [0]
        real = Replay._apply

        def apply(replay: Replay, entry: BatchEntry) -> None:
            self.counts[-1] += 1
            real(replay, entry)

        patch.setattr(Replay, "_apply", apply)
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self.counts.append(0)
        asyncio.get_running_loop().call_soon(self._next)


def test_a_long_replay_gives_the_loop_back_and_is_seen_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        node = node_over(MemoryStore(clock=SteppingClock()))
        fill(shard_of(node), 3 * SLICE_BATCHES + 5)
        expected = state_of(shard_of(node).partition)
        forget(node)
        turns = Turns(monkeypatch)
        assert node.partitions.shard(TOPIC, 0) is NOT_YET
        assert node.partitions.shard(TOPIC, 0) is NOT_YET, "asking again does not begin again"
        assert state_of((await opened(node)).partition) == expected
        assert max(turns.counts) == SLICE_BATCHES
        assert sum(turns.counts) == 3 * SLICE_BATCHES + 5

    asyncio.run(scenario())


def test_a_short_replay_is_part_of_the_request() -> None:
    async def scenario() -> None:
        node = node_over(MemoryStore(clock=SteppingClock()))
        fill(shard_of(node), SLICE_BATCHES)
        forget(node)
        assert isinstance(node.partitions.shard(TOPIC, 0), Shard)

    asyncio.run(scenario())


def test_many_partitions_that_are_opened_at_once_share_a_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        node = node_over(MemoryStore(clock=SteppingClock()), partitions=20)
        for partition in range(20):
            fill(shard_of(node, partition), 100)
        forget(node)
        turns = Turns(monkeypatch)
        found = [node.partitions.shard(TOPIC, partition) for partition in range(20)]
        assert sum(isinstance(one, Shard) for one in found) == SLICE_BATCHES // 100
        for partition in range(20):
            await opened(node, partition)
        assert max(turns.counts) <= SLICE_BATCHES
        # When nothing is left to do, the next request has a slice of its own again.
        await asyncio.sleep(0.001)
        node.partitions.discard(shard_of(node, 3))
        assert isinstance(node.partitions.shard(TOPIC, 3), Shard)

    asyncio.run(scenario())


def end_of_replay(change: Callable[[Node], None]) -> Node:
    """A node in the middle of a replay to which something happens."""

    async def scenario() -> Node:
        node = node_over(MemoryStore(clock=SteppingClock()))
        fill(shard_of(node), 3 * SLICE_BATCHES)
        forget(node)
        assert node.partitions.shard(TOPIC, 0) is NOT_YET
        change(node)
        await asyncio.sleep(0.01)
        return node

    return asyncio.run(scenario())


def configure(node: Node, topic: Topic, options: dict[str, str]) -> None:
    node.cluster.commit(node.cluster.catalog.configure(topic, options))


def test_a_topic_that_is_deleted_during_its_replay_is_gone() -> None:
    def delete(node: Node) -> None:
        cluster = node.cluster
        cluster.commit(cluster.catalog.delete(cluster.catalog.topics[TOPIC], NOW_MS))
        at_once(cluster.deletion.remove_data())

    node = end_of_replay(delete)
    assert node.partitions.open_shards() == []
    assert node.partitions.offline_partitions() == []


def test_options_that_change_during_a_replay_hold_after_it() -> None:
    def change(node: Node) -> None:
        topic = node.cluster.catalog.topics[TOPIC]
        configure(node, topic, {"segment.bytes": "1048576"})

    (shard,) = end_of_replay(change).partitions.open_shards()
    assert shard.config.segment_bytes == 1048576


def test_a_node_that_ends_during_a_replay_opens_nothing_more() -> None:
    assert end_of_replay(lambda node: node.partitions.end()).partitions.open_shards() == []


def test_a_log_that_fails_during_a_replay_is_offline() -> None:
    def damage(node: Node) -> None:
        partition = node.cluster.store._partitions[TOPIC, 0]  # type: ignore[attr-defined]
        batches = partition.segments[0].batches
        batches[-1] = batches[-1][:16] + b"\x07" + batches[-1][17:]

    node = end_of_replay(damage)
    assert node.partitions.open_shards() == []
    assert node.partitions.offline_partitions() == [(TOPIC, 0)]


def test_a_coordinator_waits_for_the_replay_of_its_partition() -> None:
    async def scenario() -> None:
        node = node_over(MemoryStore(clock=SteppingClock()))
        assert isinstance(node.groups.partition_of("any"), TopicPartition)
        unknown = build_batch([Record(0, 0, b"\x00\x63", b"")], producer_id=7, producer_epoch=0)
        for _ in range(SLICE_BATCHES + 1):
            shard_of(node, 0, GROUPS_TOPIC).append_own(unknown, NOW_MS)
        forget(node)
        assert node.groups.find("g") == Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not isinstance(node.groups.find("g"), Refused)

    asyncio.run(scenario())


# Snapshots.


def test_a_replay_is_bounded_because_the_state_is_saved_as_the_log_grows(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SNAPSHOT_BATCHES", 50)

    async def scenario() -> object:
        node = node_over(open_store(tmp_path / "live"))
        opened = shard_of(node)
        for sequence in range(1000):
            opened.append_own(batch(7, sequence), NOW_MS)
            if sequence % 50 == 49:
                await until_saved(opened, sequence + 1)
        return state_of(opened.partition)

    expected = asyncio.run(scenario())
    node = node_over(open_store(crash_copy(tmp_path / "live", tmp_path / "killed")))
    replays: list[Replay] = []
    monkeypatch.setattr(
        "ottla.broker.partitions.opening.Replay", lambda *given: noted(replays, Replay(*given))
    )
    assert state_of(shard_of(node).partition) == expected
    assert replays[0].batch_count <= 50


def noted(replays: list[Replay], made: Replay) -> Replay:
    replays.append(made)
    return made


async def until_saved(shard: Shard, offset: int) -> None:
    for _ in range(1000):
        if offset in [saved.offset for saved in shard.log.snapshots()]:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no snapshot was saved")


def note_slices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many producers are written down at a time, from now on."""
    sizes: list[int] = []
    add = SnapshotDraft._add
    advance = SnapshotDraft.advance

    def noting_add(draft: SnapshotDraft, producer: Any) -> None:
        sizes[-1] += 1
        add(draft, producer)

    def noting_advance(draft: SnapshotDraft, count: int) -> None:
        sizes.append(0)
        advance(draft, count)

    monkeypatch.setattr(SnapshotDraft, "_add", noting_add)
    monkeypatch.setattr(SnapshotDraft, "advance", noting_advance)
    return sizes


@pytest.mark.parametrize("is_roll", [False, True])
def test_the_state_of_very_many_producers_is_saved_in_slices_as_it_was(
    monkeypatch: pytest.MonkeyPatch, is_roll: bool
) -> None:
    monkeypatch.setattr(shards, "SNAPSHOT_BATCHES", 10_000 if is_roll else 100)
    monkeypatch.setattr(shards, "SNAPSHOT_PRODUCERS", 20)
    sizes = note_slices(monkeypatch)

    async def scenario() -> None:
        opened = shard_of(node_over(MemoryStore(clock=SteppingClock())))
        for producer_id in range(100):
            opened.append_own(batch(producer_id, 0), NOW_MS)
        expected = sorted(read_snapshot(SnapshotDraft(whole(opened)).finish()))
        sizes[:] = [0]
        if is_roll:
            opened.roll()
        # Others go on: the state changes before it is written down, and has new producers.
        for producer_id in range(90, 110):
            opened.append_own(batch(producer_id, int(producer_id < 100)), NOW_MS)
        await until_saved(opened, 100)
        saved = next(each for each in opened.log.snapshots() if each.offset == 100)
        assert sorted(read_snapshot(saved.data)) == expected
        assert max(sizes) <= 20 + 10

    def whole(opened: Shard) -> dict[int, Any]:
        return {producer.producer_id: producer for producer in opened.partition.producers}

    sizes.append(0)
    asyncio.run(scenario())


def test_the_state_is_saved_at_the_base_offset_of_a_segment_that_an_append_begins() -> None:
    node = node_over(MemoryStore(clock=SteppingClock()))
    size_bytes = len(batch(7, 0))
    topic = node.cluster.catalog.topics[TOPIC]
    configure(node, topic, {"segment.bytes": str(1024 * 1024)})
    shard = shard_of(node)
    fill(shard, 1024 * 1024 // size_bytes)
    assert list(shard.log.snapshots()) == []
    expected = shard.partition.producers.to_snapshot()
    fill(shard, 1)
    base_offset = shard.partition.end_offset - 1
    assert shard.log.segments()[-1].base_offset == base_offset
    assert list(shard.log.snapshots()) == [(base_offset, expected)]


@pytest.mark.parametrize("producers_at_once", [1, 1000])
def test_a_log_that_is_cut_still_knows_the_producers_whose_batches_were_deleted(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, producers_at_once: int
) -> None:
    monkeypatch.setattr(shards, "SNAPSHOT_PRODUCERS", producers_at_once)

    async def scenario() -> None:
        node = node_over(open_store(tmp_path / "live"))
        opened = shard_of(node)
        opened.log.configure(TopicConfig(segment_bytes=1000))
        opened.append_own(batch(9, 0), NOW_MS)
        for sequence in range(50):
            opened.append_own(batch(7, sequence), NOW_MS)
            await asyncio.sleep(0.005)
        opened.log.roll()
        await settled(opened.trim(opened.log.segments()[1].base_offset))
        for sequence in range(50, 150):
            opened.append_own(batch(7, sequence), NOW_MS)
            await asyncio.sleep(0.005)
        await until_saved(opened, opened.log.last_base_offset)

    asyncio.run(scenario())
    folder = crash_copy(tmp_path / "live", tmp_path / "cut") / f"{TOPIC}-0"
    bases = sorted(int(path.stem) for path in folder.glob("*.log"))
    assert len(bases) > 6
    saved = {int(path.stem) for path in folder.glob("*.snapshot")}
    assert len(saved & set(bases)) > len(bases) // 2, "most stand at the base offset of a segment"
    for base_offset in bases[3:]:
        for path in folder.glob(f"{base_offset:020d}.*"):
            if path.suffix != ".snapshot":
                path.unlink()
    found = shard_of(node_over(open_store(tmp_path / "cut"))).partition.producers
    assert {producer.producer_id for producer in found} == {7, 9}


def test_retention_deletes_where_there_is_no_room_for_a_snapshot() -> None:
    clock = SteppingClock()
    store = MemoryStore(clock=clock)
    shard = shard_of(node_over(store))
    fill(shard, 5)
    shard.roll()
    fill(shard, 5)
    shard.log.roll()
    store._budget.max_bytes = store._budget.used_bytes
    assert shard.apply_retention(clock.now_ms() + shard.config.retention_ms + 1) is None
    assert shard.log.start_offset == shard.partition.start_offset == 10
    store._budget.max_bytes = 1 << 30
    fill(shard, 1)
    assert next(shard.log.snapshots()).offset == 10, "the next append saves it"


def test_nothing_is_deleted_before_the_state_of_its_producers_is_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards, "SNAPSHOT_PRODUCERS", 20)

    async def scenario() -> None:
        opened = shard_of(node_over(MemoryStore(clock=SteppingClock())))
        for producer_id in range(100):
            opened.append_own(batch(producer_id, 0), NOW_MS)
        opened.roll()
        assert [saved.offset for saved in opened.log.snapshots()] == []
        trimmed = opened.trim(100)
        assert trimmed is not None
        assert opened.log.start_offset == 0
        await trimmed
        assert opened.log.start_offset == 100
        assert [saved.offset for saved in opened.log.snapshots()] == [100]
        replayed = Replay(opened.log, NOW_MS)
        replayed.advance(1000)
        assert replayed.is_over
        assert state_of(replayed.partition) == state_of(opened.partition)

    asyncio.run(scenario())


def test_a_large_snapshot_is_loaded_in_slices() -> None:
    opened = shard_of(node_over(MemoryStore(clock=SteppingClock())))
    for producer_id in range(100):
        opened.append_own(batch(producer_id, 0), NOW_MS)
    opened.save()
    opened.append_own(batch(7, 1), NOW_MS)
    made = Replay(opened.log, NOW_MS)
    assert made.saved_offset == 100
    lengths = []
    while not made.is_over:
        made.advance(30)
        lengths.append(len(made.partition.producers))
    assert lengths == [30, 60, 90, 100]
    assert state_of(made.partition) == state_of(opened.partition)


def test_a_claim_reads_one_snapshot_once(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_over(open_store(tmp_path))
    for _ in range(10):
        fill(shard_of(node), 3)
        shard_of(node).roll()
    forget(node)
    assert len(list((tmp_path / f"{TOPIC}-0").glob("*.snapshot"))) == 10
    read: list[str] = []
    real = checkpoint_files.read_small_file

    def read_small_file(path: str) -> bytes | None:
        if path.endswith(".snapshot"):
            read.append(path)
        return real(path)

    monkeypatch.setattr(checkpoint_files, "read_small_file", read_small_file)
    shard_of(node)
    assert [Path(path).name for path in read] == [f"{30:020d}.snapshot"]


# Compaction.


@pytest.mark.parametrize("outcome", list(MarkerType))
def test_a_transaction_whose_marker_was_compacted_away_is_not_open_after_a_replay(
    outcome: MarkerType,
) -> None:
    """A snapshot from the middle of it says that it is, if the newer ones are damaged."""
    clock = SteppingClock()
    log = CompactedLog(MemoryStore(clock=clock), clock)
    producer = Producer(7, 0, 0, BatchFlag.TRANSACTIONAL)
    log.append((b"k", b"in a transaction"), producer=producer)
    log.roll()
    # Those at the beginning of a segment are kept as long as that is.
    old = list(log.shard.log.snapshots())
    log.end_transaction(producer, outcome)
    log.shard.partition.producers.expire(clock.now_ms(), 0)
    for value in range(4):
        log.append((b"k", b"%d" % value))
        log.clean_all()
        clock.value_ms += 10_000
    log.append((b"end", b""))
    assert not any(header.is_control for header in log.headers())

    class WithOldSnapshot(WithoutSnapshots):
        def snapshots(self) -> Any:
            return iter(old)

    made = replay.replay(WithOldSnapshot(log.shard.log), clock.now_ms())
    assert made.partition.producers.first_open_offset is None
    assert made.partition.last_stable_offset == log.shard.partition.end_offset


def test_a_transaction_that_is_open_behind_the_cleaned_part_stays_open() -> None:
    clock = SteppingClock()
    log = CompactedLog(MemoryStore(clock=clock), clock)
    for value in range(3):
        log.append((b"k", b"%d" % value))
    log.clean_all()
    producer = Producer(7, 0, 0, BatchFlag.TRANSACTIONAL)
    log.append((b"t", b"open"), producer=producer)
    assert log.shard.log.cleaned_offset == 3
    log.claim_anew()
    assert log.shard.partition.last_stable_offset == 3
