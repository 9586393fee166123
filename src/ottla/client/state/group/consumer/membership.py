"""The states of a member of KIP-848, its epoch and its target, and what error codes of the coordinator mean.

Errors are handled as in Kafka's client (AbstractMembershipManager, AbstractHeartbeatRequestManager), except that a
member whose group was deleted joins again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from ottla.client.state.group.membership import (
    COMMIT_REACTIONS,
    AfterError,
    CommitFailure,
    Generation,
)
from ottla.errors import ErrorCode, KafkaError

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
LEAVING_STATIC_EPOCH: Final = -2


class ConsumerState(Enum):
    """The state of a member."""

    UNSUBSCRIBED = "not in the group"
    JOINING = "wants to join, and has no answer yet"
    RECONCILING = "has a target that differs from its partitions"
    STABLE = "has the partitions of its target"
    FENCED = "was removed from the group, and has to release its partitions before it joins again"
    STALE = "has left because the program did not poll, and has to release its partitions"
    FATAL = "was refused for good"


class ConsumerEvent(Enum):
    """An event that changes the state of a member."""

    JOIN_WANTED = "the program polls with a subscription"
    TARGET_GIVEN = "a heartbeat was answered, and the target is not reached"
    TARGET_REACHED = (
        "a heartbeat was answered, or partitions were assigned, and the target is reached"
    )
    REMOVED = "the coordinator does not know the member, or its epoch is old"
    POLL_EXPIRED = "the program has not polled for max.poll.interval.ms"
    REFUSED = "the coordinator answered with an error that a retry does not cure"
    LEFT = "the program unsubscribed or closes the consumer"


IN_GROUP: Final = (ConsumerState.JOINING, ConsumerState.RECONCILING, ConsumerState.STABLE)
RELEASING: Final = (ConsumerState.FENCED, ConsumerState.STALE, ConsumerState.FATAL)

# Other combinations change nothing: they are about an earlier time in the group.
TRANSITIONS: Final[Mapping[tuple[ConsumerState, ConsumerEvent], ConsumerState]] = {
    (ConsumerState.UNSUBSCRIBED, ConsumerEvent.JOIN_WANTED): ConsumerState.JOINING,
    (ConsumerState.FENCED, ConsumerEvent.JOIN_WANTED): ConsumerState.JOINING,
    (ConsumerState.STALE, ConsumerEvent.JOIN_WANTED): ConsumerState.JOINING,
    (ConsumerState.JOINING, ConsumerEvent.TARGET_GIVEN): ConsumerState.RECONCILING,
    (ConsumerState.RECONCILING, ConsumerEvent.TARGET_GIVEN): ConsumerState.RECONCILING,
    (ConsumerState.STABLE, ConsumerEvent.TARGET_GIVEN): ConsumerState.RECONCILING,
    (ConsumerState.JOINING, ConsumerEvent.TARGET_REACHED): ConsumerState.STABLE,
    (ConsumerState.RECONCILING, ConsumerEvent.TARGET_REACHED): ConsumerState.STABLE,
    (ConsumerState.STABLE, ConsumerEvent.TARGET_REACHED): ConsumerState.STABLE,
    **{(state, ConsumerEvent.REMOVED): ConsumerState.FENCED for state in IN_GROUP},
    **{(state, ConsumerEvent.POLL_EXPIRED): ConsumerState.STALE for state in IN_GROUP},
    **{(state, ConsumerEvent.REFUSED): ConsumerState.FATAL for state in IN_GROUP},
    **{(state, ConsumerEvent.LEFT): ConsumerState.UNSUBSCRIBED for state in ConsumerState},
}


class TopicIdPartition(NamedTuple):
    """A partition, by the id of its topic."""

    topic_id: UUID
    partition: int


class Target(NamedTuple):
    """Partitions that the coordinator gave the member; the number tells targets apart that have the same partitions."""

    number: int
    partitions: frozenset[TopicIdPartition]


class AfterHeartbeat(Enum):
    """The next step after a heartbeat that was answered with an error."""

    RETRY = "send it again after a pause"
    FIND_COORDINATOR = "look the coordinator up, then send it again"
    TELL_AND_RETRY = "raise the error to the program, and send it again after a pause"
    JOIN_AGAIN = "release the partitions and join again, in the next poll"
    GIVE_UP = "raise the error to the program in every poll"
    IGNORE = "nothing: it concerns an earlier time in the group"


# Codes that are not listed end the membership, unless they are retriable.
HEARTBEAT_REACTIONS: Final[Mapping[ErrorCode, AfterHeartbeat]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: AfterHeartbeat.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: AfterHeartbeat.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: AfterHeartbeat.FIND_COORDINATOR,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AfterHeartbeat.TELL_AND_RETRY,
    ErrorCode.FENCED_MEMBER_EPOCH: AfterHeartbeat.JOIN_AGAIN,
    ErrorCode.UNKNOWN_MEMBER_ID: AfterHeartbeat.JOIN_AGAIN,
    ErrorCode.GROUP_ID_NOT_FOUND: AfterHeartbeat.JOIN_AGAIN,
}


class ConsumerMembership:
    """The state of a member, its epoch, its target, and the last target that it has reached."""

    def __init__(self, member_id: str, group_instance_id: str | None = None) -> None:
        # One id for the whole life of the consumer (KIP-1082).
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.state = ConsumerState.UNSUBSCRIBED
        self.member_epoch = JOINING_EPOCH
        self.incarnation = 0
        """Rises when the member joins or leaves: answers to earlier requests do not concern it any more."""
        self.target: Target | None = None
        self.reached: Target | None = None
        """The last target that was taken over, as far as its topics were known; heartbeats report its partitions."""
        self.poll_timed_out = False
        """Whether the member left because of max.poll.interval.ms, and has not joined again."""
        self.fatal: KafkaError | None = None
        """Why the coordinator refuses this member for good."""
        self.metadata_generation = Generation()
        """The last valid epoch, which transactions are sent with; it outlives the time in the group."""

    def _move(self, event: ConsumerEvent) -> bool:
        """Apply an event; False if it does not apply in this state."""
        target = TRANSITIONS.get((self.state, event))
        if target is None:
            return False
        self.state = target
        return True

    # Queries

    @property
    def is_in_group(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self.state in IN_GROUP

    @property
    def has_to_release(self) -> bool:
        """Whether the partitions are lost, and the listener has to be told."""
        return self.state in RELEASING

    @property
    def stable_generation(self) -> Generation | None:
        """The member id and epoch to commit with; None while the member is not in the group."""
        if self.is_in_group and self.member_epoch > JOINING_EPOCH:
            return Generation(self.member_epoch, self.member_id)
        return None

    @property
    def checked_generation(self) -> Generation | None:
        """The member id and epoch that OffsetFetch is sent with."""
        return self.stable_generation

    @property
    def is_rebalancing(self) -> bool:
        """False: a member commits with its epoch while it reconciles as well."""
        return False

    @property
    def is_fenced(self) -> bool:
        """Whether another member uses this group.instance.id."""
        return self.fatal is not None and self.fatal.code is ErrorCode.FENCED_INSTANCE_ID

    @property
    def leaving_epoch(self) -> int:
        """The epoch of the last heartbeat; a static member may come back, and keeps its partitions until then."""
        return LEAVING_EPOCH if self.group_instance_id is None else LEAVING_STATIC_EPOCH

    # The program's side

    def join(self) -> None:
        """Join with the next heartbeat; the partitions of an earlier time in the group were released."""
        if self._move(ConsumerEvent.JOIN_WANTED):
            self._forget_target()

    def poll_expired(self) -> None:
        """The member has left because the program did not poll (KIP-62)."""
        if self._move(ConsumerEvent.POLL_EXPIRED):
            self._forget_target()
            self.poll_timed_out = True

    def left(self) -> None:
        """The member has left because the program wanted it; it may join again after any error."""
        self._move(ConsumerEvent.LEFT)
        self._forget_target()
        self.fatal = None
        self.poll_timed_out = False
        self.metadata_generation = Generation()

    # Heartbeats

    def answered(
        self, incarnation: int, member_epoch: int, assigned: frozenset[TopicIdPartition] | None
    ) -> None:
        """A heartbeat succeeded; `assigned` is None if the target has not changed."""
        if incarnation != self.incarnation or not self.is_in_group:
            return
        self.poll_timed_out = False
        self.member_epoch = member_epoch
        if member_epoch > JOINING_EPOCH:
            self.metadata_generation = Generation(member_epoch, self.member_id)
        if assigned is not None and (self.target is None or self.target.partitions != assigned):
            number = 0 if self.target is None else self.target.number + 1
            self.target = Target(number, assigned)
        self._compare_with_target()

    def refused(self, incarnation: int, code: int) -> AfterHeartbeat:
        """A heartbeat was answered with an error; for GIVE_UP the caller has to call `give_up`."""
        if incarnation != self.incarnation or not self.is_in_group:
            return AfterHeartbeat.IGNORE
        error = ErrorCode(code)
        otherwise = AfterHeartbeat.RETRY if error.retriable else AfterHeartbeat.GIVE_UP
        reaction = HEARTBEAT_REACTIONS.get(error, otherwise)
        if error is ErrorCode.GROUP_ID_NOT_FOUND and self.state is ConsumerState.JOINING:
            # A group that is missing is created for the member, so this one is of another type.
            reaction = AfterHeartbeat.GIVE_UP
        if reaction is AfterHeartbeat.JOIN_AGAIN:
            self._move(ConsumerEvent.REMOVED)
            self._forget_target()
        return reaction

    def give_up(self, error: KafkaError) -> None:
        """The coordinator refuses the member for good."""
        if self._move(ConsumerEvent.REFUSED):
            self._forget_target()
            self.fatal = error

    # Reconciliation

    def reconciled(
        self, incarnation: int, number: int, partitions: frozenset[TopicIdPartition]
    ) -> None:
        """The partitions of this target were taken over, perhaps without topics that are not known yet."""
        if incarnation == self.incarnation and self.is_in_group:
            self.reached = Target(number, partitions)
            self._compare_with_target()

    def _compare_with_target(self) -> None:
        if self.reached == self.target:
            self._move(ConsumerEvent.TARGET_REACHED)
        else:
            self._move(ConsumerEvent.TARGET_GIVEN)

    def _forget_target(self) -> None:
        self.incarnation += 1
        self.member_epoch = JOINING_EPOCH
        self.target = self.reached = None

    # Commits

    def commit_failed(self, code: int, sent: Generation) -> AfterError | CommitFailure:
        """A commit was refused for one of its partitions."""
        del sent
        error = ErrorCode(code)
        match error:
            case ErrorCode.STALE_MEMBER_EPOCH if self.stable_generation is not None:
                # The answer to a heartbeat has the new epoch, or had it after this commit was sent. The partitions are
                # the member's own until it gives them up, which happens in poll and not while a commit waits.
                return AfterError.RETRY
            case (
                ErrorCode.STALE_MEMBER_EPOCH
                | ErrorCode.UNKNOWN_MEMBER_ID
                | ErrorCode.ILLEGAL_GENERATION
            ):
                return CommitFailure.STALE
            case ErrorCode.REBALANCE_IN_PROGRESS:
                return CommitFailure.REBALANCING
        reaction = COMMIT_REACTIONS.get(error)
        return AfterError.TELL if reaction is None else reaction.next
