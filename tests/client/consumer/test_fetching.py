"""Fetches as brokers see them: versions, options, sessions."""

from __future__ import annotations

import pytest
from tests.client.consumer.conftest import nothing_comes, poll_until, read, run, values
from tests.client.consumer.scripted import (
    EPOCHS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    TOPIC_ID,
    Cluster,
    Log,
    T,
    until,
)

from ottla.client.model import ConsumerRecord
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest


def fetches(cluster: Cluster) -> list[FetchRequest]:
    return [asked.request for asked in cluster.asked_for(FetchRequest)]


# Versions


@pytest.mark.parametrize("version", [8, 9, 10, 11, 12, 13, 15, 16, 17, 18])
def test_every_version_since_kafka_2_1_brings_records(version: int) -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.nodes[0].versions[FETCH] = (4, version)
        cluster.log.append(b"a", b"b")
        async with cluster.consumer() as consumer:
            assert await values(consumer, 2) == [b"a", b"b"]
            cluster.log.append(b"c")
            assert await values(consumer, 1) == [b"c"]
        assert {asked.version for asked in cluster.asked_for(FetchRequest)} == {version}
        first = fetches(cluster)[0].topics[0]
        if version < 13:
            assert first.topic == "t"
        else:
            assert first.topic_id == TOPIC_ID

    run(test)


def test_a_broker_of_kafka_2_1_is_enough() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        for node in cluster.nodes:
            node.versions |= {
                FETCH: (0, 10),
                LIST_OFFSETS: (0, 4),
                METADATA: (0, 7),
                EPOCHS: (0, 1),
            }
        cluster.log.append(b"a")
        async with cluster.consumer() as consumer:
            assert await values(consumer, 1) == [b"a"]
            cluster.lead(1)
            cluster.log.append(b"b")
            assert await values(consumer, 1) == [b"b"]

    run(test)


def test_topics_without_ids_are_fetched_by_name() -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.ids = {}
        cluster.log.append(b"a")
        async with cluster.consumer() as consumer:
            assert await values(consumer, 1) == [b"a"]
        assert {asked.version for asked in cluster.asked_for(FetchRequest)} == {12}

    run(test)


# What is asked for


def test_fetches_say_what_the_options_say() -> None:
    async def test() -> None:
        cluster = Cluster()
        options = {
            "fetch_min_bytes": 3,
            "fetch_max_bytes": 4000,
            "fetch_max_wait_ms": 7,
            "max_partition_fetch_bytes": 500,
            "isolation_level": "read_committed",
            "client_rack": "rack-b",
        }
        async with cluster.consumer(**options) as consumer:
            await poll_until(consumer, lambda: fetches(cluster))
        first = fetches(cluster)[0]
        assert (first.min_bytes, first.max_bytes, first.max_wait_ms) == (3, 4000, 7)
        assert first.topics[0].partitions[0].partition_max_bytes == 500
        assert (first.isolation_level, first.rack_id) == (1, "rack-b")
        (listed,) = cluster.asked_for(ListOffsetsRequest)
        assert listed.request.isolation_level == 1

    run(test)


def test_fetches_carry_the_epoch_of_the_leader() -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.log.epoch = 4
        async with cluster.consumer() as consumer:
            await poll_until(consumer, lambda: fetches(cluster))
        assert fetches(cluster)[0].topics[0].partitions[0].current_leader_epoch == 4
        (listed,) = cluster.asked_for(ListOffsetsRequest)
        assert listed.request.topics[0].partitions[0].current_leader_epoch == 4

    run(test)


def test_a_broker_has_one_fetch_at_a_time() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        for n in range(1, 6):
            cluster.logs[TopicPartition("t", n)] = Log(leader=n % 2)
        for log in cluster.logs.values():
            for n in range(20):
                log.append(b"%d" % n)
        async with cluster.consumer(max_partition_fetch_bytes=100, max_poll_records=7) as consumer:
            await read(consumer, 120)
            await nothing_comes(consumer, 0.1)
        assert [node.max_in_flight for node in cluster.nodes] == [1, 1]

    run(test)


def test_all_partitions_get_their_turn() -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.logs[TopicPartition("t", 1)] = Log()
        for log in cluster.logs.values():
            for n in range(200):
                log.append(b"%d" % n)
        async with cluster.consumer(max_partition_fetch_bytes=300, max_poll_records=5) as consumer:
            found: list[ConsumerRecord] = []
            while len(found) < 60:
                found += await consumer.poll(5)
            counts = [sum(r.partition == n for r in found) for n in range(2)]
            assert min(counts) > 15, counts

    run(test)


# Sessions


def test_a_session_is_kept_and_only_changes_are_sent() -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.logs[TopicPartition("t", 1)] = Log()
        async with cluster.consumer() as consumer:
            await nothing_comes(consumer, 0.1)
            cluster.log.append(b"a")
            assert await values(consumer, 1) == [b"a"]
            await nothing_comes(consumer, 0.1)
            consumer.assign([T])
            await poll_until(consumer, lambda: fetches(cluster)[-1].forgotten_topics_data)
        asked = fetches(cluster)
        assert [r.session_epoch for r in asked[:-1]] == list(range(len(asked) - 1))
        assert sum(len(t.partitions) for r in asked[1:] for t in r.topics) == 1
        assert [f.partitions for r in asked for f in r.forgotten_topics_data] == [[1]]

    run(test)


def test_closing_ends_the_session() -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.log.append(b"a")
        async with cluster.consumer() as consumer:
            await read(consumer, 1)
            await until(lambda: not consumer._fetcher._in_flight)
        assert fetches(cluster)[-1].session_epoch == -1

    run(test)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_session_that_ends_in_an_error_is_replaced(error: ErrorCode) -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.log.append(b"a")
        async with cluster.consumer() as consumer:
            assert await values(consumer, 1) == [b"a"]
            cluster.nodes[0].fetch_answers.append(FetchResponse(error_code=error, responses=[]))
            cluster.log.append(b"b")
            assert await values(consumer, 1) == [b"b"]
            await nothing_comes(consumer, 0.05)

    run(test)


def test_a_broker_that_forgets_sessions_all_the_time_is_read_all_the_same() -> None:
    async def test() -> None:
        cluster = Cluster()
        (node,) = cluster.nodes
        async with cluster.consumer() as consumer:
            for n in range(5):
                cluster.log.append(b"%d" % n)
                assert await values(consumer, 1) == [b"%d" % n]
                node.forget_session()

    run(test)


def test_a_broker_without_sessions_is_asked_in_full() -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.nodes[0].with_sessions = False
        async with cluster.consumer() as consumer:
            for n in range(3):
                cluster.log.append(b"%d" % n)
                assert await values(consumer, 1) == [b"%d" % n]
        assert all(request.topics for request in fetches(cluster))

    run(test)
