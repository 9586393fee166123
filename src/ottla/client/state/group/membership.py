"""A member of a classic group, without IO: its states, and what every answer of the coordinator means for it.

The errors are treated as Kafka's client treats them (AbstractCoordinator, ConsumerCoordinator).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError, exception_for
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

NO_GENERATION_ID: Final = -1
NO_MEMBER_ID: Final = ""

PROTOCOL_TYPE: Final = "consumer"

_LONGEST_REASON: Final = 255


class MemberState(Enum):
    """How far a member is."""

    UNJOINED = "not in the group"
    JOINING = "has sent JoinGroup and has no answer"
    SYNCING = "knows its generation and waits for its assignment"
    STABLE = "has its assignment"


class Event(Enum):
    """What moves a member from state to state."""

    JOIN_SENT = "JoinGroup was sent"
    JOINED = "JoinGroup was answered"
    SYNCED = "SyncGroup was answered"
    RESET = "the generation counts no more: an error said so, or the member left"


# An event that has no line here comes from a request that a reset has overtaken: it changes nothing.
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

# While JoinGroup is on its way, the coordinator knows that the member lives; before, it does not care.
HEARTBEATING: Final = (MemberState.SYNCING, MemberState.STABLE)
REBALANCING: Final = (MemberState.JOINING, MemberState.SYNCING)


class Generation(NamedTuple):
    """Which generation of the group a member belongs to, and as whom."""

    generation_id: int = NO_GENERATION_ID
    member_id: str = NO_MEMBER_ID
    protocol_name: str | None = None

    @property
    def is_reset(self) -> bool:
        """Whether it is no generation of a group; the member id may be kept all the same."""
        return self.generation_id == NO_GENERATION_ID and self.protocol_name is None

    @property
    def is_lost(self) -> bool:
        """Whether partitions that were assigned in it belong to others by now."""
        return self.generation_id == NO_GENERATION_ID or self.member_id == NO_MEMBER_ID


class AfterError(Enum):
    """What to do after an answer with an error."""

    JOIN_AGAIN = "join again at once"
    RETRY = "try again after a pause"
    FIND_COORDINATOR = "look the coordinator up, then try again"
    REFRESH_AND_RETRY = "ask for metadata and try again after a pause"
    IGNORE = "nothing: it concerns the past"
    TELL = "tell the user"


class Reset(Enum):
    """What of its identity a member gives up."""

    NOTHING = "nothing"
    GENERATION = "the generation; the member id may still be good"
    MEMBER = "the generation and the member id"


class Reaction(NamedTuple):
    """What an error code makes of a member, and what follows."""

    next: AfterError
    reset: Reset = Reset.NOTHING


_TELL: Final = Reaction(AfterError.TELL)

# Codes without a line are told to the user: FENCED_INSTANCE_ID, GROUP_AUTHORIZATION_FAILED, GROUP_MAX_SIZE_REACHED,
# INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, and what nobody expects.
JOIN_REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction(AfterError.RETRY),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.NOT_COORDINATOR: Reaction(AfterError.FIND_COORDINATOR),
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction(AfterError.JOIN_AGAIN, Reset.MEMBER),
    # The answer carries the id to join with (KIP-394).
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
    """Why the group refuses a commit; a poll helps, a repetition does not."""

    REBALANCING = "the group rebalances: poll, then commit again"
    STALE = "the partitions may belong to another member by now"


class Membership:
    """A member's state and identity, and whether it has to join again."""

    def __init__(self, group_instance_id: str | None = None) -> None:
        self.group_instance_id = group_instance_id
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.rejoin_needed = True
        self.rejoin_reason = ""
        # Before every join there is something to do, once: commit, revoke.
        self.needs_prepare = True
        self.poll_timed_out = False
        """Whether it left because of max.poll.interval.ms and has not joined again."""
        self.is_fenced = False
        """Whether a heartbeat told it that another member has its group.instance.id."""

    def _move(self, event: Event) -> bool:
        """Take an event; false if it comes too late to mean anything."""
        target = TRANSITIONS.get((self.state, event))
        if target is None:
            return False
        self.state = target
        return True

    # What is asked

    @property
    def heartbeats(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self.state in HEARTBEATING

    @property
    def is_rebalancing(self) -> bool:
        """Whether it waits for its next assignment."""
        return self.state in REBALANCING

    @property
    def stable_generation(self) -> Generation | None:
        """The generation, once the member has its assignment: what it may commit with."""
        return self.generation if self.state is MemberState.STABLE else None

    @property
    def sends_leave(self) -> bool:
        """Whether leaving takes a request: static members stay until their session ends (KIP-345)."""
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
        """JoinGroup goes out; the generation that it speaks for."""
        self._move(Event.JOIN_SENT)
        return self.generation

    def joined(self, generation: Generation) -> bool:
        """JoinGroup was answered; false if the member has left in the meantime."""
        if not self._move(Event.JOINED):
            return False
        self.generation = generation
        self.poll_timed_out = False
        return True

    def join_failed(self, code: int, sent: Generation, member_id: str) -> AfterError:
        """JoinGroup was refused; `member_id` is that of the answer."""
        error = ErrorCode(code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=member_id)
            self.request_rejoin(f"need to re-join with the given member-id: {member_id}")
        return self._react(JOIN_REACTIONS, error, sent, "JoinGroup")

    def synced(self) -> bool:
        """SyncGroup was answered; false if the generation was reset in the meantime."""
        if self.generation.is_reset or not self._move(Event.SYNCED):
            return False
        self.rejoin_needed = False
        self.rejoin_reason = ""
        return True

    def sync_failed(self, code: int, sent: Generation) -> AfterError:
        """SyncGroup was refused."""
        return self._react(SYNC_REACTIONS, ErrorCode(code), sent, "SyncGroup")

    def attempt_failed(self, name: str) -> None:
        """Joining or syncing came to nothing; the reason tells the coordinator why it happens again."""
        if name != ErrorCode.MEMBER_ID_REQUIRED.name:
            self.request_rejoin(f"rebalance failed due to {name}")

    def reset_and_rejoin(self, reason: str) -> None:
        """Start again as somebody new."""
        self._reset(Reset.MEMBER, reason)

    # Being a member

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
        """The member left, or would have if anybody had known it."""
        self._reset(Reset.MEMBER, reason)

    def left_after_poll_timeout(self) -> None:
        """The member left because nobody polled (KIP-62)."""
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
        # An error about a former generation says nothing about this one.
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


def static_members_unsupported(api: str) -> KafkaError:
    """The error of a member with group.instance.id at a broker before Kafka 2.3."""
    return exception_for(
        ErrorCode.UNSUPPORTED_VERSION,
        "The broker knows no static members: leave group.instance.id out.",
        api=api,
    )


def truncated_reason(reason: str) -> str:
    """A reason as the coordinator accepts it (KIP-800)."""
    return reason[:_LONGEST_REASON]


def leave_request(group_id: str, member_id: str, reason: str, version: int) -> LeaveGroupRequest:
    """What a member says that goes; older versions know one member, and no reason (KIP-800)."""
    if version < 3:
        return LeaveGroupRequest(group_id=group_id, member_id=member_id)
    identity = MemberIdentity(member_id=member_id, reason=truncated_reason(reason))
    return LeaveGroupRequest(group_id=group_id, members=[identity])
