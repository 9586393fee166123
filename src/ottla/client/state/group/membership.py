"""A member of a group of the classic protocol, without IO: its states, and what error codes of the coordinator mean.

Errors are handled as in Kafka's client (AbstractCoordinator, ConsumerCoordinator).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, exception_for
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

NO_GENERATION_ID: Final = -1
NO_MEMBER_ID: Final = ""

PROTOCOL_TYPE: Final = "consumer"

_LONGEST_REASON: Final = 255
_FIRST_VERSION_WITH_STATIC_MEMBERS: Final = {
    "JoinGroup": 5,
    "SyncGroup": 3,
    "Heartbeat": 3,
    "OffsetCommit": 7,
}


class MemberState(Enum):
    """The state of a member."""

    UNJOINED = "not in the group"
    JOINING = "has sent JoinGroup and has no answer"
    SYNCING = "knows its generation and waits for its assignment"
    STABLE = "has its assignment"


class Event(Enum):
    """An event that changes the state of a member."""

    JOIN_SENT = "JoinGroup was sent"
    JOINED = "JoinGroup was answered"
    SYNCED = "SyncGroup was answered"
    RESET = "the generation is not valid any more: by an error, or because the member left"


# Other combinations are answers to requests from before a reset, and change nothing.
TRANSITIONS: Final[Mapping[tuple[MemberState, Event], MemberState]] = {
    (MemberState.UNJOINED, Event.JOIN_SENT): MemberState.JOINING,
    (MemberState.JOINING, Event.JOIN_SENT): MemberState.JOINING,
    (MemberState.SYNCING, Event.JOIN_SENT): MemberState.JOINING,
    (MemberState.STABLE, Event.JOIN_SENT): MemberState.JOINING,
    (MemberState.JOINING, Event.JOINED): MemberState.SYNCING,
    (MemberState.SYNCING, Event.SYNCED): MemberState.STABLE,
    (MemberState.UNJOINED, Event.RESET): MemberState.UNJOINED,
    (MemberState.JOINING, Event.RESET): MemberState.UNJOINED,
    (MemberState.SYNCING, Event.RESET): MemberState.UNJOINED,
    (MemberState.STABLE, Event.RESET): MemberState.UNJOINED,
}

# While a JoinGroup is in flight, the coordinator expects no heartbeats.
HEARTBEATING: Final = (MemberState.SYNCING, MemberState.STABLE)
REBALANCING: Final = (MemberState.JOINING, MemberState.SYNCING)


class Generation(NamedTuple):
    """The generation of a member, its member id, and the assignor of the generation."""

    generation_id: int = NO_GENERATION_ID
    member_id: str = NO_MEMBER_ID
    protocol_name: str | None = None

    @property
    def is_reset(self) -> bool:
        """Whether the member has no generation; it may still have a member id."""
        return self.generation_id == NO_GENERATION_ID and self.protocol_name is None

    @property
    def is_lost(self) -> bool:
        """Whether partitions that were assigned in it may belong to other members by now."""
        return self.generation_id == NO_GENERATION_ID or self.member_id == NO_MEMBER_ID


class AfterError(Enum):
    """The next step after an error of the coordinator."""

    JOIN_AGAIN = "join again at once"
    RETRY = "try again after a pause"
    FIND_COORDINATOR = "look the coordinator up, then try again"
    REFRESH_AND_RETRY = "ask for metadata and try again after a pause"
    IGNORE = "nothing: it concerns an earlier generation"
    TELL = "raise it to the program"


class Reset(Enum):
    """The state that a member resets after an error."""

    NOTHING = "nothing"
    GENERATION = "the generation, but not the member id"
    MEMBER = "the generation and the member id"


class Reaction(NamedTuple):
    """The state that a member resets after an error code, and the next step."""

    next: AfterError
    reset: Reset = Reset.NOTHING


_TELL: Final = Reaction(AfterError.TELL)

# Codes that are not listed are raised: FENCED_INSTANCE_ID, GROUP_AUTHORIZATION_FAILED, GROUP_MAX_SIZE_REACHED,
# INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, and unexpected ones.
JOIN_REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction(AfterError.RETRY),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.NOT_COORDINATOR: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction(AfterError.JOIN_AGAIN, Reset.MEMBER),
    # The response has the member id to join with (KIP-394).
    ErrorCode.MEMBER_ID_REQUIRED: Reaction(AfterError.JOIN_AGAIN),
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction(AfterError.JOIN_AGAIN),
}
SYNC_REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction(AfterError.RETRY),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.NOT_COORDINATOR: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction(AfterError.JOIN_AGAIN),
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction(AfterError.JOIN_AGAIN, Reset.MEMBER),
    ErrorCode.ILLEGAL_GENERATION: Reaction(AfterError.JOIN_AGAIN, Reset.GENERATION),
}
HEARTBEAT_REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction(AfterError.RETRY),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.NOT_COORDINATOR: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction(AfterError.JOIN_AGAIN),
    ErrorCode.ILLEGAL_GENERATION: Reaction(AfterError.JOIN_AGAIN, Reset.GENERATION),
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction(AfterError.JOIN_AGAIN, Reset.MEMBER),
    ErrorCode.FENCED_INSTANCE_ID: Reaction(AfterError.TELL, Reset.MEMBER),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _TELL,
}
COMMIT_REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction(AfterError.RETRY),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction(AfterError.RETRY),
    ErrorCode.UNKNOWN_TOPIC_ID: Reaction(AfterError.REFRESH_AND_RETRY),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.NOT_COORDINATOR: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.REQUEST_TIMED_OUT: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction(AfterError.JOIN_AGAIN),
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction(AfterError.JOIN_AGAIN, Reset.MEMBER),
    ErrorCode.ILLEGAL_GENERATION: Reaction(AfterError.JOIN_AGAIN, Reset.GENERATION),
}


class CommitFailure(Enum):
    """Why the group refuses a commit; the program has to poll before it commits again."""

    REBALANCING = "the group rebalances"
    STALE = "the partitions may belong to another member by now"


class Membership:
    """The state of a member, its generation, and whether it has to join again."""

    def __init__(self, group_instance_id: str | None = None) -> None:
        self.group_instance_id = group_instance_id
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.rejoin_needed = True
        self.rejoin_reason = ""
        # Whether the member has to commit and revoke partitions before it joins.
        self.needs_prepare = True
        self.poll_timed_out = False
        """Whether the member left because of max.poll.interval.ms, and has not joined again."""
        self.is_fenced = False
        """Whether a heartbeat was refused because another member uses this group.instance.id."""

    def _move(self, event: Event) -> bool:
        """Apply an event; False if it does not apply in this state."""
        target = TRANSITIONS.get((self.state, event))
        if target is None:
            return False
        self.state = target
        return True

    # Queries

    @property
    def heartbeats(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self.state in HEARTBEATING

    @property
    def is_rebalancing(self) -> bool:
        """Whether the member waits for its next assignment."""
        return self.state in REBALANCING

    @property
    def stable_generation(self) -> Generation | None:
        """The generation to commit with; None while the member has no assignment."""
        return self.generation if self.state is MemberState.STABLE else None

    @property
    def checked_generation(self) -> Generation | None:
        """None: coordinators of the classic protocol do not check who asks for committed offsets."""
        return None

    @property
    def sends_leave(self) -> bool:
        """Whether leaving sends LeaveGroup: static members stay until their session ends (KIP-345)."""
        return (
            self.group_instance_id is None
            and self.state is not MemberState.UNJOINED
            and self.generation.member_id != NO_MEMBER_ID
        )

    # Joining

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next opportunity."""
        self.rejoin_reason = reason
        self.rejoin_needed = True

    def join_sent(self) -> Generation:
        """JoinGroup is sent; returns the generation that it is sent with."""
        self._move(Event.JOIN_SENT)
        return self.generation

    def joined(self, generation: Generation) -> bool:
        """JoinGroup succeeded; False if the member has left in the meantime."""
        if not self._move(Event.JOINED):
            return False
        self.generation = generation
        self.poll_timed_out = False
        return True

    def join_failed(self, code: int, sent: Generation, member_id: str) -> AfterError:
        """JoinGroup was refused; `member_id` is that of the response."""
        error = ErrorCode(code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=member_id)
            self.request_rejoin(f"need to re-join with the given member-id: {member_id}")
        return self._react(JOIN_REACTIONS, error, sent, "JoinGroup")

    def synced(self) -> bool:
        """SyncGroup succeeded; False if the generation was reset in the meantime."""
        if self.generation.is_reset or not self._move(Event.SYNCED):
            return False
        self.rejoin_needed = False
        self.rejoin_reason = ""
        return True

    def sync_failed(self, code: int, sent: Generation) -> AfterError:
        """SyncGroup was refused."""
        return self._react(SYNC_REACTIONS, ErrorCode(code), sent, "SyncGroup")

    def attempt_failed(self, name: str) -> None:
        """An attempt failed; the next JoinGroup has the reason."""
        if name != ErrorCode.MEMBER_ID_REQUIRED.name:
            self.request_rejoin(f"rebalance failed due to {name}")

    def reset_and_rejoin(self, reason: str) -> None:
        """Give generation and member id up, and join again."""
        self._reset(Reset.MEMBER, reason)

    # Errors as a member, leaving

    def heartbeat_failed(self, code: int, sent: Generation) -> AfterError:
        """A heartbeat was answered with an error."""
        error = ErrorCode(code)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is not MemberState.STABLE:
                return AfterError.IGNORE
            self.request_rejoin("group is already rebalancing")
            return AfterError.JOIN_AGAIN
        reaction = HEARTBEAT_REACTIONS.get(error, Reaction(AfterError.RETRY))
        if reaction.reset is not Reset.NOTHING and self.generation != sent:
            return AfterError.IGNORE
        self.is_fenced = error is ErrorCode.FENCED_INSTANCE_ID
        return self._react(
            HEARTBEAT_REACTIONS, error, sent, "Heartbeat", Reaction(AfterError.RETRY)
        )

    def commit_failed(self, code: int, sent: Generation) -> AfterError | CommitFailure:
        """A commit was refused for one of its partitions."""
        error = ErrorCode(code)
        is_old = self.generation != sent
        match error:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.request_rejoin("offset commit failed since group is already rebalancing")
                return CommitFailure.REBALANCING
            case ErrorCode.FENCED_INSTANCE_ID if is_old and not self.is_fenced:
                joining = self.state is MemberState.JOINING
                return CommitFailure.REBALANCING if joining else CommitFailure.STALE
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                if is_old and self.state is MemberState.JOINING:
                    return CommitFailure.REBALANCING
                self._reset(COMMIT_REACTIONS[error].reset, _encountered(error, "OffsetCommit"))
                return CommitFailure.STALE
        return COMMIT_REACTIONS.get(error, _TELL).next

    def left(self, reason: str) -> None:
        """The member has left the group."""
        self._reset(Reset.MEMBER, reason)

    def left_after_poll_timeout(self) -> None:
        """The member has left because the program did not poll (KIP-62)."""
        self.left("consumer poll timeout has expired")
        self.poll_timed_out = True

    def _react(
        self,
        reactions: Mapping[ErrorCode, Reaction],
        error: ErrorCode,
        sent: Generation,
        api: str,
        otherwise: Reaction = _TELL,
    ) -> AfterError:
        reaction = reactions.get(error, otherwise)
        # An error of a request with an earlier generation does not concern this one.
        if reaction.reset is not Reset.NOTHING and self.generation == sent:
            self._reset(reaction.reset, _encountered(error, api))
        return reaction.next

    def _reset(self, what: Reset, reason: str) -> None:
        member_id = self.generation.member_id if what is Reset.GENERATION else NO_MEMBER_ID
        self._move(Event.RESET)
        self.generation = Generation(member_id=member_id)
        self.request_rejoin(reason)
        self.needs_prepare = True


def _encountered(error: ErrorCode, api: str) -> str:
    return f"encountered {error.name} from {api} response"


def check_static_member(api: str, group_instance_id: str | None, version: int) -> None:
    """Raise if the member has a group.instance.id and the broker is older than Kafka 2.3 (KIP-345)."""
    if group_instance_id is not None and version < _FIRST_VERSION_WITH_STATIC_MEMBERS[api]:
        raise exception_for(
            ErrorCode.UNSUPPORTED_VERSION,
            "The broker knows no static members: leave group.instance.id out.",
            api=api,
        )


def truncated_reason(reason: str) -> str:
    """A reason, cut to the length that coordinators accept (KIP-800)."""
    return reason[:_LONGEST_REASON]


def leave_request(group_id: str, member_id: str, reason: str, version: int) -> LeaveGroupRequest:
    """A LeaveGroup request; old versions have one member, and no reason (KIP-800)."""
    if version < 3:
        return LeaveGroupRequest(group_id=group_id, member_id=member_id)
    identity = MemberIdentity(member_id=member_id, reason=truncated_reason(reason))
    return LeaveGroupRequest(group_id=group_id, members=[identity])
