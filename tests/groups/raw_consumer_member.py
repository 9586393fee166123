"""A member of a group with the new protocol (KIP-848) in raw messages, strict with the broker."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterable

from tests.groups.history import ASSIGNED, LEFT, REVOKED, History
from tests.groups.raw_member import (
    LOOK_AGAIN,
    REBALANCE_TIMEOUT_MS,
    BrokenError,
    RawMembership,
)

from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOINING, LEAVING = 0, -1


class RawConsumerMember(RawMembership):
    """Its epoch is its generation. Whatever the coordinator forgets when it moves, it has not been told of."""

    def __init__(
        self,
        bootstrap_server: str,
        group_id: str,
        topic: str,
        name: str,
        history: History,
        rng: random.Random,
    ) -> None:
        super().__init__(bootstrap_server, group_id, topic, name, history, rng)
        self.version = rng.randint(0, 1)
        # Since v1 the member makes its own id, before that the coordinator may.
        if self.version == 1 or rng.random() < 0.5:
            self.member_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        # Some members always tell what they own, most of them only what has changed.
        self.is_talkative = rng.random() < 0.2
        self.topic_id = uuid.UUID(int=0)
        self.has_news = False
        self.generation = JOINING
        # How long it should wait between heartbeats, as the coordinator says.
        self.interval_ms = 0

    def stay(self, leave: threading.Event, until: float) -> None:
        while time.monotonic() < until and not leave.is_set():
            self.heartbeat()
            # What it gave up or got is told at once.
            if not self.has_news:
                leave.wait(self.heartbeat_seconds)

    def join(self) -> None:
        """Until it is a member; a broker that has just started may not be a coordinator yet."""
        while self.generation == JOINING:
            self.heartbeat()

    def heartbeat(self) -> None:
        is_joining = self.generation == JOINING
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_joining else -1,
            subscribed_topic_names=[self.topic] if is_joining else None,
            topic_partitions=self._told(is_joining),
        )
        answer = self.connection.call(request, ConsumerGroupHeartbeatResponse, self.version)
        match ErrorCode(answer.error_code):
            case ErrorCode.NONE:
                self._follow(answer, is_joining)
            case error if error in LOOK_AGAIN:
                self._look_again()
                # Its last words may be lost.
                self.has_news = True
            case error:
                raise BrokenError(f"{self.name} beats in {self.generation}, hears {error.name}")

    def _told(self, is_joining: bool) -> list[TopicPartitions] | None:
        if is_joining:
            return []
        if not self.has_news and not self.is_talkative:
            return None
        if not self.owned:
            return []
        numbers = [partition.partition for partition in self.owned]
        return [TopicPartitions(topic_id=self.topic_id, partitions=numbers)]

    def _follow(self, answer: ConsumerGroupHeartbeatResponse, is_joining: bool) -> None:
        if answer.member_epoch < self.generation or answer.member_epoch == JOINING:
            raise BrokenError(f"{self.name} in {self.generation}, hears {answer.member_epoch}")
        self.generation, self.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
        self.has_news = False
        if is_joining:
            self.member_id = answer.member_id or self.member_id
            self._say(ASSIGNED, ())
        if answer.assignment is not None:
            self._reconcile(answer.assignment.topic_partitions)

    def _reconcile(self, assigned: Iterable[TopicPartitions]) -> None:
        wanted = set[TopicPartition]()
        for one in assigned:
            self.topic_id = one.topic_id
            wanted.update(TopicPartition(self.topic, number) for number in one.partitions)
        given_up = [partition for partition in self.owned if partition not in wanted]
        added = sorted(wanted.difference(self.owned))
        if given_up and added:
            raise BrokenError(f"{self.name} gets {added} before it gave up {given_up}")
        self.owned = sorted(wanted)
        if given_up:
            self._say(REVOKED, given_up)
        if added:
            self._say(ASSIGNED, added)
        # The coordinator repeats an assignment until it is told that it is done.
        self.has_news = True

    def leave(self) -> None:
        self._give_up(REVOKED)
        while True:
            answer = self.connection.call(
                ConsumerGroupHeartbeatRequest(
                    group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVING
                ),
                ConsumerGroupHeartbeatResponse,
                self.version,
            )
            if ErrorCode(answer.error_code) not in LOOK_AGAIN:
                break
            self._look_again()
        error = ErrorCode(answer.error_code)
        # A coordinator that moved may never have answered its joining.
        was_never_in = self.generation == JOINING and error == ErrorCode.UNKNOWN_MEMBER_ID
        if error != ErrorCode.NONE and not was_never_in:
            raise BrokenError(f"{self.name} leaves in {self.generation}, hears {error.name}")
        self._say(LEFT, ())
