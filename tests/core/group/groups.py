"""A group machine with its clocks and its log, asked as clients ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from tests.core.group.topics import SomeTopics

from ottla.core.group import records
from ottla.core.group.classic.group import ClassicGroup, ClassicState
from ottla.core.group.events import Event, GroupSaved, OffsetsCommitted
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import (
    CommitSender,
    FetchedOffset,
    GroupConfig,
    HeartbeatRequest,
    Joined,
    JoinRefused,
    JoinRequest,
    Leaver,
    NewOffsets,
    Synced,
    SyncRequest,
)
from ottla.core.outcomes import Refused, error_of
from ottla.core.turn import AppliedEvent, LogMessage, ProducerIdentity, Turn
from ottla.errors import ErrorCode
from ottla.wire.compile import encode_stored
from ottla.wire.stored.consumer_protocol import ConsumerProtocolSubscription

T = TypeVar("T")

START_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DAY_MS = 24 * 3_600_000
# More wake-ups than any step of time can need: a timer that sets itself anew for the same moment.
MAX_WAKES = 10_000


def subscription(*topics: str) -> bytes:
    """What a consumer says of itself when it joins."""
    return encode_stored(ConsumerProtocolSubscription(topics=list(topics)), 1)


RANGE: Mapping[str, bytes] = {"range": subscription("orders")}


def errors_of(outcome: Refused | list[Refused | None]) -> ErrorCode | list[ErrorCode]:
    """The error of a whole request, or those of its offsets."""
    return outcome.error if isinstance(outcome, Refused) else [error_of(one) for one in outcome]


class Asked:
    """A request and, once there is one, its answer."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def error(self) -> ErrorCode:
        (answer,) = self.answers
        if isinstance(answer, Refused | JoinRefused):
            return answer.error
        assert isinstance(answer, Joined | Synced)
        return ErrorCode.NONE

    @property
    def joined(self) -> Joined:
        (answer,) = self.answers
        assert isinstance(answer, Joined)
        return answer

    @property
    def join_refused(self) -> JoinRefused:
        (answer,) = self.answers
        assert isinstance(answer, JoinRefused)
        return answer

    @property
    def synced(self) -> Synced:
        (answer,) = self.answers
        assert isinstance(answer, Synced)
        return answer

    @property
    def sync_refused(self) -> Refused:
        (answer,) = self.answers
        assert isinstance(answer, Refused)
        return answer


