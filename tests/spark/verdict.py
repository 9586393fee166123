"""What has to be true of a pipeline's output after any fault: one checker for all of them.

The log of the output is cut into its transactions, without the help of a consumer. Each one that was committed has to
be one micro-batch of the checkpoint, whole; all of them up to the marker are there, each once and in order; and the
group's offsets are where the last one ends. It needs a broker that gives every transaction its own epoch (KIP-890).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.waiting import in_time

import ottla
from ottla.client.raw import RawConnection
from ottla.model import TopicPartition
from ottla.records.batch import read_batch, split_batches
from ottla.records.control import MarkerType, parse_marker_type
from ottla.spark.sink.progress import Marker, marker_group, transactional_id
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

SETTLE_SECONDS = 30.0

Values = Counter[bytes]


class Input(NamedTuple):
    """A record of a source."""

    topic: str
    partition: int
    offset: int
    value: bytes


class MicroBatch(NamedTuple):
    """What a checkpoint has of one."""

    number: int
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    digest: str

    def inputs(self, everything: Sequence[Input]) -> list[Input]:
        """The records that it reads."""
        return [each for each in everything if self._has(each)]

    def _has(self, record: Input) -> bool:
        place = TopicPartition(record.topic, record.partition)
        return place in self.ends and self.starts[place] <= record.offset < self.ends[place]


# The output of each micro-batch, of the inputs of each.
Shape = Callable[[Sequence[Sequence[Input]]], list[Values]]


@dataclass(frozen=True)
class Checked:
    """A pipeline as the checker sees it."""

    pipeline: str
    servers: str
    sink: str
    source_servers: str
    sources: Sequence[str]
    checkpoints: Sequence[Path]
    """Those that queries of the pipeline had, one after the other."""
    shape: Shape

    # What the cluster says

    def marker(self) -> Marker | None:
        group = marker_group(self.pipeline)
        found = self._offsets(group)
        kept = found.get(TopicPartition(self.sink, 0))
        return None if kept is None else Marker.from_offset(kept, group)

    def group_offsets(self) -> dict[TopicPartition, int]:
        return {each: at.offset for each, at in self._offsets(self.pipeline).items()}

    def _offsets(self, group: str) -> dict[TopicPartition, Any]:
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            found = admin.list_consumer_group_offsets([group])[group]
        return {each: at for each, at in found.items() if at is not None}

    def _settle(self) -> None:
        """Until a commit that was answered has come to all partitions (KIP-98: markers follow the answer)."""
        deadline = time.monotonic() + SETTLE_SECONDS
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            while True:
                found = admin.list_transactions().get(transactional_id(self.pipeline))
                if found is None or "Prepare" not in found.state:
                    return
                in_time(deadline, f"still {found.state}")
                time.sleep(0.05)

    # What has to be true

    def check_whole(self) -> int:
        """Whole micro-batches up to the marker, each once; how many there are."""
        self._settle()
        marker, log = self.marker(), Transactions.of(self.servers, self.sink)
        expected, ends = self._expected(marker)
        written = [each for each in expected if each]
        assert log.committed == written, (
            f"{len(log.committed)} transactions with {[each.total() for each in log.committed]} records for "
            f"micro-batches of {[each.total() for each in written]}; marker {marker}"
        )
        same_cluster = self.source_servers == self.servers
        assert self.group_offsets() == (ends if same_cluster else {})
        seen = Counter(each.value for each in records(self.servers, [self.sink]))
        assert seen == sum(written, Counter()), "what a reader sees is what was committed"
        return len(expected)

    def check_done(self) -> int:
        """As `check_whole`, and nothing of the sources is left."""
        count = self.check_whole()
        assert not Transactions.of(self.servers, self.sink).open
        ends = self._expected(self.marker())[1]
        left = [
            each
            for each in records(self.source_servers, self.sources)
            if each.offset >= ends.get(TopicPartition(each.topic, each.partition), 0)
        ]
        assert left == [], "records that no micro-batch has"
        return count

    def _expected(self, marker: Marker | None) -> tuple[list[Values], dict[TopicPartition, int]]:
        """The output of each micro-batch that is committed, and where the last one ends."""
        if marker is None:
            return [], {}
        done: list[MicroBatch] = []
        mine = next(each for each in self.checkpoints if query_of(each) == marker.query)
        for folder in self.checkpoints:
            planned = planned_in(folder, len(self.sources))
            if folder == mine:
                done = continued(done, planned)
                (last,) = [each for each in planned if each.number == marker.batch]
                assert marker.plan == last.digest
                done += planned[: planned.index(last) + 1]
                break
            done = continued(done, planned) + planned
        everything = records(self.source_servers, self.sources)
        shaped = self.shape([each.inputs(everything) for each in done])
        return shaped, done[-1].ends


def continued(done: list[MicroBatch], planned: list[MicroBatch]) -> list[MicroBatch]:
    """What queries before had committed when a query with another checkpoint went on."""
    if not done or not planned:
        return done
    return [
        each
        for each in done
        if all(at <= planned[0].starts[place] for place, at in each.ends.items())
    ]


def query_of(checkpoint: Path) -> str | None:
    file = checkpoint / "metadata"
    return str(json.loads(file.read_text())["id"]) if file.exists() else None


def planned_in(checkpoint: Path, source_count: int) -> list[MicroBatch]:
    """The micro-batches of a checkpoint; our own reader of it has no part in this."""
    files = [each for each in (checkpoint / "offsets").glob("*") if each.name.isdigit()]
    found: list[MicroBatch] = []
    for file in sorted(files, key=lambda each: int(each.name)):
        assert len(found) == int(file.name), "the checkpoint has forgotten micro-batches"
        data = file.read_bytes()
        lines = [json.loads(line) for line in data.decode().splitlines()[2:]]
        assert not source_count or len(lines) == source_count
        ends: dict[TopicPartition, int] = {}
        begins: dict[TopicPartition, int] = {}
        for line in lines if source_count else []:
            ends |= flat(line["topics"])
            begins |= flat(line.get("begin", {})) | flat(line.get("new", {}))
        starts = {**(found[-1].ends if found else {}), **begins}
        found.append(MicroBatch(len(found), starts, ends, hashlib.sha256(data).hexdigest()[:32]))
    return found


def flat(topics: dict[str, dict[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): at
        for topic, offsets in topics.items()
        for number, at in offsets.items()
    }


# The log


@dataclass
class Transactions:
    """The log of a topic, cut where its transactions end."""

    committed: list[Values]
    aborted: list[Values]
    open: list[Values]

    @classmethod
    def of(cls, servers: str, topic: str) -> Transactions:
        values: dict[tuple[int, int], Values] = {}
        outcomes: dict[tuple[int, int], set[MarkerType | None]] = {}
        for partition in ends_of(servers, [topic]):
            ended: dict[int, int] = {}
            for header, found in raw_batches(servers, partition):
                producer, epoch = header.producer_id, header.producer_epoch
                if header.is_control:
                    if producer in ended:
                        key = (producer, ended.pop(producer))
                        outcomes[key].add(parse_marker_type(found[0].key))
                    continue
                assert header.is_transactional
                assert ended.setdefault(producer, epoch) == epoch, "one transaction at a time"
                outcomes.setdefault((producer, epoch), set())
                values.setdefault((producer, epoch), Counter()).update(
                    each.value for each in found if each.value is not None
                )
            for producer, epoch in ended.items():
                outcomes[producer, epoch].add(None)
        made = cls([], [], [])
        for key in sorted(values):
            assert len(outcomes[key]) == 1, f"{key} ended in several ways: {outcomes[key]}"
            (outcome,) = outcomes[key]
            kind = {MarkerType.COMMIT: made.committed, MarkerType.ABORT: made.aborted}
            kind.get(outcome, made.open).append(values[key])  # type: ignore[arg-type]
        return made


def raw_batches(servers: str, partition: TopicPartition) -> list[tuple[Any, list[Any]]]:
    """Every batch of a partition, aborted and open ones too."""
    found: list[tuple[Any, list[Any]]] = []
    at = 0
    with RawConnection(servers) as connection:
        while True:
            wanted = FetchPartition(
                partition=partition.partition, fetch_offset=at, partition_max_bytes=1 << 22
            )
            topic = FetchTopic(topic=partition.topic, partitions=[wanted])
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])
            answer = connection.call(request, FetchResponse, 12)
            data = bytes(answer.responses[0].partitions[0].records or b"")
            batches = [
                (header, read_batch(data, position)) for position, header in split_batches(data)
            ]
            if not batches:
                return found
            found += batches
            at = batches[-1][0].last_offset + 1


def records(servers: str, topics: Sequence[str]) -> list[Input]:
    """What a reader with read_committed sees now."""
    if not topics:
        return []
    ends = ends_of(servers, topics)
    found: list[Input] = []
    options = {"bootstrap.servers": servers, "isolation.level": "read_committed"}
    with ottla.Consumer(options) as consumer:
        consumer.assign(list(ends))
        consumer.seek_to_beginning()
        while any(consumer.position(each) < at for each, at in ends.items()):
            found += [
                Input(each.topic, each.partition, each.offset, each.value)
                for each in consumer.poll(5.0)
            ]
    return found


def ends_of(servers: str, topics: Sequence[str]) -> dict[TopicPartition, int]:
    """Where readers with read_committed end."""
    options = {"bootstrap.servers": servers, "isolation.level": "read_committed"}
    with ottla.Consumer(options) as consumer:
        partitions = [
            TopicPartition(topic, each.partition)
            for topic in topics
            for each in consumer.partitions_for(topic)
        ]
        return dict(consumer.end_offsets(partitions))


# Shapes


def copied(batches: Sequence[Sequence[Input]]) -> list[Values]:
    """Every record, with where it was."""
    return [
        Counter(
            b"%s %d %d %s" % (each.topic.encode(), each.partition, each.offset, each.value)
            for each in batch
        )
        for batch in batches
    ]


def counted(batches: Sequence[Sequence[Input]]) -> list[Values]:
    """How many records of each remainder there are so far, all of them each time."""
    counts: Counter[int] = Counter()
    found = []
    for batch in batches:
        counts.update(int(each.value) % 7 for each in batch)
        found.append(Counter(b"%d %d" % (key, count) for key, count in counts.items()))
    return found


def distinct(batches: Sequence[Sequence[Input]]) -> list[Values]:
    """Remainders that were not seen before."""
    seen: set[int] = set()
    found = []
    for batch in batches:
        fresh = {int(each.value) % 50 for each in batch} - seen
        seen |= fresh
        found.append(Counter(b"%d" % each for each in fresh))
    return found


def joined(batches: Sequence[Sequence[Input]]) -> list[Values]:
    """Pairs of equal values of two topics, when the second one has come."""
    sides: dict[str, dict[bytes, Input]] = {}
    found = []
    for batch in batches:
        for each in batch:
            sides.setdefault(each.topic[-1], {})[each.value] = each
        pairs: Values = Counter()
        for value in {each.value for each in batch}:
            left, right = (sides.get(side, {}).get(value) for side in "ab")
            if left is not None and right is not None:
                pairs[b"%d %d %s" % (left.offset, right.offset, value)] += 1
        found.append(pairs)
    return found


def rated(batches: Sequence[Sequence[Input]]) -> list[Values]:
    """Twenty numbers each time."""
    return [
        Counter(b"%d" % number for number in range(20 * at, 20 * at + 20))
        for at in range(len(batches))
    ]
