"""The groups of one `__consumer_offsets` partition as a state machine.

Only `apply` changes the durable state, which is the saved groups and the offsets: at a decision, and again at every
replay. Of classic groups a part is saved, and the live groups (`membership`) are made from it after a replay; groups of
the new protocol (`consumers`, KIP-848) are durable as a whole. A group id belongs to one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID

from ottla.core.group.classic.group import (
    CONSUMER,
    ClassicGroup,
    ClassicState,
    empty_since_ms,
    restored,
)
from ottla.core.group.classic.membership import Membership
from ottla.core.group.consumer.classic_members import ClassicMembers
from ottla.core.group.consumer.commit_rules import (
    check_commit,
    check_fetch,
    check_transactional_commit,
)
from ottla.core.group.consumer.group import (
    ConsumerGroup,
    ConsumerMember,
    ConsumerState,
    TopicsView,
    described_member,
)
from ottla.core.group.consumer.log_messages import log_downgraded, log_upgraded
from ottla.core.group.consumer.membership import ConsumerGroups, ConsumerMembership
from ottla.core.group.consumer.migration import check_upgrade, downgraded, may_downgrade, upgraded
from ottla.core.group.events import (
    LAST_TIMESTAMP,
    NO_TIMESTAMP,
    Event,
    GroupDeleted,
    GroupSaved,
    OffsetCommitted,
    OffsetDeleted,
    OffsetsCommitted,
)
from ottla.core.group.offset_table import CommittedOffset, OffsetTable
from ottla.core.group.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NO_MEMBER_ID,
    STATIC_LEAVE_EPOCH,
    CommitSender,
    ConsumerGroupConfig,
    ConsumerHeartbeat,
    ConsumerHeartbeatRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    FetchedOffset,
    GroupConfig,
    HeartbeatRequest,
    JoinRequest,
    Leaver,
    LeaveResults,
    ListedGroup,
    NewOffsets,
    ResolvedPatterns,
    SyncRequest,
)
from ottla.core.outcomes import Refused
from ottla.core.turn import AppliedEvent, ProducerIdentity, Ticket, Turn
from ottla.errors import ErrorCode

DEFAULT_CONSUMER = ConsumerGroupConfig()
# A message that quotes the longest name would not fit into a string.
QUOTED_CHARS = 255


class GroupMachine:
    """Every decision is a method that gets the turn in which it is made."""

    def __init__(
        self,
        config: GroupConfig,
        topics: TopicsView,
        consumer_config: Callable[[str], ConsumerGroupConfig] = lambda group_id: DEFAULT_CONSUMER,
        check_pattern: Callable[[str], str | None] = lambda pattern: None,
    ) -> None:
        """`consumer_config` has the options of each group; `check_pattern` returns the problem of a pattern."""
        self.config = config
        self._consumer_config = consumer_config
        self._topics = topics
        self.offsets = OffsetTable()
        self.membership = Membership(config, self._save)
        self.consumers = ConsumerMembership(
            ConsumerGroups(
                write=self._write,
                config=consumer_config,
                topics=topics,
                check_pattern=check_pattern,
                may_downgrade=self._may_downgrade,
                downgrade=self._downgrade,
            )
        )
        self._classic_members = ClassicMembers(self.consumers, topics)
        self._saved: dict[str, GroupSaved] = {}
        self._expiry_due_ms: int | None = None

    def _has_topic(self, topic_id: UUID) -> bool:
        return topic_id in self._topics.topics_by_id

    # The durable state.

    def apply(self, event: Event, producer_id: int | None = None) -> None:
        """Changes the durable state by an event of the log; with a producer it is part of a transaction."""
        # Nearly all events are plain commits: many at once when they are decided, one by one in a replay.
        if producer_id is None:
            if isinstance(event, OffsetsCommitted):
                self.offsets.commit_columns(event)
                return
            if isinstance(event, OffsetCommitted):
                self.offsets.commit(event)
                return
        match event:
            case GroupSaved(group_id=group_id):
                self._saved[group_id] = event
            case GroupDeleted(group_id=group_id):
                self._saved.pop(group_id, None)
            case OffsetCommitted() | OffsetsCommitted():
                assert producer_id is not None
                self.offsets.commit_pending(event, producer_id)
            case OffsetDeleted(group_id, topic, partition):
                self.offsets.delete(group_id, topic, partition)
            case _:
                self.consumers.apply(event)

    def apply_commit_marker(self, producer_id: int) -> None:
        self.offsets.commit_transaction(producer_id)

    def apply_abort_marker(self, producer_id: int) -> None:
        self.offsets.abort_transaction(producer_id)

    def durable_state(self) -> object:
        """The state that a replay of the log has to restore."""
        return self._saved, self.offsets.state(), self.consumers.state()

    def _write(self, turn: Turn, event: Event, producer: ProducerIdentity | None = None) -> None:
        self.apply(event, None if producer is None else producer.producer_id)
        turn.written.append(AppliedEvent(event, producer))

    def _save(self, turn: Turn, group: ClassicGroup) -> None:
        self._write(turn, group.saved())

    # Time.

    def start(self, turn: Turn) -> None:
        """Goes on where the log ends."""
        for saved in self._saved.values():
            self.membership.resume(turn, restored(saved))
        self.consumers.resume(turn)
        self._expiry_due_ms = turn.uptime_ms + self.config.retention_check_interval_ms

    def next_wake_ms(self) -> int | None:
        """The uptime at which `wake` is due."""
        due_ms = self._expiry_due_ms
        for deadlines in (self.membership.deadlines, self.consumers.deadlines):
            next_ms = deadlines.next_ms()
            if next_ms is not None and (due_ms is None or next_ms < due_ms):
                due_ms = next_ms
        return due_ms

    def wake(self, turn: Turn) -> None:
        self.membership.wake(turn)
        self.consumers.wake(turn)
        if self._expiry_due_ms is not None and self._expiry_due_ms <= turn.uptime_ms:
            self.expire(turn)
            self._expiry_due_ms = turn.uptime_ms + self.config.retention_check_interval_ms

    # Members of the classic protocol.

    def join(self, turn: Turn, request: JoinRequest, ticket: Ticket) -> None:
        start = len(turn.written)
        self._join(turn, request, ticket)
        turn.keep_together(start)

    def _join(self, turn: Turn, request: JoinRequest, ticket: Ticket) -> None:
        group = self.consumers.groups.get(request.group_id)
        if group is not None and group.is_empty:
            self.consumers.delete_group(turn, group)  # its offsets stay
            group = None
        if group is None:
            self.membership.join(turn, request, ticket)
            return
        policy = self._consumer_config(request.group_id).migration_policy
        refused = self.membership.check_session_timeout(
            request
        ) or self._classic_members.check_join(group, request, policy)
        turn.answer(ticket, refused or self._classic_members.join(turn, group, request))

    def sync(self, turn: Turn, request: SyncRequest, ticket: Ticket) -> None:
        group = self.consumers.groups.get(request.group_id)
        if group is None:
            self.membership.sync(turn, request, ticket)
        else:
            turn.answer(ticket, self._classic_members.sync(turn, group, request))

    def heartbeat(self, turn: Turn, request: HeartbeatRequest) -> Refused | None:
        group = self.consumers.groups.get(request.group_id)
        if group is None:
            return self.membership.heartbeat(turn, request)
        return self._classic_members.heartbeat(turn, group, request)

    def leave(self, turn: Turn, group_id: str, leavers: tuple[Leaver, ...]) -> LeaveResults:
        group = self.consumers.groups.get(group_id)
        if group is None:
            return self.membership.leave(turn, group_id, leavers)
        start = len(turn.written)
        results = self._classic_members.leave(turn, group, leavers)
        turn.keep_together(start)
        return results

    # Members of the new protocol (KIP-848).

    def consumer_heartbeat(
        self, turn: Turn, request: ConsumerHeartbeatRequest
    ) -> ConsumerHeartbeat | Refused:
        """A member joins, stays or leaves; the first one makes a classic group one of the new protocol."""
        start = len(turn.written)
        answer = self._consumer_heartbeat(turn, request)
        # A group whose protocol was changed by half would lose its members, one that is assigned by half partitions.
        turn.keep_together(start)
        return answer

    def _consumer_heartbeat(
        self, turn: Turn, request: ConsumerHeartbeatRequest
    ) -> ConsumerHeartbeat | Refused:
        group = self.consumers.groups.get(request.group_id)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            if group is None:
                return self._no_consumer_group(request.group_id)
            return self.consumers.leave(turn, group, request)
        if group is None:
            if request.member_epoch != JOIN_EPOCH:
                return self._no_consumer_group(request.group_id, "Consumer group")
            made = self._make_consumer_group(turn, request)
            if isinstance(made, Refused):
                return made
            group = made
        return self.consumers.heartbeat(turn, group, request)

    def _no_consumer_group(self, group_id: str, kind: str = "Group") -> Refused:
        name = group_id[:QUOTED_CHARS]
        text = f"{kind} {name} not found."
        if self._exists(group_id):
            text = f"Group {name} is not a consumer group."
        return Refused(ErrorCode.GROUP_ID_NOT_FOUND, text)

    def _make_consumer_group(
        self, turn: Turn, request: ConsumerHeartbeatRequest
    ) -> ConsumerGroup | Refused:
        """The group of a member that joins: a new one, or a classic one that is upgraded."""
        group_id = request.group_id
        classic = self.membership.groups.get(group_id)
        members = {} if classic is None else classic.members
        refused = self.consumers.check_room(
            group_id, members, request.member_id
        ) or self.consumers.check_pattern(None, request.pattern)
        if refused is not None:
            return refused
        if classic is None or classic.is_empty:
            self._forget(turn, group_id)
            return self.consumers.groups.setdefault(group_id, ConsumerGroup(group_id))
        return self._upgrade(turn, classic)

    def _upgrade(self, turn: Turn, classic: ClassicGroup) -> ConsumerGroup | Refused:
        refused = check_upgrade(classic, self._consumer_config(classic.group_id))
        if refused is not None:
            return refused
        events = upgraded(classic, self._topics)
        if isinstance(events, Refused):
            return events
        self.membership.give_up(turn, classic)
        if classic.group_id in self._saved:
            self._write(turn, GroupDeleted(classic.group_id))
        for event in events:
            self._write(turn, event)
        group = self.consumers.groups[classic.group_id]
        for member in group.members.values():
            self.consumers.renew_session(turn, group, member)
        log_upgraded(turn, group)
        return group

    def _may_downgrade(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> bool:
        config = self._consumer_config(group.group_id)
        return may_downgrade(group, leaving, config, self.config.max_size)

    def _downgrade(
        self, turn: Turn, group: ConsumerGroup, leaving: Sequence[ConsumerMember]
    ) -> None:
        classic = downgraded(group, leaving, self._topics, turn.now_ms)
        # Without a member that leaves, all members may have reached the targets. If not, a member would wait for ever
        # for the rest of its target, or get partitions that another one has not given up.
        is_settled = group.state is ConsumerState.STABLE and not leaving
        # A SyncGroup that is on its way names the first protocol of its sender.
        agrees = all(
            next(iter(each.protocols)) == classic.protocol for each in classic.members.values()
        )
        self.consumers.delete_group(turn, group)
        self.membership.adopt(turn, classic, rebalance=not (is_settled and agrees))
        log_downgraded(turn, classic)

    def patterns_resolved(self, turn: Turn, group_id: str, found: ResolvedPatterns | None) -> None:
        """The topics that match a group's patterns are known; None if they could not be found."""
        start = len(turn.written)
        self.consumers.patterns_resolved(turn, group_id, found)
        turn.keep_together(start)

    # Offsets.

    def commit(
        self, turn: Turn, sender: CommitSender, offsets: Sequence[NewOffsets]
    ) -> Refused | list[Refused | None]:
        """Commits offsets; the outcome of the whole request, or of each offset."""
        consumers = self.consumers.groups.get(sender.group_id)
        if consumers is not None:
            refused = check_commit(consumers, sender, offsets)
            return refused or self._commit_all(turn, sender.group_id, offsets, None)
        refused = self._check_commit(sender) or self._check_generation_is_complete(sender)
        if refused is not None:
            return refused
        group = self.membership.groups.get(sender.group_id)
        if group is not None:
            self.membership.renew_session_by_commit(turn, group, sender.member_id)
        return self._commit_all(turn, sender.group_id, offsets, None)

    def commit_in_transaction(
        self,
        turn: Turn,
        sender: CommitSender,
        producer: ProducerIdentity,
        offsets: Sequence[NewOffsets],
    ) -> Refused | list[Refused | None]:
        """Commits offsets that count when the producer's transaction is committed."""
        consumers = self.consumers.groups.get(sender.group_id)
        if consumers is not None:
            refused = check_transactional_commit(consumers, sender, offsets)
            return refused or self._commit_all(turn, sender.group_id, offsets, producer)
        refused = self._check_transactional_commit(sender)
        if refused is not None:
            return refused
        return self._commit_all(turn, sender.group_id, offsets, producer)

    def _check_commit(self, sender: CommitSender) -> Refused | None:
        if sender.generation < 0 and self._never_had_members(sender.group_id):
            # A consumer that assigns its partitions itself, or an administrator.
            return None
        group = self._find(sender.group_id)
        if group is None:
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        if sender.generation < 0 and group.is_empty:
            return None
        if sender.generation < 0 and sender.member_id == NO_MEMBER_ID and not sender.instance_id:
            return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._check_member(group, sender)

    def _check_transactional_commit(self, sender: CommitSender) -> Refused | None:
        """Clients before KIP-447 do not name their member: for them only the transaction counts."""
        if sender.generation < 0 and self._never_had_members(sender.group_id):
            return None
        group = self._find(sender.group_id)
        if group is None:
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        if sender.generation < 0 and (
            group.is_empty or (sender.member_id == NO_MEMBER_ID and not sender.instance_id)
        ):
            return None
        return self._check_member(group, sender)

    def _check_member(self, group: ClassicGroup, sender: CommitSender) -> Refused | None:
        refused = group.check_member(sender.member_id, sender.instance_id)
        if refused is not None:
            return refused
        is_current = sender.generation == group.generation
        return None if is_current else Refused(ErrorCode.ILLEGAL_GENERATION)

    def _check_generation_is_complete(self, sender: CommitSender) -> Refused | None:
        """A member that has joined has to sync before it commits.

        A member whose SyncGroup waits may commit. Kafka handles the requests of a connection one after the other, so
        that a commit behind a SyncGroup is decided after it; until then no other member gets a partition (ADR 0032).
        """
        group = self.membership.groups.get(sender.group_id)
        if group is None or group.state is not ClassicState.COMPLETING_REBALANCE:
            return None
        is_syncing = group.awaits_assignment(sender.member_id)
        return None if is_syncing else Refused(ErrorCode.REBALANCE_IN_PROGRESS)

    def _commit_all(
        self,
        turn: Turn,
        group_id: str,
        offsets: Sequence[NewOffsets],
        producer: ProducerIdentity | None,
    ) -> list[Refused | None]:
        outcomes: list[Refused | None] = []
        for new in offsets:
            if new.topic_id is not None and not self._has_topic(new.topic_id):
                # It was deleted while the request waited. A new topic of the same name has other records.
                deleted = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                outcomes += [deleted] * len(new.partitions)
            else:
                outcomes += self._commit_topic(turn, group_id, new, producer)
        return outcomes

    def _commit_topic(
        self, turn: Turn, group_id: str, new: NewOffsets, producer: ProducerIdentity | None
    ) -> list[Refused | None]:
        outcomes: list[Refused | None] = [None] * len(new.partitions)
        if any(new.metadata):
            limit = self.config.metadata_max_bytes
            for place, text in enumerate(new.metadata):
                if _length(text) > limit:
                    outcomes[place] = Refused(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            if any(outcomes):
                new = new.only(place for place, refused in enumerate(outcomes) if refused is None)
                if not new.partitions:
                    return outcomes
        topic_id = new.topic_id
        expires_at_ms = NO_TIMESTAMP
        if new.retention_ms != NO_TIMESTAMP:
            # "For ever" plus the current time would be more than the record's field can hold.
            expires_at_ms = min(turn.now_ms + new.retention_ms, LAST_TIMESTAMP)
            topic_id = None  # this version of the record has no topic id
        event = OffsetsCommitted(
            group_id,
            new.topic,
            new.partitions,
            new.offsets,
            new.leader_epochs,
            new.metadata,
            turn.now_ms,
            expires_at_ms,
            topic_id,
        )
        self._write(turn, event, producer)
        return outcomes

    def fetch(self, group_id: str, topic: str, partition: int) -> FetchedOffset:
        """The committed offset, without regard to open transactions."""
        found = self.offsets.get(group_id, topic, partition)
        if found is None:
            return FetchedOffset()
        return FetchedOffset(found.offset, found.leader_epoch, found.metadata)

    def fetch_stable(self, group_id: str, topic: str, partition: int) -> FetchedOffset | Refused:
        """The committed offset, unless a transaction may still change it (KIP-447)."""
        if self.offsets.is_pending(group_id, topic, partition):
            return Refused(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return self.fetch(group_id, topic, partition)

    def check_fetch(
        self, group_id: str, member_id: str | None, member_epoch: int
    ) -> Refused | None:
        """Whether a member may fetch the offsets of its group; in a classic group everybody may."""
        group = self.consumers.groups.get(group_id)
        return None if group is None else check_fetch(group, member_id, member_epoch)

    def committed(self, group_id: str) -> list[CommittedOffset]:
        """Every committed offset of the group, without regard to open transactions."""
        return self.offsets.of_group(group_id)

    def unstable_partitions(self, group_id: str) -> frozenset[tuple[str, int]]:
        """Partitions for which a transaction may still change the group's offset (KIP-447)."""
        pending = self.offsets.pending_of_group(group_id)
        return frozenset((offset.topic, offset.partition) for offset in pending)

    def delete_offsets(
        self, turn: Turn, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> Refused | list[Refused | None]:
        """Deletes offsets of topics to which no member subscribes."""
        if not self._exists(group_id):
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        classic = self.membership.groups.get(group_id)
        if classic is not None and not classic.is_empty and not classic.uses_consumer_protocol:
            return Refused(ErrorCode.NON_EMPTY_GROUP)
        group = classic or self.consumers.groups.get(group_id)
        outcomes: list[Refused | None] = []
        for topic, partition in partitions:
            if group is not None and group.subscribes_to(topic):
                outcomes.append(Refused(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
                continue
            if self.offsets.has(group_id, topic, partition):
                self._write(turn, OffsetDeleted(group_id, topic, partition))
            outcomes.append(None)
        return outcomes

    def forget_topic(self, turn: Turn, topic: str, deleted_at_ms: int) -> Refused | None:
        """Deletes the offsets of a topic that was deleted: they mean nothing for the next topic of that name.

        A deletion affects everything that is stored for a partition. Where an open transaction has an offset for the
        new topic, it has to end first: until then the request is refused with CONCURRENT_TRANSACTIONS.
        """
        refused = None
        for (group_id, partition), found in self.offsets.of_topic(topic).items():
            if found.current is not None and not self._is_left_over(found.current, deleted_at_ms):
                continue  # a pending one of the old topic is earlier in the log and never replaces it
            left_over = [self._is_left_over(pending, deleted_at_ms) for pending in found.pending]
            if all(left_over):
                self._write(turn, OffsetDeleted(group_id, topic, partition))
            elif found.current is not None or any(left_over):
                refused = Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        return refused

    def _is_left_over(self, offset: CommittedOffset, deleted_at_ms: int) -> bool:
        """Whether an offset belongs to a deleted topic; by its time if the record has no topic id."""
        if offset.topic_id is None:
            return offset.committed_at_ms <= deleted_at_ms
        return not self._has_topic(offset.topic_id)

    # Groups.

    def _exists(self, group_id: str) -> bool:
        return (
            group_id in self.membership.groups
            or group_id in self.consumers.groups
            or self.offsets.has_group(group_id)
        )

    def list_groups(self) -> list[ListedGroup]:
        """Every group, also those that only have offsets."""
        found = dict.fromkeys(self.membership.groups)
        found |= dict.fromkeys(self.consumers.groups)
        found |= dict.fromkeys(self.offsets.group_ids())
        return [self._listed(group_id) for group_id in found]

    def count_states(self) -> Counter[ClassicState]:
        """The number of classic groups in each state; groups that only have offsets are empty."""
        groups, consumers = self.membership.groups, self.consumers.groups
        counts = Counter(group.state for group in groups.values())
        counts[ClassicState.EMPTY] += sum(
            name not in groups and name not in consumers for name in self.offsets.group_ids()
        )
        return counts

    def count_consumer_states(self) -> Counter[ConsumerState]:
        """The number of groups of the new protocol in each state."""
        return Counter(group.state for group in self.consumers.groups.values())

    def _listed(self, group_id: str) -> ListedGroup:
        consumers = self.consumers.groups.get(group_id)
        if consumers is not None:
            return ListedGroup(group_id, CONSUMER, consumers.state.value, consumers.group_type)
        group = self._group(group_id)
        return ListedGroup(group_id, group.protocol_type or "", group.state.value, group.group_type)

    def _group(self, group_id: str) -> ClassicGroup:
        """A classic group; one that only has offsets is an empty group without a type."""
        return self.membership.groups.get(group_id) or ClassicGroup(group_id, NO_TIMESTAMP)

    def _never_had_members(self, group_id: str) -> bool:
        """Whether a group is nothing but its offsets, or does not exist."""
        return group_id not in self.membership.groups and group_id not in self.consumers.groups

    def _find(self, group_id: str) -> ClassicGroup | None:
        is_classic = group_id not in self.consumers.groups and self._exists(group_id)
        return self._group(group_id) if is_classic else None

    def describe(self, group_id: str) -> DescribedGroup | Refused:
        """A classic group."""
        group = self._find(group_id)
        if group is None:
            is_consumer = group_id in self.consumers.groups
            name = group_id[:QUOTED_CHARS]
            text = (
                f"Group {name} is not a classic group."
                if is_consumer
                else f"Group {name} not found."
            )
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, text)
        is_stable = group.state is ClassicState.STABLE
        members = tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol) if is_stable else b"",
                # Valid until the next assignment.
                member.assignment,
            )
            for member in group.members.values()
        )
        protocol = (group.protocol or "") if is_stable else ""
        return DescribedGroup(group.state.value, group.protocol_type or "", protocol, members)

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup | Refused:
        """A group of the new protocol."""
        group = self.consumers.groups.get(group_id)
        if group is None:
            return self._no_consumer_group(group_id)
        default = self._consumer_config(group_id).assignors[0]
        return DescribedConsumerGroup(
            group.state.value,
            group.epoch,
            group.target_epoch,
            group.preferred_assignor(default),
            tuple(described_member(group, member) for member in group.members.values()),
        )

    def delete(self, turn: Turn, group_id: str) -> Refused | None:
        """Deletes a group that has no members, with its offsets."""
        if not self._exists(group_id):
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        group = self.consumers.groups.get(group_id) or self._group(group_id)
        if not group.is_empty:
            return Refused(ErrorCode.NON_EMPTY_GROUP)
        committed = self.offsets.of_group(group_id) + self.offsets.pending_of_group(group_id)
        for _, topic, partition in dict.fromkeys(offset[:3] for offset in committed):
            self._write(turn, OffsetDeleted(group_id, topic, partition))
        self._forget(turn, group_id)
        return None

    def _forget(self, turn: Turn, group_id: str) -> None:
        start = len(turn.written)
        if group_id in self._saved:
            self._write(turn, GroupDeleted(group_id))
        classic = self.membership.groups.get(group_id)
        if classic is not None:
            self.membership.forget(classic)
        consumers = self.consumers.groups.get(group_id)
        if consumers is not None:
            self.consumers.delete_group(turn, consumers)
        turn.keep_together(start)

    # Expiry.

    def expire(self, turn: Turn) -> None:
        """Deletes offsets that have expired, and groups that have neither members nor offsets."""
        for group_id in [listed.group_id for listed in self.list_groups()]:
            for offset in self._expired(group_id, turn.now_ms):
                self._write(turn, OffsetDeleted(group_id, offset.topic, offset.partition))
            consumers = self.consumers.groups.get(group_id)
            group = self._group(group_id)
            is_empty = group.is_empty if consumers is None else consumers.is_empty
            in_use = self.offsets.has_group(group_id) or bool(group.pending_joins)
            if is_empty and not in_use:
                self._forget(turn, group_id)

    def _expired(self, group_id: str, now_ms: int) -> list[CommittedOffset]:
        consumers = self.consumers.groups.get(group_id)
        if consumers is not None:
            return [
                offset
                for offset in self.offsets.of_group(group_id)
                if not consumers.subscribes_to(offset.topic)
                and self._is_old(self._group(group_id), offset, now_ms)
                and not self.offsets.is_pending(group_id, offset.topic, offset.partition)
            ]
        group = self._group(group_id)
        if not group.is_empty and not (
            group.state is ClassicState.STABLE
            and group.uses_consumer_protocol
            and group.knows_its_topics
        ):
            return []
        return [
            offset
            for offset in self.offsets.of_group(group_id)
            if not group.subscribes_to(offset.topic)
            and self._is_old(group, offset, now_ms)
            and not self.offsets.is_pending(group_id, offset.topic, offset.partition)
        ]

    def _is_old(self, group: ClassicGroup, offset: CommittedOffset, now_ms: int) -> bool:
        if offset.expires_at_ms != NO_TIMESTAMP:
            return now_ms >= offset.expires_at_ms
        since_ms = offset.committed_at_ms
        if group.is_empty and group.protocol_type is not None:
            since_ms = empty_since_ms(group, offset.committed_at_ms)
        return now_ms - since_ms >= self.config.offsets_retention_ms


def _length(metadata: str) -> int:
    """The length of a text as Kafka counts it, in UTF-16 units."""
    return len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le")) // 2