class Groups:
    """Every call is a turn of its own, except those inside `one_turn`."""

    def __init__(self, **options: int) -> None:
        self.config = GroupConfig(**{"initial_rebalance_delay_ms": 0, **options})
        self.topics = SomeTopics()
        self.now_ms = START_MS
        self.uptime_ms = 0
        self.log: list[AppliedEvent | tuple[str, int]] = []
        self.log_messages: list[LogMessage] = []
        self._turn: Turn | None = None
        self._given_ids = 0
        self.machine = self.new_machine()
        self._do(self.machine.start)

    def new_machine(self) -> GroupMachine:
        return GroupMachine(self.config, self.topics)

    def finished(self, turn: Turn) -> None:
        """Called with every turn when it is over."""
        assert not turn.effects, "classic groups have no effects"

    # Turns and time.

    def _do(self, decide: Callable[[Turn], T]) -> T:
        if self._turn is not None:
            return decide(self._turn)
        with self.one_turn() as turn:
            return decide(turn)

    @contextmanager
    def one_turn(self) -> Iterator[Turn]:
        self._turn = turn = Turn(self.now_ms, self.uptime_ms)
        yield turn
        self.machine.wake(turn)
        self._turn = None
        self.log += one_by_one(turn.written)
        self.log_messages += turn.log_messages
        self.finished(turn)
        for ticket, answer in turn.answers:
            assert not ticket.answers, "a second answer"
            ticket.answers.append(answer)

    def pass_ms(self, passed_ms: int) -> None:
        """Time goes by, and the machine is woken whenever it wants to be."""
        end_ms = self.uptime_ms + passed_ms
        for _ in range(MAX_WAKES):
            due_ms = self.machine.next_wake_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self._move_to(max(due_ms, self.uptime_ms))
            self._do(lambda turn: None)
        else:
            raise AssertionError("the machine wants to be woken for ever")
        self._move_to(end_ms)

    def _move_to(self, uptime_ms: int) -> None:
        self.now_ms += uptime_ms - self.uptime_ms
        self.uptime_ms = uptime_ms

    def restart(self, **options: int) -> None:
        """Another machine goes on with what is in the log, records and all."""
        before = self.machine.durable_state()
        self.config = self.config._replace(**options)
        self.machine = self.new_machine()
        for entry in self.log:
            if isinstance(entry, AppliedEvent):
                event = records.decode(*records.encode(entry.event))
                assert event is not None
                assert event == entry.event
                producer = entry.producer
                self.machine.apply(event, None if producer is None else producer.producer_id)
            elif entry[0] == "commit":
                self.machine.apply_commit_marker(entry[1])
            else:
                self.machine.apply_abort_marker(entry[1])
        assert self.machine.durable_state() == before
        self._do(self.machine.start)

    # What is in the log.

    @property
    def events(self) -> list[Event]:
        return [entry.event for entry in self.log if isinstance(entry, AppliedEvent)]

    @property
    def saves(self) -> list[GroupSaved]:
        return [event for event in self.events if isinstance(event, GroupSaved)]

    # What a group looks like.

    def group(self, group_id: str = "g") -> ClassicGroup:
        return self.machine.membership.groups[group_id]

    def state(self, group_id: str = "g") -> ClassicState:
        return self.group(group_id).state

    def member_ids(self, group_id: str = "g") -> list[str]:
        return list(self.group(group_id).members)

    # Requests.

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Mapping[str, bytes] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 9,
        new_id: str = "",
        client_id: str = "client",
    ) -> Asked:
        self._given_ids += 1
        request = JoinRequest(
            group,
            member_id,
            instance,
            client_id,
            "/127.0.0.1",
            session_ms,
            rebalance_ms,
            protocol_type,
            dict(protocols),
            new_id or f"id-{self._given_ids}",
            version >= 4,
            version >= 9,
        )
        asked = Asked()
        self._do(lambda turn: self.machine.join(turn, request, asked))
        return asked

    def enter(self, name: str, **options: Any) -> Asked:
        """A new member joins under a given id; a dynamic one of an old client needs no handshake."""
        return self.join(new_id=name, version=9 if options.get("instance") else 3, **options)

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Asked:
        if generation is None:
            generation = self.group(group).generation
        request = SyncRequest(
            group, generation, member_id, instance, protocol_type, protocol, assignments or {}
        )
        asked = Asked()
        self._do(lambda turn: self.machine.sync(turn, request, asked))
        return asked

    def heartbeat(
        self,
        member_id: str,
        generation: int | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
    ) -> ErrorCode:
        if generation is None:
            generation = self.group(group).generation
        request = HeartbeatRequest(group, generation, member_id, instance)
        return error_of(self._do(lambda turn: self.machine.heartbeat(turn, request)))

    def leave(self, *leavers: Leaver | str, group: str = "g") -> list[ErrorCode]:
        who = tuple(Leaver(one, None) if isinstance(one, str) else one for one in leavers)
        results = self._do(lambda turn: self.machine.leave(turn, group, who))
        assert tuple(leaver for leaver, _ in results) == who
        return [error_of(refused) for _, refused in results]

    def commit(
        self,
        *offsets: NewOffsets,
        group: str = "g",
        generation: int = -1,
        member_id: str = "",
        instance: str | None = None,
    ) -> ErrorCode | list[ErrorCode]:
        sender = CommitSender(group, generation, member_id, instance)
        return errors_of(self._do(lambda turn: self.machine.commit(turn, sender, offsets)))

    def commit_in_transaction(
        self,
        producer_id: int,
        *offsets: NewOffsets,
        group: str = "g",
        generation: int = -1,
        member_id: str = "",
        instance: str | None = None,
    ) -> ErrorCode | list[ErrorCode]:
        sender = CommitSender(group, generation, member_id, instance)
        producer = ProducerIdentity(producer_id, 0)
        return errors_of(
            self._do(
                lambda turn: self.machine.commit_in_transaction(turn, sender, producer, offsets)
            )
        )

    def end_transaction(self, kind: str, producer_id: int) -> None:
        """A marker comes: `commit` or `abort`."""
        if kind == "commit":
            self.machine.apply_commit_marker(producer_id)
        else:
            self.machine.apply_abort_marker(producer_id)
        self.log.append((kind, producer_id))

    def delete_offsets(
        self, *partitions: tuple[str, int], group: str = "g"
    ) -> ErrorCode | list[ErrorCode]:
        return errors_of(
            self._do(lambda turn: self.machine.delete_offsets(turn, group, partitions))
        )

    def forget_topic(self, topic: str, deleted_at_ms: int) -> ErrorCode:
        return error_of(
            self._do(lambda turn: self.machine.forget_topic(turn, topic, deleted_at_ms))
        )

    def delete(self, group: str = "g") -> ErrorCode:
        return error_of(self._do(lambda turn: self.machine.delete(turn, group)))

    def expire(self) -> None:
        self._do(self.machine.expire)

    def committed_partitions(self, group: str) -> list[tuple[str, int]]:
        return [(kept.topic, kept.partition) for kept in self.machine.committed(group)]

    def fetched(self, topic: str, partition: int = 0, group: str = "g") -> int:
        return self.machine.fetch(group, topic, partition).offset

    def fetched_stable(self, topic: str, partition: int = 0, group: str = "g") -> int:
        found = self.machine.fetch_stable(group, topic, partition)
        assert isinstance(found, FetchedOffset)
        return found.offset

    # Groups to begin with.

    def form(self, *names: str, group: str = "g", **options: Any) -> None:
        """A group that has completed its first join phase; names with a # are static: instance#id."""
        with self.one_turn():
            asked = [self._enter_named(name, group, options) for name in names]
        assert [one.error for one in asked] == [ErrorCode.NONE] * len(names)
        assert self.state(group) is ClassicState.COMPLETING_REBALANCE

    def _enter_named(self, name: str, group: str, options: Mapping[str, Any]) -> Asked:
        instance, _, member_id = name.rpartition("#")
        return self.enter(member_id, group=group, instance=instance or None, **options)

    def stabilize(self, group: str = "g") -> None:
        """Everybody syncs."""
        found = self.group(group)
        for member in list(found.members.values()):
            assignments = {name: b"to " + name.encode() for name in found.members}
            self.sync(
                member.member_id,
                None,
                assignments if member.member_id == found.leader else {},
                group=group,
                instance=member.instance_id,
            )
        assert found.state is ClassicState.STABLE

    def form_stable(self, *names: str, group: str = "g", **options: Any) -> None:
        self.form(*names, group=group, **options)
        self.stabilize(group)


def one_by_one(written: Iterable[AppliedEvent]) -> Iterator[AppliedEvent]:
    """The events as a replay of their records finds them."""
    for entry in written:
        if isinstance(entry.event, OffsetsCommitted):
            for event in entry.event.each():
                yield entry._replace(event=event)
        else:
            yield entry


def offset(
    topic: str = "orders",
    partition: int = 0,
    value: int = 1,
    metadata: str = "",
    retention_ms: int = -1,
    topic_id: UUID | None = None,
) -> NewOffsets:
    """An offset to be committed."""
    return NewOffsets(topic, [partition], [value], [-1], [metadata], retention_ms, topic_id)
