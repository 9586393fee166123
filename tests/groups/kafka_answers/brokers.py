"""The brokers that scripts are played on: ours with a clock that only scripts move, and Apache Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.apache_kafka.programs import running_kafka
from tests.broker import group_requests as ask
from tests.broker.requests import eventually, on_loop
from tests.lasting import LASTING

from ottla.broker.runtime import RunningBroker
from ottla.client.raw import RawConnection
from ottla.model import coordinator_partition
from ottla.testing import Broker
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

DEFAULT, SMALL = "default", "small"
UPGRADE, DOWNGRADE, DISABLED = "upgrade", "downgrade", "disabled"
COORDINATORS = 2

_USUAL: dict[str, object] = {
    **LASTING,
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": COORDINATORS,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    # A target assignment follows a change at once, not a second after the one before.
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 100,
    # Not longer than what we tell a member that waits for others (ADR 0047).
    "group.consumer.heartbeat.interval.ms": 500,
}
OPTIONS: Mapping[str, dict[str, object]] = {
    DEFAULT: _USUAL,
    SMALL: {**_USUAL, "group.consumer.max.size": 2, "group.max.size": 2},
    UPGRADE: {**_USUAL, "group.consumer.migration.policy": "upgrade"},
    DOWNGRADE: {**_USUAL, "group.consumer.migration.policy": "downgrade"},
    DISABLED: {**_USUAL, "group.consumer.migration.policy": "disabled"},
}
SETTLE_SECONDS = 0.3
ROUND_TRIPS = 3


class OttlaStage:
    """Our broker: its clock stands still but for what scripts let pass."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.address = broker.bootstrap_servers
        self._connection = RawConnection(self.address)

    def let_pass(self, milliseconds: float) -> None:
        self._broker.clock.advance(milliseconds / 1000)

    def settle(self) -> None:
        # What was sent before the first of these has been handled before the last is answered.
        for _ in range(ROUND_TRIPS):
            ask.describe(self._connection, "no-group")
        assert eventually(lambda: not on_loop(self._broker, _is_resolving_patterns))

    def await_topic(self, group: str, topic: str, partitions: int) -> None:
        self.settle()

    def close(self) -> None:
        self._connection.close()


def _is_resolving_patterns(broker: RunningBroker) -> bool:
    return any(
        group.is_resolving
        for machine in broker.node.groups.machines()
        for group in machine.consumers.groups.values()
    )


class KafkaStage:
    """Apache Kafka at an address; time can only be waited for."""

    def __init__(self, address: str) -> None:
        self.address = address

    def let_pass(self, milliseconds: float) -> None:
        time.sleep(milliseconds / 1000)

    def settle(self) -> None:
        time.sleep(SETTLE_SECONDS)

    def await_topic(self, group: str, topic: str, partitions: int) -> None:
        """Another group with the same coordinator is assigned the topic as it is now."""
        probe = group_with_coordinator(coordinator_partition(group, COORDINATORS))
        request = ConsumerGroupHeartbeatRequest(
            group_id=probe,
            member_id="probe",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        with RawConnection(self.address) as connection:

            def is_known() -> bool:
                answer = connection.call(request, ConsumerGroupHeartbeatResponse, 1)
                assigned = answer.assignment.topic_partitions
                return sum(len(one.partitions) for one in assigned) == partitions

            assert eventually(is_known, 30)
            request.member_epoch = -1
            connection.call(request, ConsumerGroupHeartbeatResponse, 1)


@contextmanager
def ottla_stage(options: str) -> Iterator[OttlaStage]:
    with Broker(OPTIONS[options]) as broker:
        await_coordinators(broker.bootstrap_servers)
        broker.clock.freeze()
        stage = OttlaStage(broker)
        try:
            yield stage
        finally:
            stage.close()


@contextmanager
def kafka_stage(options: str, jars: Path, folder: Path) -> Iterator[KafkaStage]:
    with running_kafka(jars, folder, OPTIONS[options]) as address:
        await_coordinators(address)
        yield KafkaStage(address)


def await_coordinators(address: str) -> None:
    """Until there is an answer from the coordinator of every group."""
    with RawConnection(address) as connection:
        for partition in range(COORDINATORS):
            ask.await_coordinator(connection, group_with_coordinator(partition))


def group_with_coordinator(partition: int) -> str:
    """A new name for a group."""
    names = (f"probe-{uuid.uuid4().hex}" for _ in count())
    return next(one for one in names if coordinator_partition(one, COORDINATORS) == partition)
