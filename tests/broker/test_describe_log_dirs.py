"""DescribeLogDirs: where partitions are, and how large."""

from __future__ import annotations

import os

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    batch_of,
    create,
    delete,
    every_version_of,
    fill,
    session_with,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


def ask(
    connection: RawConnection, wanted: dict[str, list[int]] | None, version: int = 5
) -> DescribeLogDirsResult:
    topics = (
        None
        if wanted is None
        else [
            DescribableLogDirTopic(topic=name, partitions=partitions)
            for name, partitions in wanted.items()
        ]
    )
    answer = connection.call(
        DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, version
    )
    assert answer.error_code == ErrorCode.NONE
    result: DescribeLogDirsResult = answer.results[0]
    assert len(answer.results) == 1
    return result


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_size
        for topic in result.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", every_version_of(DescribeLogDirsRequest))
def test_sizes_of_partitions(
    broker: ottla.Broker, connection: RawConnection, topic: str, version: int
) -> None:
    create(connection, topic, 2)
    fill(connection, topic, b"v", b"v")
    fill(connection, topic, b"v", partition=1)
    result = ask(connection, {topic: [0, 1]}, version)
    size = len(batch_of(b"v"))
    assert sizes(result) == {(topic, 0): 2 * size, (topic, 1): size}
    assert result.error_code == ErrorCode.NONE
    assert os.path.samefile(result.log_dir, broker.data_dir)
    assert os.path.isabs(result.log_dir)
    for each in result.topics[0].partitions:
        assert (each.offset_lag, each.is_future_key) == (0, False)
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes
    assert not result.is_cordoned


def test_all_partitions_or_only_those_asked_for(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic, 2)
        for partition in (0, 1):
            fill(connection, topic, b"v", partition=partition)
        assert set(sizes(ask(connection, None))) == {(topic, 0), (topic, 1)}
        assert set(sizes(ask(connection, {topic: [1, 9], "no-such-topic": [0]}))) == {(topic, 1)}
        assert sizes(ask(connection, {})) == {}
    broker.stop()
    # Partitions that nobody has used since the start are there as well.
    with session_with(start()) as connection:
        assert set(sizes(ask(connection, None))) == {(topic, 0), (topic, 1)}


def test_a_deleted_topic_is_not_there(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"v")
    delete(connection, topic)
    assert sizes(ask(connection, {topic: [0]})) == {}
