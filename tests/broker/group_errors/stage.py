"""A broker, a group and its members, brought into the situation that is asked about."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from tests.broker import group_requests as ask
from tests.broker.group_requests import Joined, Position
from tests.broker.requests import every_version_of, versions_of

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode

# The options that the table needs, of whichever broker it is tried with.
MIN_SESSION_TIMEOUT_MS = 100
MAX_SESSION_TIMEOUT_MS = 1_800_000
OPTIONS = {
    "group.min.session.timeout.ms": str(MIN_SESSION_TIMEOUT_MS),
    "group.max.session.timeout.ms": str(MAX_SESSION_TIMEOUT_MS),
    "group.initial.rebalance.delay.ms": "0",
    "offset.metadata.max.bytes": "4096",
}
SHORT_SESSION_MS = 200
INT_MAX = (1 << 31) - 1
INT_MIN = -(1 << 31)
LONG_MAX = (1 << 63) - 1
# The longest string that a message can carry.
LONGEST = "x" * 32767
PARTITIONS = 2
FIRST_COMMIT_WITH_INSTANCE, FIRST_SYNC_WITH_INSTANCE, FIRST_HEARTBEAT_WITH_INSTANCE = 7, 3, 3


class Stage:
    """A broker and a group of its own for one situation."""

    def __init__(
        self,
        address: str,
        stack: ExitStack,
        topic: str,
        topic_id: uuid.UUID,
        let_pass: Callable[[float], None],
    ) -> None:
        self._address = address
        self._let_pass = let_pass
        self._stack = stack
        self.group = f"g-{uuid.uuid4().hex[:12]}"
        self.topic = topic
        self.topic_id = topic_id
        self.connection = self.connect()

    def connect(self) -> RawConnection:
        return self._stack.enter_context(RawConnection(self._address))

    # Groups that things can go wrong with.

    def stable(self, **details: Any) -> Joined:
        """The only member of a stable group."""
        return ask.enter(self.connection, self.group, **details)

    def completing(self) -> Joined:
        """A member that has joined and not synced."""
        answer = ask.join_fully(self.connection, self.group)
        assert answer.error_code == ErrorCode.NONE, answer
        return Joined(self.group, answer.member_id, answer.generation_id)

    def preparing(self) -> Joined:
        """A member that has to join again, because somebody else waits to join."""
        member = self.stable()
        other = self.connect()
        new_id = ask.new_member_id(other, self.group)
        other.send(ask.join_request(self.group, new_id), 9)
        ask.await_state(self.connection, self.group, "PreparingRebalance")
        return member

    def expired(self) -> Joined:
        """Somebody who was in the group until its session ended."""
        new_id = ask.new_member_id(self.connection, self.group)
        answer = ask.join(self.connection, self.group, new_id, session_timeout_ms=SHORT_SESSION_MS)
        assert answer.error_code == ErrorCode.NONE, answer
        member = Joined(self.group, new_id, answer.generation_id)
        # On a busy machine the session may have ended by now.
        ask.sync(self.connection, member, {new_id: b"mine"})
        self._let_pass(SHORT_SESSION_MS / 1000)
        ask.await_state(self.connection, self.group, "Empty")
        return member

    def left(self) -> Joined:
        member = self.stable()
        assert ask.leave_errors(self.connection, self.group, (member.member_id, None)) == [
            ErrorCode.NONE
        ]
        return member

    def fenced(self) -> Joined:
        """A static member whose place another process has taken."""
        member = self.stable(instance_id="instance")
        again = ask.join(self.connection, self.group, instance_id="instance")
        assert again.error_code == ErrorCode.NONE, again
        assert again.member_id != member.member_id
        return member

    def stranger(self) -> Joined:
        return Joined(self.group, "stranger", 1)

    # Asking.

    def join(self, version: int, member_id: str = "", **details: Any) -> ErrorCode:
        answer = ask.join(self.connection, self.group, member_id, version=version, **details)
        return ErrorCode(answer.error_code)

    def join_fully(self, version: int, **details: Any) -> ErrorCode:
        answer = ask.join_fully(self.connection, self.group, version=version, **details)
        return ErrorCode(answer.error_code)

    def sync(self, version: int, member: Joined, *assignments: Any, **details: Any) -> ErrorCode:
        answer = ask.sync(self.connection, member, assignments, version=version, **details)
        return ErrorCode(answer.error_code)

    def heartbeat(self, version: int, member: Joined) -> ErrorCode:
        return ask.heartbeat(self.connection, member, version=version)

    def leave(self, version: int, *members: tuple[str, str | None]) -> ErrorCode:
        """The error of the last of the members."""
        return ask.leave_errors(self.connection, self.group, *members, version=version)[-1]

    def commit(
        self,
        version: int,
        member: Joined | None = None,
        *,
        topic: str | None = None,
        partition: int = 0,
        position: int | Position = 5,
        **details: Any,
    ) -> ErrorCode:
        name = topic or self.topic
        by_name = version < ask.TOPIC_IDS_SINCE
        ids = None if by_name else {name: self.topic_id if topic is None else uuid.uuid4()}
        positions = {(name, partition): position}
        (error,) = ask.commit(
            self.connection,
            self.group,
            positions,
            version=version,
            member=member,
            topic_ids=ids,
            **details,
        )
        return error

    def delete_offsets(self, topic: str | None = None, partition: int = 0) -> ErrorCode:
        """The error of the group, or of the one partition."""
        answer = ask.delete_offsets(self.connection, self.group, {topic or self.topic: [partition]})
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode(answer.error_code)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def delete_group(self, version: int) -> ErrorCode:
        return ask.delete_groups(self.connection, self.group, version=version)[self.group]

    def describe(self, version: int) -> ErrorCode:
        return ErrorCode(ask.describe(self.connection, self.group, version=version).error_code)

    def fetch_offsets(self, version: int, topic: str, partition: int) -> ErrorCode:
        """The error of the group, or of the one partition."""
        answer = ask.fetch_offsets(
            self.connection, self.group, {topic: [partition]}, version=version
        )
        found = answer if version < ask.FETCH_BATCHED_SINCE else answer.groups[0]
        return ErrorCode(found.error_code or found.topics[0].partitions[0].error_code)

    def find(self, version: int, key: str, key_type: int) -> ErrorCode:
        answer = ask.find_coordinator(self.connection, key, key_type=key_type, version=version)
        found = answer if version < ask.FIND_BATCHED_SINCE else answer.coordinators[0]
        return ErrorCode(found.error_code)


@contextmanager
def stage_on(
    address: str, topic: str, topic_id: uuid.UUID, let_pass: Callable[[float], None]
) -> Iterator[Stage]:
    """`let_pass` lets so many seconds pass, by the clock of the broker."""
    with ExitStack() as stack:
        yield Stage(address, stack, topic, topic_id, let_pass)


Act = Callable[[Stage, int], ErrorCode]


class Situation(NamedTuple):
    """`versions` are those that it is about, all of the request's if there are none.

    Where Kafka answers differently on purpose, `kafka` is its answer and `why` is the reason.
    """

    request: type[Any]
    name: str
    expected: str
    act: Act
    versions: tuple[int, ...] = ()
    kafka: str | None = None
    why: str = ""

    def versions_among(self, served: range) -> list[int]:
        """The versions of the request to try with a broker that serves these."""
        known = self.versions or every_version_of(self.request)
        return [version for version in known if version in served]

    @property
    def title(self) -> str:
        api = self.request.__name__.removesuffix("Request")
        return f"{api}: {self.name}"


def since(request: type[Any], first: int) -> tuple[int, ...]:
    return tuple(range(first, versions_of(request)[1] + 1))


def after(bring_about: Callable[[Stage], object], act: Act) -> Act:
    """Something that is done when the group is in a certain state."""

    def both(stage: Stage, version: int) -> ErrorCode:
        bring_about(stage)
        return act(stage, version)

    return both


def without_group(stage: Stage) -> Stage:
    stage.group = ""
    return stage


def in_long_group(stage: Stage) -> Stage:
    stage.group = stage.group + LONGEST[len(stage.group) :]
    return stage
