"""Members of the consumer protocol (KIP-848) in a line each."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.broker.requests import eventually

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

JOIN, LEAVE, STATIC_LEAVE = 0, -1, -2
REBALANCE_TIMEOUT_MS = 60_000

Partitions = Mapping[uuid.UUID, Sequence[int]]


def topic_id(connection: RawConnection, topic: str) -> uuid.UUID:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    (found,) = connection.call(request, MetadataResponse, 12).topics
    assert found.error_code == ErrorCode.NONE
    known: uuid.UUID = found.topic_id
    return known


def heartbeat(
    connection: RawConnection,
    group: str,
    member_id: str,
    epoch: int,
    *,
    owned: Partitions | None = None,
    version: int = 1,
    **fields: Any,
) -> ConsumerGroupHeartbeatResponse:
    """One heartbeat, which says nothing but the epoch and what is given."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        topic_partitions=None
        if owned is None
        else [
            TopicPartitions(topic_id=each, partitions=list(partitions))
            for each, partitions in owned.items()
        ],
        **fields,
    )
    answer: ConsumerGroupHeartbeatResponse = connection.call(
        request, ConsumerGroupHeartbeatResponse, version
    )
    return answer


def assigned(answer: ConsumerGroupHeartbeatResponse) -> dict[uuid.UUID, list[int]] | None:
    """The partitions in an answer; None if it has none because they have not changed."""
    if answer.assignment is None:
        return None
    return {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}


class ConsumerMember:
    """A member that follows the protocol: it acknowledges what it is assigned."""

    def __init__(
        self,
        connection: RawConnection,
        group: str,
        *topics: str,
        member_id: str | None = None,
        version: int = 1,
        **fields: Any,
    ) -> None:
        self.connection = connection
        self.group = group
        self.member_id = uuid.uuid4().hex if member_id is None else member_id
        self.version = version
        self.epoch = JOIN
        self.owned: dict[uuid.UUID, list[int]] = {}
        self._joining: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "subscribed_topic_names": list(topics),
            **fields,
        }

    @property
    def partitions(self) -> list[int]:
        """The numbers of all partitions that it owns, for tests with one topic."""
        return sorted(number for numbers in self.owned.values() for number in numbers)

    def join(self) -> ConsumerGroupHeartbeatResponse:
        """Joins, which must succeed, and owns what it is assigned."""
        return self._take(self._send(JOIN, owned={}, **self._joining))

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat that must succeed; it reports what the member owns."""
        return self._take(self._send(self.epoch, owned=self.owned, **fields))

    def error(self, **fields: Any) -> ErrorCode:
        """The error of a heartbeat."""
        return ErrorCode(self._send(self.epoch, owned=self.owned, **fields).error_code)

    def leave(self, epoch: int = LEAVE, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self._send(epoch, **fields)

    def _send(self, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return heartbeat(
            self.connection, self.group, self.member_id, epoch, version=self.version, **fields
        )

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        assert answer.error_code == ErrorCode.NONE, answer
        assert answer.member_id is not None
        self.member_id, self.epoch = answer.member_id, answer.member_epoch
        found = assigned(answer)
        if found is not None:
            self.owned = found
        return answer


def settle(*members: ConsumerMember) -> None:
    """Lets members send heartbeats until all of them have one epoch and the group is stable."""

    def is_settled() -> bool:
        for member in members:
            member.beat()
        return describe(members[0].connection, members[0].group).group_state == "Stable"

    assert eventually(is_settled), describe(members[0].connection, members[0].group)


def describe(connection: RawConnection, group: str, *, version: int = 1) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    answer = connection.call(request, ConsumerGroupDescribeResponse, version)
    (found,) = answer.groups
    described: DescribedGroup = found
    return described
