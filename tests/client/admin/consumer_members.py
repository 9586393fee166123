"""Members of consumer groups (KIP-848) and share groups (KIP-932), one heartbeat at a time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from tests.waiting import in_time

from ottla.client.aio.admin.answers import AT_COORDINATOR
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

REBALANCE_TIMEOUT_MS = 60_000
WAIT_SECONDS = 20.0
# Kafka may compute an assignment some time after the change that needs it.
PAUSE_SECONDS = 0.05


class ConsumerMember:
    """A member that does what the coordinator says only when a test tells it to."""

    def __init__(
        self,
        connection: RawConnection,
        group: str,
        topics: Sequence[str],
        *,
        regex: str | None = None,
        instance_id: str | None = None,
        rack_id: str | None = None,
    ) -> None:
        self._connection = connection
        self.group = group
        self.member_id = str(uuid.uuid4())
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self.given: list[TopicPartitions] = []
        """The last assignment that the coordinator sent."""
        self._send(
            ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=self.member_id,
                member_epoch=0,
                instance_id=instance_id,
                rack_id=rack_id,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                subscribed_topic_names=[*topics],
                subscribed_topic_regex=regex,
                topic_partitions=[],
            )
        )

    def heartbeat(self) -> None:
        """Report what this member owns."""
        self._send(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=self.epoch,
                instance_id=self.instance_id,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                topic_partitions=self.owned,
            )
        )

    def obey(self) -> None:
        """Own what the coordinator has given, and report it."""
        self.owned = self.given
        self.heartbeat()

    def obey_until(self, condition: Callable[[], bool]) -> None:
        """Do what the coordinator says until the condition holds."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            in_time(deadline, f"member {self.member_id} owns {self.owned} at epoch {self.epoch}")
            time.sleep(PAUSE_SECONDS)
            self.obey()

    def owns(self, count: int) -> bool:
        """Whether it owns this many partitions."""
        return sum(len(each.partitions) for each in self.owned) == count

    def leave(self) -> None:
        """Leave the group."""
        self._send(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group, member_id=self.member_id, member_epoch=-1
            )
        )

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        response = _answer(self._connection, request, ConsumerGroupHeartbeatResponse)
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.given = response.assignment.topic_partitions


class ShareMember:
    """A member of a share group, which has joined."""

    def __init__(self, connection: RawConnection, group: str, topic: str) -> None:
        self._connection = connection
        self.group = group
        self.member_id = str(uuid.uuid4())
        self._send(0, [topic])

    def leave(self) -> None:
        """Leave the group."""
        self._send(-1, None)

    def _send(self, epoch: int, topics: list[str] | None) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            subscribed_topic_names=topics,
        )
        _answer(self._connection, request, ShareGroupHeartbeatResponse)


def _answer(connection: RawConnection, request: Any, response_class: type[Any]) -> Any:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        response = connection.call(request, response_class, 1)
        if response.error_code not in AT_COORDINATOR:
            break
        in_time(deadline, "there is no coordinator")
        time.sleep(PAUSE_SECONDS)
    assert response.error_code == ErrorCode.NONE, response.error_message
    return response
