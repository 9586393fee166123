"""Members of the new protocol (KIP-848) that cost little: many connections, one selector, one thread.

They do what Kafka's consumer does: a member that was assigned something else takes it over and acknowledges it at once;
otherwise it sends its next heartbeat when the interval that the coordinator told it is over.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.frames import CLIENT_ID, RefusedError
from benchmarks.members import RECEIVE_BYTES, STABLE_SECONDS, await_coordinator

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.compile import decode_message
from ottla.wire.framing import SIZE_BYTES, frame_request, read_size
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

HEARTBEAT_VERSION = 1
HEADER_BYTES = 5
REBALANCE_TIMEOUT_MS = 60_000
JOIN, LEAVE = 0, -1
GROUP_RESOURCE, SET = 32, 0


def set_heartbeat_interval(bootstrap_server: str, group_id: str, milliseconds: int) -> None:
    """Has the coordinator tell the members of a group an interval of its own."""
    change = AlterableConfig(
        name="consumer.heartbeat.interval.ms", config_operation=SET, value=str(milliseconds)
    )
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group_id, configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    with RawConnection(bootstrap_server) as connection:
        (answer,) = connection.call(request, IncrementalAlterConfigsResponse, 1).responses
    if answer.error_code != ErrorCode.NONE:
        raise RefusedError(f"the interval was refused: {answer.error_message}")


class ConsumerMember:
    """One member: its epoch, what it owns, and whether it waits for an answer."""

    def __init__(self, coordinator: str, group_id: str, member_id: str, topic: str) -> None:
        self.connection = RawConnection(coordinator)
        self.group_id = group_id
        self.member_id = member_id
        self.topic = topic
        self.epoch = JOIN
        # Pairs of topic id and number of what it took over, and acknowledged or is about to.
        self.owned: frozenset[tuple[Any, int]] = frozenset()
        self.interval_seconds = 0.0
        self.is_asking = False
        # Its join or acknowledgement has not been answered yet.
        self.is_moving = False
        self.heartbeat_count = 0
        self._received = bytearray()
        self._steady: tuple[int, bytes] | None = None

    def join(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=JOIN,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[self.topic],
            topic_partitions=[],
        )
        self.is_moving = True
        self._send(frame_request(request, HEARTBEAT_VERSION, 0, CLIENT_ID))

    def heartbeat(self) -> None:
        """Nothing has changed: the same bytes as long as the epoch is the same."""
        if self._steady is None or self._steady[0] != self.epoch:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
            )
            self._steady = self.epoch, frame_request(request, HEARTBEAT_VERSION, 0, CLIENT_ID)
        self._send(self._steady[1])

    def _acknowledge(self) -> None:
        by_topic: dict[Any, list[int]] = {}
        for topic_id, number in self.owned:
            by_topic.setdefault(topic_id, []).append(number)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in by_topic.items()
            ],
        )
        self.is_moving = True
        self._send(frame_request(request, HEARTBEAT_VERSION, 0, CLIENT_ID))

    def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE
        )
        self._send(frame_request(request, HEARTBEAT_VERSION, 0, CLIENT_ID))

    def _send(self, frame: bytes) -> None:
        self.connection.socket.sendall(frame)
        self.is_asking = True
        self.heartbeat_count += 1

    def receive(self) -> None:
        """Takes what has arrived and does what follows from it."""
        data = self.connection.socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        self._received += data
        if len(self._received) < SIZE_BYTES:
            return
        end = SIZE_BYTES + read_size(self._received)[0]
        if len(self._received) < end:
            return
        answer = decode_message(
            ConsumerGroupHeartbeatResponse,
            HEARTBEAT_VERSION,
            bytes(self._received[:end]),
            SIZE_BYTES + HEADER_BYTES,
        )
        del self._received[:end]
        self.is_asking = self.is_moving = False
        if answer.error_code != ErrorCode.NONE:
            raise RefusedError(
                f"a heartbeat with error {answer.error_code}: {answer.error_message}"
            )
        self.epoch = answer.member_epoch
        self.interval_seconds = answer.heartbeat_interval_ms / 1000
        if answer.assignment is None:
            return
        assigned = frozenset(
            (one.topic_id, number)
            for one in answer.assignment.topic_partitions
            for number in one.partitions
        )
        if assigned != self.owned:
            self.owned = assigned
            self._acknowledge()

    def receive_all(self) -> None:
        while self.is_asking:
            self.receive()


class ConsumerGroup:
    """A group of members of the new protocol that are all in this process."""

    def __init__(
        self,
        bootstrap_server: str,
        group_id: str,
        topic: str,
        partition_count: int,
        size: int,
        interval_ms: int,
    ) -> None:
        self.coordinator = await_coordinator(bootstrap_server, group_id)
        self.group_id = group_id
        self.topic = topic
        self.partition_count = partition_count
        self.members: list[ConsumerMember] = []
        self._member_count = 0
        self._by_descriptor: dict[int, ConsumerMember] = {}
        self._poll = select.epoll()
        self._idle: deque[tuple[float, ConsumerMember]] = deque()
        set_heartbeat_interval(bootstrap_server, group_id, interval_ms)
        for _ in range(size):
            self.connect_one()

    def connect_one(self) -> ConsumerMember:
        """A member that may join."""
        name = f"member-{self._member_count}"
        self._member_count += 1
        member = ConsumerMember(self.coordinator, self.group_id, name, self.topic)
        descriptor = member.connection.socket.fileno()
        self.members.append(member)
        self._by_descriptor[descriptor] = member
        self._poll.register(descriptor, select.EPOLLIN)
        return member

    def form(self) -> float:
        """All join at once; seconds until all are at one epoch with all partitions."""
        started = time.perf_counter()
        for member in self.members:
            member.join()
        return self._settle(started)

    def grow(self, newcomer: ConsumerMember) -> float:
        """A connected member joins the stable group; seconds until it is stable again."""
        started = time.perf_counter()
        newcomer.join()
        return self._settle(started)

    def newcomer(self) -> Callable[[], float]:
        """Connects one more, which joins when this is called."""
        return partial(self.grow, self.connect_one())

    def shrink(self) -> float:
        """The newest member leaves; seconds until the others are a stable group."""
        leaver = self.members.pop()
        leaver.receive_all()
        self._forget(leaver)
        started = time.perf_counter()
        leaver.leave()
        leaver.receive_all()
        elapsed = self._settle(started)
        leaver.connection.close()
        return elapsed

    def beat(self, seconds: float) -> int:
        """Lets a stable group send its heartbeats for a while; how many."""
        for member in self.members:
            member.receive_all()
        before = sum(member.heartbeat_count for member in self.members)
        now = time.perf_counter()
        pace = self.members[0].interval_seconds / len(self.members)
        # Members that came at different times beat at different times.
        self._idle = deque(
            (now + pace * number, member) for number, member in enumerate(self.members)
        )
        end = now + seconds
        while time.perf_counter() < end:
            self._turn(end)
        return sum(member.heartbeat_count for member in self.members) - before

    def _settle(self, started: float) -> float:
        before = max(member.epoch for member in self.members)
        while not self.is_stable_since(before):
            if time.perf_counter() - started > STABLE_SECONDS:
                raise RefusedError(f"no stable group within {STABLE_SECONDS:.0f} s")
            self._turn(started + STABLE_SECONDS)
        return time.perf_counter() - started

    def _turn(self, end: float) -> None:
        """Sends the heartbeats that are due, and waits for answers until the next one is."""
        now = time.perf_counter()
        while self._idle and self._idle[0][0] <= now:
            member = self._idle.popleft()[1]
            # It may have left since.
            if member.connection.socket.fileno() in self._by_descriptor and not member.is_asking:
                member.heartbeat()
        wait = max(0.0, min(self._idle[0][0] if self._idle else end, end) - time.perf_counter())
        for descriptor, _ in self._poll.poll(wait):
            member = self._by_descriptor[descriptor]
            member.receive()
            if not member.is_asking:
                self._idle.append((time.perf_counter() + member.interval_seconds, member))

    def is_stable_since(self, epoch: int) -> bool:
        """Whether all are at one epoch after this one, and each has its share of all partitions."""
        current = self.members[0].epoch
        if current <= epoch or any(
            member.epoch != current or member.is_moving for member in self.members
        ):
            return False
        owned = [one for member in self.members for one in member.owned]
        if len(set(owned)) != len(owned):
            raise RefusedError("a partition is assigned twice")
        # As long as there are no new targets, members that joined have the epoch of the last ones, and nothing.
        shares = [len(member.owned) for member in self.members]
        return len(owned) == self.partition_count and max(shares) - min(shares) <= 1

    def _forget(self, member: ConsumerMember) -> None:
        descriptor = member.connection.socket.fileno()
        self._poll.unregister(descriptor)
        del self._by_descriptor[descriptor]

    def close(self) -> None:
        """All leave, so that no session of theirs ends during a later measurement."""
        for member in self.members:
            member.receive_all()
            member.leave()
        for member in self.members:
            member.receive_all()
            member.connection.close()
        self._poll.close()
