"""Metrics, health and the watchdog of a consumer."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import socket
import time

import pytest
from tests.client.consumer.conftest import (
    WAIT_SECONDS,
    Stage,
    nothing_comes,
    poll_until,
    read,
    run,
)
from tests.client.consumer.scripted import Cluster, T, data_of

import ottla
import ottla.aio
from ottla.client.state.consumer.positions import AssignedPartition, FetchPosition
from ottla.client.state.consumer.stalls import StallWatch
from ottla.errors import ErrorCode, FatalError


def state(offset: int, end: int) -> AssignedPartition:
    made = AssignedPartition()
    made.seek(FetchPosition(offset))
    made.high_watermark = end
    return made


def test_a_partition_that_moves_or_rests_does_not_stall() -> None:
    watch = StallWatch(100, reads_committed=False)
    moving, resting, paused = state(0, 1000), state(5, 5), state(0, 10)
    paused.paused = True
    states = {T: moving, T._replace(partition=1): resting, T._replace(partition=2): paused}
    for now_ms in range(0, 1000, 50):
        moving.seek(FetchPosition(now_ms + 1))
        watch.look(states, now_ms)
        assert not watch.stalled(now_ms)


def test_a_stall_is_told_once_until_it_is_over() -> None:
    watch = StallWatch(100, reads_committed=False)
    stuck = state(0, 10)
    told = []
    for now_ms in range(0, 500, 50):
        watch.look({T: stuck}, now_ms)
        told += [now_ms] if watch.news(now_ms) else []
    assert told == [100]
    assert watch.stalled(450) == {T: 450}
    stuck.seek(FetchPosition(3))
    for now_ms in range(500, 1000, 50):
        watch.look({T: stuck}, now_ms)
        told += [now_ms] if watch.news(now_ms) else []
    assert told == [100, 600]


def test_a_partition_that_is_resumed_has_its_time() -> None:
    watch = StallWatch(100, reads_committed=False)
    one = state(0, 10)
    one.paused = True
    watch.look({T: one}, 0)
    watch.look({T: one}, 1000)
    one.paused = False
    watch.look({T: one}, 1050)
    assert not watch.stalled(1050)
    assert watch.stalled(1200)


def test_a_partition_that_was_never_fetched_stalls_too() -> None:
    watch = StallWatch(100, reads_committed=False)
    watch.look({T: AssignedPartition()}, 0)
    watch.look({T: AssignedPartition()}, 100)
    assert list(watch.stalled(100)) == [T]


def test_metrics_count_under_kafkas_names(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill_batch(*[b"x" * 100] * 10)
        async with stage.consumer(max_poll_records=4) as consumer:
            assert math.isnan(consumer.metrics()["records-lag-max"])
            consumer.assign(partitions)
            await read(consumer, 4)
            metrics = consumer.metrics()
            assert metrics["records-lag-max"] == 6
            assert metrics[f"records-lag{{topic={stage.topic},partition=0}}"] == 6
            assert metrics[f"records-lead{{topic={stage.topic},partition=0}}"] == 4
            await read(consumer, 6)
            metrics = consumer.metrics()
            assert metrics["records-consumed-total"] == 10
            assert metrics["bytes-consumed-total"] > 1000
            assert metrics["fetch-total"] >= 1
            assert metrics["fetch-latency-avg"] > 0
            assert metrics["fetch-size-max"] > 1000
            assert metrics["assigned-partitions"] == 1
            assert 0 <= metrics["last-poll-seconds-ago"] < 5

    run(test)


def test_a_consumer_that_works_is_well(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a")
        async with stage.consumer() as consumer:
            before = consumer.health()
            assert before.ok
            assert before.seconds_since_poll is None
            assert before.seconds_since_progress is None
            consumer.assign(partitions)
            await read(consumer, 1)
            health = consumer.health()
            assert health.ok
            assert health.reasons == ()
            assert health.lag == {partitions[0]: 0}
            assert health.seconds_since_poll is not None
            assert health.seconds_since_poll < 5
            assert health.seconds_since_progress is not None
            assert health.seconds_since_heartbeat is None

    run(test)


def test_a_partition_that_does_not_exist_is_told_at_once_until_it_does(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    reason = f"partition {stage.topic}-1 does not exist: the partitions of {stage.topic} are 0 to 0"

    def told() -> list[str]:
        return [each for each in caplog.messages if reason in each]

    async def test() -> None:
        partitions = stage.create()
        missing = partitions[0]._replace(partition=1)
        async with stage.consumer(client_id="reader") as consumer:
            consumer.assign([*partitions, missing])
            await poll_until(consumer, lambda: bool(told()))
            assert not consumer.health().ok
            assert consumer.health().reasons == (reason,)
            # Long enough for some more answers, and the other partition is read meanwhile.
            stage.fill(b"a")
            await read(consumer, 1)
            await nothing_comes(consumer, 0.5)
            assert told() == [f"reader: {reason}"]
            async with ottla.aio.Admin(bootstrap_servers=stage.broker.bootstrap_servers) as admin:
                await admin.create_partitions({stage.topic: 2})
            await poll_until(consumer, lambda: consumer.health().ok)

    run(test)


async def stalls(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, polls: bool, reason: str
) -> None:
    cluster.log.append(b"a", b"b")
    # By then the first fetch was answered, so that the warning knows the reason.
    async with cluster.consumer(stall_timeout_ms=500, max_poll_records=1) as consumer:
        if not polls:
            await read(consumer, 1)

        async def wait(seconds: float) -> None:
            await (nothing_comes(consumer, seconds) if polls else asyncio.sleep(seconds))

        def warnings() -> list[str]:
            messages = [record.getMessage() for record in caplog.records]
            return [message for message in messages if "no progress" in message]

        async with asyncio.timeout(WAIT_SECONDS):
            while not warnings():
                await wait(0.02)
        # Long enough to warn again.
        await wait(0.4)
        health = consumer.health()
        assert not health.ok
        assert reason in health.reasons[0]
        assert "t-0 has made no progress" in health.reasons[0]
        (warning,) = warnings()
        assert reason in warning
        for node in cluster.nodes:
            node.script = lambda asked: None
        cluster.log.leader = 0
        if not polls:
            await read(consumer, 1)
            assert consumer.health().ok


def test_a_program_that_does_not_poll_is_told(caplog: pytest.LogCaptureFixture) -> None:
    run(lambda: stalls(Cluster(), caplog, False, "poll() was last called"))


def test_a_partition_without_leader_is_told(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.log.leader = -1
    run(lambda: stalls(cluster, caplog, True, "it has no leader"))


def test_errors_of_fetches_are_told(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.nodes[0].script = lambda asked: data_of(asked, error=ErrorCode.KAFKA_STORAGE_ERROR)
    run(lambda: stalls(cluster, caplog, True, "KAFKA_STORAGE_ERROR"))


def test_a_broker_that_cannot_be_reached_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        cluster = Cluster(nodes=2)
        cluster.log.append(b"a", b"b")
        cluster.log.leader = 1
        async with cluster.consumer(stall_timeout_ms=100) as consumer:
            await consumer.position(T)
            await cluster.nodes[1].stop()
            await poll_until(
                consumer, lambda: "cannot be reached" in "".join(consumer.health().reasons)
            )
            assert "broker 1 at" in consumer.health().reasons[0]
            assert "cannot be reached" in consumer.health().reasons[0]
            await cluster.nodes[1].start()

    run(test)


def test_the_watchdog_can_be_turned_off(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        caplog.set_level(logging.WARNING)
        cluster = Cluster()
        cluster.log.leader = -1
        async with cluster.consumer(stall_timeout_ms=0) as consumer:
            await nothing_comes(consumer, 0.2)
            assert consumer.health().ok
        assert "no progress" not in caplog.text

    run(test)


def test_a_consumer_that_has_never_reached_a_broker_is_not_well() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{nobody.getsockname()[1]}"
        with ottla.Consumer(bootstrap_servers=servers) as consumer:
            consumer.assign([("t", 0)])
            deadline = time.monotonic() + 10
            while consumer.health().ok and time.monotonic() < deadline:
                assert not consumer.poll(0.05)
            health = consumer.health()
    assert not health.ok
    assert f"no broker can be reached: {servers}: Cannot connect" in health.reasons[0]


def test_a_member_that_is_fenced_is_not_well(stage: Stage) -> None:
    async def test() -> None:
        stage.create()
        named = {
            "group_id": f"group-of-{stage.topic}",
            "group_instance_id": "one",
            "heartbeat_interval_ms": 50,
        }
        async with stage.consumer(**named) as old, stage.consumer(**named) as new:
            for consumer in (old, new):
                consumer.subscribe([stage.topic])
                while not consumer.assignment():
                    await consumer.poll(0.1)
            with pytest.raises(FatalError):
                await old.poll(20)
            assert not old.health().ok
            assert "FENCED_INSTANCE_ID" in old.health().reasons[0]
            assert new.health().ok

    run(test)


def test_a_consumer_whose_brokers_are_gone_is_not_well() -> None:
    async def test() -> None:
        cluster = Cluster()
        async with cluster.consumer() as consumer:
            await consumer.position(T)
            assert consumer.health().ok
            assert consumer.health().seconds_without_broker is None
            await cluster.nodes[0].stop()
            while consumer.health().ok:
                await consumer.poll(0.1)
            (reason,) = consumer.health().reasons
            assert re.match(r"no broker has answered for \d+ s: ", reason)
            assert (consumer.health().seconds_without_broker or 0) >= 1
            assert "Cannot connect" in reason
            await cluster.nodes[0].start()
            while not consumer.health().ok:
                await consumer.poll(0.1)

    run(test)
