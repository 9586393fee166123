"""The members of groups of the new protocol: joining, heartbeats, leaving, sessions.

A heartbeat does all: it brings the member's subscription up to date, then the group's epoch, then the targets, then the
member's own assignment, and writes what has changed. Nothing waits: a member learns the rest with its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from ottla.core.assignors.server_side.model import Partitions
from ottla.core.assignors.server_side.registry import SERVER_ASSIGNORS
from ottla.core.deadlines import Deadlines
from ottla.core.group.consumer.commit_rules import unknown_member
from ottla.core.group.consumer.events import (
    AssignedPartitions,
    ConsumerGroupEvent,
    CurrentAssignment,
    CurrentDeleted,
    CurrentSaved,
    GroupEpochDeleted,
    GroupEpochSaved,
    MemberDeleted,
    MemberSaved,
    MemberState,
    MemberSubscription,
    PartitionMetadataDeleted,
    PatternForgotten,
    TargetDeleted,
    TargetEpochDeleted,
    TargetEpochSaved,
    TargetSaved,
)
from ottla.core.group.consumer.group import ConsumerGroup, ConsumerMember, TopicsView
from ottla.core.group.consumer.log_messages import log_epoch, log_joined
from ottla.core.group.consumer.patterns import (
    are_changed,
    are_left_over,
    needs_refresh,
    resolved_events,
)
from ottla.core.group.consumer.reconciliation import Reported, Target, reconcile
from ottla.core.group.consumer.targets import compute_targets
from ottla.core.group.log_messages import log_expired, log_left, log_replaced
from ottla.core.group.requests import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupConfig,
    ConsumerHeartbeat,
    ConsumerHeartbeatRequest,
    ResolvedPatterns,
    ResolvePatterns,
)
from ottla.core.outcomes import Refused
from ottla.core.turn import Turn
from ottla.errors import ErrorCode

UNCHANGED_TIMEOUT = -1
# A member that waits for others, or for the next targets, is told to ask again so soon. Kafka lets it wait for its
# whole interval, which makes up most of the time of a rebalance.
WAITING_INTERVAL_MS = 500
# The least time between two target assignments grows with the group, whatever the options say: computing them takes
# some 8 us per member, and a thousand members that join at once must not do that a thousand times.
MEMBERS_PER_MS = 12

# The subject of a deadline: the session of a member, the time that it has to give up partitions, and for a member of
# the classic protocol the times until it has to join again and to sync.
Timer = tuple[Literal["session", "revocation", "join", "sync"], str, str]


class ConsumerGroups(NamedTuple):
    """What the members of groups need from outside: durable changes, options, topics, the rules of patterns."""

    write: Callable[[Turn, ConsumerGroupEvent], None]
    config: Callable[[str], ConsumerGroupConfig]
    topics: TopicsView
    # The problem of a pattern, or None.
    check_pattern: Callable[[str], str | None]
    # Whether a group may become a classic one when these members are gone, and the change itself.
    may_downgrade: Callable[[ConsumerGroup, Sequence[ConsumerMember]], bool]
    downgrade: Callable[[Turn, ConsumerGroup, Sequence[ConsumerMember]], None]


class Changed(NamedTuple):
    """Whether a member has another subscription, and whether that is a reason for another epoch already."""

    subscription: bool
    needs_epoch: bool


UNCHANGED = Changed(False, False)


class ConsumerMembership:
    """The groups of a partition that follow the new protocol, and their timers."""

    def __init__(self, outside: ConsumerGroups) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.deadlines: Deadlines[Timer] = Deadlines()
        self.may_downgrade = outside.may_downgrade
        self.downgrade = outside.downgrade
        self._outside = outside
        self._write = outside.write

    # The durable state.

    def apply(self, event: ConsumerGroupEvent) -> None:
        """Changes a group by an event of the log; a deletion of what is not there changes nothing."""
        if isinstance(event, GroupEpochDeleted):
            self.groups.pop(event.group_id, None)
            return
        group = self.groups.get(event.group_id)
        if group is None:
            if isinstance(event, _DELETIONS):
                return
            group = self.groups[event.group_id] = ConsumerGroup(event.group_id)
        group.apply(event)

    def state(self) -> object:
        """The state that a replay of the log has to restore."""
        return {group_id: group.durable_state() for group_id, group in self.groups.items()}

    # Starting and waking.

    def resume(self, turn: Turn) -> None:
        """Goes on with all groups: the session of every member begins anew."""
        for group in self.groups.values():
            for member in group.members.values():
                self.renew_session(turn, group, member)
                self._limit_revocation(turn, group, member)

    def wake(self, turn: Turn) -> None:
        """Handles the deadlines that have passed."""
        while (timer := self.deadlines.pop_due(turn.uptime_ms)) is not None:
            kind, group_id, member_id = timer
            group = self.groups.get(group_id)
            member = None if group is None else group.members.get(member_id)
            if group is None or member is None:
                continue
            log_expired(turn, group, member_id, _REASONS[kind])
            start = len(turn.written)
            self.remove(turn, group, [member])
            turn.keep_together(start)

    # Heartbeats.

    def check_room(
        self, group_id: str, members: Mapping[str, object], member_id: str
    ) -> Refused | None:
        """Whether a group with these members has room for the sender."""
        max_size = self._outside.config(group_id).max_size
        if len(members) < max_size or member_id in members:
            return None
        text = f"The consumer group has reached its maximum capacity of {max_size} members."
        return Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, text)

    def check_pattern(self, group: ConsumerGroup | None, pattern: str | None) -> Refused | None:
        """Whether a pattern that is new to the group is valid."""
        if not pattern or (group is not None and pattern in group.pattern_counts):
            return None
        problem = self._outside.check_pattern(pattern)
        return None if problem is None else Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, problem)

    def heartbeat(
        self, turn: Turn, group: ConsumerGroup, request: ConsumerHeartbeatRequest
    ) -> ConsumerHeartbeat | Refused:
        """A member joins, or stays."""
        refused = self.check_room(group.group_id, group.members, request.member_id)
        if refused is not None:
            return refused
        place = _find_place(group, request)
        if isinstance(place, Refused):
            return place
        refused = self.check_pattern(group, request.pattern)
        if refused is not None:
            return refused
        if request.member_epoch == JOIN_EPOCH:
            self.take_place(turn, group, place, request.member_id)
        known = group.members.get(request.member_id)
        before = CurrentAssignment() if known is None else known.current
        changed = self.update(turn, group, request.member_id, _subscription(known, request))
        self._refresh_patterns(turn, group, request.caller)
        member = group.members[request.member_id]
        self.advance_epoch(turn, group, bump=changed.needs_epoch)
        self.update_targets(turn, group)
        refused = self.reconcile(turn, group, member, request.owned, changed.subscription)
        if refused is not None:
            return refused
        self.renew_session(turn, group, member)
        return ConsumerHeartbeat(
            member.member_id,
            member.current.epoch,
            self._interval_ms(group, member),
            without_epochs(member.current.assigned)
            if _wants_assignment(request) or member.current.assigned != before.assigned
            else None,
        )

    def _interval_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        interval_ms = self._outside.config(group.group_id).heartbeat_interval_ms
        waits = (
            member.current.state is MemberState.UNRELEASED_PARTITIONS
            or group.target_epoch < group.epoch
        )
        return min(interval_ms, WAITING_INTERVAL_MS) if waits else interval_ms

    def take_place(
        self, turn: Turn, group: ConsumerGroup, place: ConsumerMember | None, member_id: str
    ) -> None:
        """Logs the join of a member; if it takes the place of a static member, it gets all that this one has."""
        if place is None or place.member_id == member_id:
            log_joined(turn, group, member_id)
            return
        log_replaced(turn, group, place.member_id, member_id)
        group_id, target = group.group_id, group.target(place.member_id)
        current = place.current._replace(epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        self._forget_member(turn, group, place)
        self._write(turn, MemberSaved(group_id, member_id, place.subscription))
        self._write(turn, TargetSaved(group_id, member_id, target))
        self._write(turn, CurrentSaved(group_id, member_id, current))

    # The steps of a heartbeat.

    def update(
        self, turn: Turn, group: ConsumerGroup, member_id: str, subscription: MemberSubscription
    ) -> Changed:
        """Writes what a member says of itself, if that has changed."""
        member = group.members.get(member_id)
        if member is not None and subscription == member.subscription:
            return UNCHANGED
        before = MemberSubscription() if member is None else member.subscription
        self._write(turn, MemberSaved(group.group_id, member_id, subscription))
        topics_changed = subscription.topics != before.topics
        pattern_changed = subscription.pattern != before.pattern
        if pattern_changed:
            self._forget_patterns(turn, group)
        # A pattern that is not resolved yet changes nothing before it is.
        is_resolved = not subscription.pattern or subscription.pattern in group.patterns
        return Changed(
            topics_changed or pattern_changed, topics_changed or (pattern_changed and is_resolved)
        )

    def _forget_patterns(self, turn: Turn, group: ConsumerGroup) -> None:
        for pattern in [each for each in group.patterns if each not in group.pattern_counts]:
            self._write(turn, PatternForgotten(group.group_id, pattern))

    def _refresh_patterns(self, turn: Turn, group: ConsumerGroup, caller: object) -> None:
        if not group.pattern_counts:
            return
        interval_ms = self._outside.config(group.group_id).regex_refresh_interval_ms
        if needs_refresh(group, self._outside.topics, turn.now_ms, interval_ms):
            group.is_resolving = True
            turn.then(ResolvePatterns(group.group_id, frozenset(group.pattern_counts), caller))

    def patterns_resolved(self, turn: Turn, group_id: str, found: ResolvedPatterns | None) -> None:
        """The topics that match a group's patterns are known; None if they could not be found."""
        group = self.groups.get(group_id)
        if group is None:
            return
        group.is_resolving = False
        if found is None:
            return
        group.patterns_version = found.version
        events = resolved_events(group, found.topics, found.version, turn.now_ms)
        changed = are_changed(group, events) or are_left_over(group, events)
        for event in events:
            self._write(turn, event)
        self.advance_epoch(turn, group, bump=changed)

    def advance_epoch(self, turn: Turn, group: ConsumerGroup, *, bump: bool) -> None:
        """Begins the next epoch if members have changed, or if the subscribed topics have."""
        version = self._outside.topics.topics_version
        if not bump and group.checked_version == version:
            return
        group.checked_version = version
        metadata_hash = group.hash_topics(self._outside.topics)
        if bump or metadata_hash != group.metadata_hash:
            self._begin_epoch(turn, group, metadata_hash)
        if group.has_partition_metadata:
            self._write(turn, PartitionMetadataDeleted(group.group_id))

    def _begin_epoch(self, turn: Turn, group: ConsumerGroup, metadata_hash: int) -> None:
        self._write(turn, GroupEpochSaved(group.group_id, group.epoch + 1, metadata_hash))
        log_epoch(turn, group)

    def update_targets(self, turn: Turn, group: ConsumerGroup) -> None:
        """Computes the targets of the group's epoch, unless the last ones are too new."""
        if group.target_epoch >= group.epoch:
            return
        config = self._outside.config(group.group_id)
        interval_ms = max(config.assignment_interval_ms, len(group.members) // MEMBERS_PER_MS)
        last_ms = group.target_computed_at_ms
        if last_ms and last_ms <= turn.now_ms < last_ms + interval_ms:
            return
        assignor = group.preferred_assignor(config.assignors[0])
        if assignor not in SERVER_ASSIGNORS:
            # A log that Kafka wrote may name one of its plugins; requests are checked before.
            assignor = config.assignors[0]
        targets = compute_targets(group, assignor, self._outside.topics)
        for member_id, partitions in targets.items():
            before = group.targets.get(member_id)
            if before is None or (partitions is not before and partitions != before):
                self._write(turn, TargetSaved(group.group_id, member_id, partitions))
        self._write(turn, TargetEpochSaved(group.group_id, group.epoch, turn.now_ms))

    def reconcile(
        self,
        turn: Turn,
        group: ConsumerGroup,
        member: ConsumerMember,
        owned: Partitions | None,
        subscription_changed: bool,
    ) -> Refused | None:
        """Brings a member nearer to its target."""
        if not subscription_changed and member.has_reached(group.target_epoch):
            return None
        reported = Reported(
            owned,
            group.topic_ids_of(member.subscription, self._outside.topics),
            subscription_changed,
        )
        target = Target(group.target_epoch, group.target(member.member_id))
        current = reconcile(member.current, target, reported, group.is_owned)
        if isinstance(current, Refused):
            return current
        if current != member.current:
            self._write(turn, CurrentSaved(group.group_id, member.member_id, current))
            self._limit_revocation(turn, group, member)
        return None

    # Leaving.

    def leave(
        self, turn: Turn, group: ConsumerGroup, request: ConsumerHeartbeatRequest
    ) -> ConsumerHeartbeat | Refused:
        """A member leaves, or a static one is away for a while."""
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                return unknown_member(group, request.member_id)
        else:
            found = check_static(group, request.member_id, request.instance_id)
            if isinstance(found, Refused):
                return found
            member = found
        log_left(turn, group, member.member_id)
        if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            self._suspend(turn, group, member)
            return ConsumerHeartbeat(member.member_id, STATIC_LEAVE_EPOCH)
        self.remove(turn, group, [member])
        return ConsumerHeartbeat(request.member_id, request.member_epoch)

    def _suspend(self, turn: Turn, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Keeps the partitions of a static member for the rest of its session."""
        current = member.current
        away = current._replace(
            epoch=STATIC_LEAVE_EPOCH,
            # Whoever takes its place may commit with any epoch.
            assigned={
                topic_id: dict.fromkeys(found, 0) for topic_id, found in current.assigned.items()
            },
            revoking={},
        )
        self._write(turn, CurrentSaved(group.group_id, member.member_id, away))
        self.deadlines.cancel(("revocation", group.group_id, member.member_id))

    def remove(self, turn: Turn, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> None:
        """Removes members; the others get their partitions when they heartbeat."""
        if not members:
            return
        if self.may_downgrade(group, members):
            self.downgrade(turn, group, members)
            return
        for member in members:
            self._forget_member(turn, group, member)
        self._forget_patterns(turn, group)
        self._begin_epoch(turn, group, group.hash_topics(self._outside.topics))

    def _forget_member(self, turn: Turn, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._write(turn, CurrentDeleted(group.group_id, member.member_id))
        self._write(turn, TargetDeleted(group.group_id, member.member_id))
        self._write(turn, MemberDeleted(group.group_id, member.member_id))
        self.cancel_timers(group, member)

    def delete_group(self, turn: Turn, group: ConsumerGroup) -> None:
        """Deletes a group with all that is stored of it, but for its committed offsets."""
        group_id = group.group_id
        members = list(group.members.values())
        for member in members:
            self._write(turn, CurrentDeleted(group_id, member.member_id))
        for member_id in list(group.targets):
            self._write(turn, TargetDeleted(group_id, member_id))
        self._write(turn, TargetEpochDeleted(group_id))
        for member in members:
            self._write(turn, MemberDeleted(group_id, member.member_id))
            self.cancel_timers(group, member)
        for pattern in list(group.patterns):
            self._write(turn, PatternForgotten(group_id, pattern))
        if group.has_partition_metadata:
            self._write(turn, PartitionMetadataDeleted(group_id))
        self._write(turn, GroupEpochDeleted(group_id))

    # Timers.

    def renew_session(self, turn: Turn, group: ConsumerGroup, member: ConsumerMember) -> None:
        classic = member.subscription.classic
        timeout_ms = (
            self._outside.config(group.group_id).session_timeout_ms
            if classic is None
            else classic.session_timeout_ms
        )
        self.set_timer(turn, ("session", group.group_id, member.member_id), timeout_ms)

    def _limit_revocation(self, turn: Turn, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Limits the time in which a member gives up partitions; one of the classic protocol has to join in time."""
        if member.speaks_classic:
            return
        timer: Timer = ("revocation", group.group_id, member.member_id)
        if member.current.state is MemberState.UNREVOKED_PARTITIONS:
            self.set_timer(turn, timer, member.subscription.rebalance_timeout_ms)
        else:
            self.deadlines.cancel(timer)

    def set_timer(self, turn: Turn, timer: Timer, delay_ms: int) -> None:
        self.deadlines.set(timer, turn.uptime_ms + delay_ms)

    def cancel_timers(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        for kind in _KINDS:
            self.deadlines.cancel((kind, group.group_id, member.member_id))


_DELETIONS = (
    CurrentDeleted,
    TargetDeleted,
    MemberDeleted,
    TargetEpochDeleted,
    PatternForgotten,
    PartitionMetadataDeleted,
)
_KINDS: tuple[Literal["session", "revocation", "join", "sync"], ...] = (
    "session",
    "revocation",
    "join",
    "sync",
)
_REASONS = {
    "session": "was not heard of in its session",
    "revocation": "did not give up its partitions in time",
    "join": "did not join again in time",
    "sync": "did not sync in time",
}


def _find_place(
    group: ConsumerGroup, request: ConsumerHeartbeatRequest
) -> ConsumerMember | Refused | None:
    """The sender; None if it is new; the earlier member if it takes the place of a static one."""
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            return None if joins else unknown_member(group, request.member_id)
        return _check_epoch(member, request) or member
    static = group.static_member(request.instance_id)
    if not joins:
        found = check_static(group, request.member_id, request.instance_id)
        return found if isinstance(found, Refused) else _check_epoch(found, request) or found
    if static is None:
        return group.members.get(request.member_id)
    if static.speaks_classic or static.current.epoch == STATIC_LEAVE_EPOCH:
        return static
    return Refused(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group "
        f"because the instance id is owned by {static.member_id} member.",
    )


def check_static(
    group: ConsumerGroup, member_id: str, instance_id: str
) -> ConsumerMember | Refused:
    """The member with an instance id, unless another client has taken it."""
    member = group.static_member(instance_id)
    if member is None:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        return Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeatRequest) -> Refused | None:
    """Whether a member is in the epoch that it was last told.

    A member that has missed the answer with its new epoch may use the one before, if it owns nothing else than what
    it has. One that joins again begins with epoch 0.
    """
    epoch, known = request.member_epoch, member.current
    if epoch in (JOIN_EPOCH, known.epoch):
        return None
    if epoch == known.previous_epoch and epoch < known.epoch and _is_within(request.owned, known):
        return None
    relation = "greater" if epoch > known.epoch else "smaller"
    return Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({known.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_within(owned: Partitions | None, current: CurrentAssignment) -> bool:
    if owned is None:
        return False
    return all(
        topic_id in current.assigned and partitions <= current.assigned[topic_id].keys()
        for topic_id, partitions in owned.items()
    )


def _subscription(
    member: ConsumerMember | None, request: ConsumerHeartbeatRequest
) -> MemberSubscription:
    """What a member says of itself: as before, but for what the request tells."""
    before = MemberSubscription() if member is None else member.subscription
    if (
        request.topics is None
        and request.pattern is None
        and request.rack_id is None
        and request.assignor is None
        and request.rebalance_timeout_ms == UNCHANGED_TIMEOUT
        and request.instance_id in (None, before.instance_id)
        and request.client_id == before.client_id
        and request.client_host == before.client_host
        and before.classic is None
    ):
        return before
    timeout_ms = request.rebalance_timeout_ms
    return MemberSubscription(
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        before.topics if request.topics is None else request.topics,
        before.pattern if request.pattern is None else request.pattern,
        before.rebalance_timeout_ms if timeout_ms == UNCHANGED_TIMEOUT else timeout_ms,
        before.assignor if request.assignor is None else request.assignor,
    )


def _wants_assignment(request: ConsumerHeartbeatRequest) -> bool:
    """Whether a member joins or tells everything of itself, as it does after an error."""
    return request.member_epoch == JOIN_EPOCH or (
        request.rebalance_timeout_ms != UNCHANGED_TIMEOUT
        and (request.topics is not None or request.pattern is not None)
        and request.owned is not None
    )


def without_epochs(assigned: AssignedPartitions) -> Partitions:
    return {topic_id: frozenset(epochs) for topic_id, epochs in assigned.items()}
