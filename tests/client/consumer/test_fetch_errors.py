"""Leaders, followers, truncated logs, and everything else that goes wrong with fetches."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.client.consumer.conftest import nothing_comes, poll_until, read, run, values
from tests.client.consumer.scripted import (
    Cluster,
    T,
    data_of,
    until,
)

from ottla.client.model import OffsetAndMetadata
from ottla.errors import AbortableError, ErrorCode, LogTruncationError, OffsetOutOfRangeError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest


def fetches(cluster: Cluster) -> list[FetchRequest]:
    return [asked.request for asked in cluster.asked_for(FetchRequest)]


# Leaders


def test_reading_goes_on_at_a_new_leader() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        cluster.log.append(b"a")
        async with cluster.consumer() as consumer:
            assert await values(consumer, 1) == [b"a"]
            cluster.lead(1)
            cluster.log.append(b"b")
            assert await values(consumer, 1) == [b"b"]
        asked = cluster.nodes[1].asked_for(OffsetForLeaderEpochRequest)
        assert [a.request.topics[0].partitions[0].leader_epoch for a in asked] == [0]
        assert asked[0].request.topics[0].partitions[0].current_leader_epoch == 1
        assert asked[0].request.replica_id == -1

    run(test)


def test_a_hint_leads_to_the_new_leader_before_the_metadata_knows_it() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        cluster.log.append(b"a")
        async with cluster.consumer() as consumer:
            assert await values(consumer, 1) == [b"a"]
            cluster.metadata_is_stale = True
            cluster.nodes[0].script = lambda asked: data_of(
                asked, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(1, 1)
            )
            cluster.lead(1)
            cluster.log.append(b"b")
            assert await values(consumer, 1) == [b"b"]
            consumer._network.request_update()
            await consumer._network.updated(5000)
            cluster.log.append(b"c")
            assert await values(consumer, 1) == [b"c"]

    run(test)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_errors_that_pass_are_waited_for(error: ErrorCode) -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.log.append(b"a")
        (node,) = cluster.nodes
        async with cluster.consumer(retry_backoff_ms=20, retry_backoff_max_ms=20) as consumer:
            await consumer.position(T)
            before = len(cluster.asked_for(MetadataRequest))
            node.script = lambda asked: data_of(asked, error=error)
            started = time.monotonic()
            await nothing_comes(consumer, 0.25)
            asked, seconds = len(fetches(cluster)), time.monotonic() - started
            assert asked <= seconds / 0.02 + 8, f"{asked} fetches in {seconds} s, pauses of 20 ms"
            await poll_until(consumer, lambda: len(fetches(cluster)) >= 2)
            if error not in (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR):
                await poll_until(consumer, lambda: len(cluster.asked_for(MetadataRequest)) > before)
            node.script = lambda asked: None
            assert await values(consumer, 1) == [b"a"]

    run(test)


@pytest.mark.parametrize("error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode(987)])
def test_errors_that_do_not_pass_are_told(error: ErrorCode) -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.log.append(b"a")
        (node,) = cluster.nodes
        async with cluster.consumer() as consumer:
            node.script = lambda asked: data_of(asked, error=error)
            for _ in range(2):
                with pytest.raises(AbortableError, match="api=Fetch, partition=t-0") as caught:
                    await consumer.poll(5)
                assert caught.value.code == error
            node.script = lambda asked: None
            assert await values(consumer, 1) == [b"a"]

    run(test)


def test_a_topic_that_may_not_be_read_is_told_from_its_metadata() -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.errors["t"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        async with cluster.consumer() as consumer:
            with pytest.raises(AbortableError, match=r"TOPIC_AUTHORIZATION_FAILED.*topic=t"):
                await consumer.poll(5)
            cluster.errors.clear()
            cluster.log.append(b"a")
            consumer._network.request_update()
            async with asyncio.timeout(10):
                while True:
                    try:
                        records = await consumer.poll(0.1)
                    except AbortableError:
                        await asyncio.sleep(0.01)
                        continue
                    if records:
                        break

    run(test)


# Truncation


def test_after_a_truncation_reading_goes_on_where_the_logs_part() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        cluster.log.append(b"a")
        cluster.log.append(b"lost")
        async with cluster.consumer() as consumer:
            await read(consumer, 2)
            cluster.log.batches.pop()
            cluster.log.end = 1
            cluster.lead(1)
            cluster.log.append(b"b")
            found = await read(consumer, 1)
            assert (found[0].offset, found[0].value) == (1, b"b")

    run(test)


def test_a_truncation_is_an_error_without_a_reset() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        cluster.log.append(b"a")
        cluster.log.append(b"lost")
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.seek(T, 0)
            await read(consumer, 2)
            cluster.log.batches.pop()
            cluster.log.end = 1
            cluster.lead(1)
            cluster.log.append(b"b")
            with pytest.raises(LogTruncationError, match="t-0 at 2") as caught:
                await consumer.poll(5)
            assert caught.value.diverging_offsets == {T: 1}
            consumer.seek(T, 1)
            assert await values(consumer, 1) == [b"b"]

    run(test)


def test_validations_that_fail_are_repeated() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        cluster.log.append(b"a")
        second = cluster.nodes[1]
        answer = second.answers[OffsetForLeaderEpochRequest]
        refused = 0

        def refuse(request: OffsetForLeaderEpochRequest, version: int) -> Any:
            nonlocal refused
            response = answer(request, version)
            if refused < 3:
                refused += 1
                response.topics[0].partitions[0].error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
            return response

        second.answers[OffsetForLeaderEpochRequest] = refuse
        async with cluster.consumer() as consumer:
            await read(consumer, 1)
            cluster.lead(1)
            cluster.log.append(b"b")
            assert await values(consumer, 1) == [b"b"]
        assert refused == 3

    run(test)


def test_a_committed_epoch_that_is_newer_than_the_metadata_asks_for_newer_metadata() -> None:
    async def test() -> None:
        cluster = Cluster()
        async with cluster.consumer() as consumer:
            await consumer.position(T)
            before = len(cluster.asked_for(MetadataRequest))
            consumer.seek(T, OffsetAndMetadata(0, "", 3))
            await until(lambda: len(cluster.asked_for(MetadataRequest)) > before)

    run(test)


# Followers


def follow(node_id: int) -> Any:
    return lambda asked: data_of(asked, replica=node_id)


def test_the_follower_that_the_leader_names_is_read() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        leader, follower = cluster.nodes
        leader.script = follow(1)
        follower.serves_as_follower = True
        cluster.log.append(b"a")
        async with cluster.consumer(client_rack="r") as consumer:
            assert await values(consumer, 1) == [b"a"]
            cluster.log.append(b"b")
            assert await values(consumer, 1) == [b"b"]
            assert len(leader.asked_for(FetchRequest)) == 1
            assert follower.asked_for(FetchRequest)[0].request.rack_id == "r"

    run(test)


def test_the_leader_is_asked_again_when_the_advice_is_old() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        leader, follower = cluster.nodes
        leader.script = follow(1)
        follower.serves_as_follower = True
        async with cluster.consumer(metadata_max_age_ms=100) as consumer:
            started = time.monotonic()
            await poll_until(consumer, lambda: len(leader.asked_for(FetchRequest)) >= 3)
            asked, seconds = len(leader.asked_for(FetchRequest)), time.monotonic() - started
        assert seconds >= 0.19
        assert asked <= seconds / 0.1 + 2

    run(test)


def test_a_follower_without_the_offset_is_left_and_nothing_is_reset() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        leader, follower = cluster.nodes
        advice = iter([True, False, False, False, False, False])
        leader.script = lambda asked: data_of(asked, replica=1) if next(advice, False) else None
        follower.script = lambda asked: data_of(asked, error=ErrorCode.OFFSET_OUT_OF_RANGE)
        cluster.log.append(b"a")
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.seek(T, 0)
            assert await values(consumer, 1) == [b"a"]
        assert sum(bool(a.request.topics) for a in follower.asked_for(FetchRequest)) == 1

    run(test)


def test_a_follower_that_dies_is_left_for_the_leader() -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        leader, follower = cluster.nodes
        leader.script = follow(1)
        follower.serves_as_follower = True
        cluster.log.append(b"a")
        async with cluster.consumer() as consumer:
            assert await values(consumer, 1) == [b"a"]
            leader.script = lambda asked: None
            await follower.stop()
            cluster.log.append(b"b")
            assert await values(consumer, 1) == [b"b"]
            await follower.start()

    run(test)


# Trouble with connections


def test_reading_goes_on_when_a_broker_comes_back() -> None:
    async def test() -> None:
        cluster = Cluster()
        (node,) = cluster.nodes
        cluster.log.append(b"a")
        async with cluster.consumer() as consumer:
            assert await values(consumer, 1) == [b"a"]
            await node.stop()
            await nothing_comes(consumer, 0.1)
            cluster.log.append(b"b")
            await node.start()
            assert await values(consumer, 1) == [b"b"]

    run(test)


def test_a_fetch_that_is_never_answered_is_given_up_after_request_timeout() -> None:
    async def test() -> None:
        cluster = Cluster()
        (node,) = cluster.nodes
        cluster.log.append(b"a")
        answer = node.answers[FetchRequest]
        released = asyncio.Event()

        async def stuck(request: FetchRequest, version: int) -> None:
            await released.wait()

        node.answers[FetchRequest] = stuck
        async with cluster.consumer(request_timeout_ms=150) as consumer:
            polling = asyncio.create_task(read(consumer, 1))
            await until(lambda: len(fetches(cluster)) == 1)
            started = time.monotonic()
            node.answers[FetchRequest] = answer
            assert (await polling)[0].value == b"a"
            assert time.monotonic() - started > 0.1
            released.set()

    run(test)


def test_a_broker_that_throttles_is_left_alone() -> None:
    async def test() -> None:
        cluster = Cluster()
        (node,) = cluster.nodes
        cluster.log.append(b"a")
        node.throttle_ms = 800
        async with cluster.consumer() as consumer:
            assert await values(consumer, 1) == [b"a"]
            asked = len(fetches(cluster))
            await nothing_comes(consumer, 0.1)
            assert len(fetches(cluster)) == asked
            node.throttle_ms = 0
            cluster.log.append(b"b")
            assert await values(consumer, 1) == [b"b"]

    run(test)


# Offsets


def test_a_seek_while_an_offset_is_looked_up_wins() -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.log.append(b"a", b"b", b"c")
        (node,) = cluster.nodes
        answer = node.answers[ListOffsetsRequest]
        go = asyncio.Event()

        async def late(request: ListOffsetsRequest, version: int) -> Any:
            await go.wait()
            return answer(request, version)

        node.answers[ListOffsetsRequest] = late
        async with cluster.consumer() as consumer:
            await poll_until(consumer, lambda: cluster.asked_for(ListOffsetsRequest))
            await nothing_comes(consumer, 0.05)
            assert len(cluster.asked_for(ListOffsetsRequest)) == 1
            consumer.seek(T, 2)
            go.set()
            found = await read(consumer, 1)
            assert found[0].offset == 2

    run(test)


def test_offsets_are_asked_for_again_after_errors_that_pass() -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.log.append(b"a")
        (node,) = cluster.nodes
        answer = node.answers[ListOffsetsRequest]
        errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR]

        def refuse(request: ListOffsetsRequest, version: int) -> Any:
            response = answer(request, version)
            if errors:
                response.topics[0].partitions[0].error_code = errors.pop()
            return response

        node.answers[ListOffsetsRequest] = refuse
        async with cluster.consumer() as consumer:
            assert await values(consumer, 1) == [b"a"]
            errors[:] = [ErrorCode.LEADER_NOT_AVAILABLE] * 2
            assert await consumer.end_offsets() == {T: 1}
            errors[:] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            with pytest.raises(AbortableError, match="api=ListOffsets, partition=t-0, broker=0 at"):
                await consumer.end_offsets()
            errors[:] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            consumer.seek_to_beginning()
            with pytest.raises(AbortableError, match="TOPIC_AUTHORIZATION_FAILED"):
                await consumer.position(T)
            assert await consumer.position(T) == 0

    run(test)


def test_an_error_behind_fetched_records_waits_until_they_were_read() -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.log.append(b"a", b"b")
        (node,) = cluster.nodes

        def cut(asked: FetchPartition) -> PartitionData | None:
            if asked.fetch_offset == 2:
                return data_of(asked, error=ErrorCode.OFFSET_OUT_OF_RANGE)
            return None

        node.script = cut
        async with cluster.consumer(auto_offset_reset="none", max_poll_records=1) as consumer:
            consumer.seek(T, 0)
            assert len(await consumer.poll(5)) == 1
            await until(lambda: len(fetches(cluster)) >= 2)
            assert [r.value for r in await consumer.poll(5)] == [b"b"]
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.poll(5)

    run(test)


def test_corrupt_records_stop_the_partition_until_somebody_seeks() -> None:
    async def test() -> None:
        cluster = Cluster()
        for value in (b"a", b"b", b"c"):
            cluster.log.append(value)
        bad = bytearray(cluster.log.batches[1])
        bad[-2] ^= 1
        cluster.log.batches[1] = bytes(bad)
        async with cluster.consumer() as consumer:
            assert await values(consumer, 1) == [b"a"]
            for _ in range(2):
                with pytest.raises(
                    AbortableError, match=r"CORRUPT_MESSAGE.*partition=t-0, offset=1"
                ):
                    await consumer.poll(5)
            assert await consumer.position(T) == 1
            consumer.seek(T, 2)
            assert await values(consumer, 1) == [b"c"]
        async with cluster.consumer(check_crcs=False) as consumer:
            assert len(await values(consumer, 3)) == 3

    run(test)
