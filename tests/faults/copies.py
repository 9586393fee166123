"""What is to be copied, and whether it was: exactly once, with the offsets that say so."""

from __future__ import annotations

import time
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from tests.clients.transactions_seen import open_transactions, wait_for
from tests.clients.transactions_seen import wait_until_stable as wait_stable
from tests.faults.copier import QUICK
from tests.faults.raw_calls import batch_of, create_topic, produce
from tests.waiting import in_time

from ottla import model
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

SOURCE, TARGET, GROUP_ID = "orders", "copies", "copiers"
BATCH_RECORDS = 1_000
READ_SECONDS = 60.0


class Work(NamedTuple):
    """Source and target have as many partitions, and record n of a partition is copied to the same one."""

    partition_count: int
    records_per_partition: int

    @property
    def total(self) -> int:
        return self.partition_count * self.records_per_partition

    def values(self, partition: int) -> list[bytes]:
        return [b"%d-%d" % (partition, number) for number in range(self.records_per_partition)]


def prepare(address: str, work: Work) -> None:
    """The topics, and what is to be copied."""
    with RawConnection(address) as connection:
        for topic in (SOURCE, TARGET):
            assert create_topic(connection, topic, work.partition_count).error_code == 0
        for partition in range(work.partition_count):
            values = work.values(partition)
            for first in range(0, len(values), BATCH_RECORDS):
                batch = batch_of(values[first : first + BATCH_RECORDS], -1, -1)
                error, _ = produce(connection, SOURCE, partition, batch)
                assert error is ErrorCode.NONE


def committed_offsets(address: str, work: Work) -> dict[int, int]:
    """Where the group goes on; empty while a transaction is pending or the coordinator is not ready."""
    partitions = list(range(work.partition_count))
    topics = [OffsetFetchRequestTopics(name=SOURCE, partition_indexes=partitions)]
    group = OffsetFetchRequestGroup(group_id=GROUP_ID, topics=topics)
    request = OffsetFetchRequest(groups=[group], require_stable=True)
    with RawConnection(address) as connection:
        answer = connection.call(request, OffsetFetchResponse, 9)
    (found,) = answer.groups
    if found.error_code != ErrorCode.NONE:
        return {}
    return {
        one.partition_index: one.committed_offset
        for topic in found.topics
        for one in topic.partitions
        if one.error_code == ErrorCode.NONE
    }


def copied_records(address: str, work: Work) -> int:
    return sum(max(offset, 0) for offset in committed_offsets(address, work).values())


def wait_until_copied(address: str, work: Work, seconds: float) -> None:
    wait_for("all is copied", lambda: copied_records(address, work) == work.total, seconds)


def read_target(address: str, work: Work, isolation: str) -> dict[int, list[bytes]]:
    """The target as somebody else's client reads it, up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "checker",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            **QUICK,
        }
    )
    found: dict[int, list[bytes]] = {number: [] for number in range(work.partition_count)}
    unread = set(found)
    consumer.assign([TopicPartition(TARGET, number, 0) for number in found])
    deadline = time.monotonic() + READ_SECONDS
    while unread:
        in_time(deadline, f"the end of {unread} was not reached")
        for message in consumer.consume(1000, timeout=0.5):
            partition = message.partition()
            assert partition is not None
            error = message.error()
            if error is None:
                found[partition].append(message.value() or b"")
            elif error.name() == "_PARTITION_EOF":
                unread.discard(partition)
            else:
                raise AssertionError(error.str())
    consumer.close()
    return found


def problems(found: dict[int, list[bytes]], work: Work) -> list[str]:
    """What is wrong with the copies."""
    wrong = []
    for partition, values in found.items():
        expected = work.values(partition)
        if values == expected:
            continue
        duplicates = len(values) - len(set(values))
        lost = set(expected) - set(values)
        if duplicates:
            wrong.append(f"partition {partition}: {duplicates} duplicates")
        if lost:
            wrong.append(f"partition {partition}: {len(lost)} lost, {min(lost)!r}")
        if set(values) - set(expected):
            wrong.append(f"partition {partition}: records that were never sent")
        if not duplicates and not lost:
            wrong.append(f"partition {partition}: out of order")
    return wrong


def check(address: str, work: Work, *internal: model.TopicPartition) -> None:
    """Exactly one copy of each; offsets and output agree; nothing is open or held back."""
    wait_for("no transaction is open", lambda: not open_transactions([address]))
    targets = [model.TopicPartition(TARGET, number) for number in range(work.partition_count)]
    wait_stable(address, *targets, *internal)
    offsets = committed_offsets(address, work)
    assert offsets == dict.fromkeys(range(work.partition_count), work.records_per_partition), (
        offsets
    )
    assert problems(read_target(address, work, "read_committed"), work) == []


def aborted_records(address: str, work: Work) -> int:
    """How many more there are than copies that count."""
    found = read_target(address, work, "read_uncommitted")
    return sum(map(len, found.values())) - work.total
