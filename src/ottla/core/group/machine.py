"""The groups of one `__consumer_offsets` partition as a state machine.

`apply` is the only thing that changes what is durable, at a decision and again at every replay: the saved groups and
the offsets. The live groups (`membership`) are made from the saved ones when a replay is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID

from ottla.core.group.classic import ClassicGroup, ClassicState, empty_since_ms, restored
from ottla.core.group.events import (
    LAST_TIMESTAMP,
    NO_TIMESTAMP,
    Event,
    GroupDeleted,
    GroupSaved,
    OffsetCommitted,
    OffsetDeleted,
)
from ottla.core.group.membership import Membership
from ottla.core.group.offsets import OffsetTable
from ottla.core.group.requests import (
    NO_MEMBER_ID,
    CommitSender,
    DescribedGroup,
    DescribedMember,
    FetchedOffset,
    GroupConfig,
    HeartbeatRequest,
    JoinRequest,
    Leaver,
    LeaveResults,
    ListedGroup,
    NewOffset,
    SyncRequest,
)
from ottla.core.turn import AppliedEvent, ProducerIdentity, Ticket, Turn
from ottla.errors import ErrorCode


class GroupMachine:
    """Every decision is a method that is given the turn it is made in."""

    def __init__(self, config: GroupConfig, has_topic: Callable[[UUID], bool]) -> None:
        self.config = config
        self._has_topic = has_topic
        self.offsets = OffsetTable()
        self.membership = Membership(config, self._save)
        self._saved: dict[str, GroupSaved] = {}
        self._expiry_due_ms: int | None = None

    # What is durable.

    def apply(self, event: Event, producer_id: int | None = None) -> None:
        """Takes an event of the log into account; with a producer it is part of a transaction."""
        # Nearly all events are plain commits.
        if isinstance(event, OffsetCommitted) and producer_id is None:
            self.offsets.commit(event)
            return
        match event:
            case GroupSaved(group_id=group_id):
                self._saved[group_id] = event
            case GroupDeleted(group_id=group_id):
                self._saved.pop(group_id, None)
            case OffsetCommitted():
                assert producer_id is not None
                self.offsets.commit_pending(event, producer_id)
            case OffsetDeleted(group_id, topic, partition):
                self.offsets.delete(group_id, topic, partition)

    def apply_commit_marker(self, producer_id: int) -> None:
        self.offsets.commit_transaction(producer_id)

    def apply_abort_marker(self, producer_id: int) -> None:
        self.offsets.abort_transaction(producer_id)

    def durable_state(self) -> object:
        """What a replay of the log has to give again."""
        return self._saved, self.offsets.state()

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
        self._expiry_due_ms = turn.uptime_ms + self.config.retention_check_interval_ms

    def next_wake_ms(self) -> int | None:
        """The uptime at which `wake` has something to do."""
        due = [self._expiry_due_ms, self.membership.deadlines.next_ms()]
        return min((due_ms for due_ms in due if due_ms is not None), default=None)

    def wake(self, turn: Turn) -> None:
        self.membership.wake(turn)
        if self._expiry_due_ms is not None and self._expiry_due_ms <= turn.uptime_ms:
            self.expire(turn)
            self._expiry_due_ms = turn.uptime_ms + self.config.retention_check_interval_ms

    # Members.

    def join(self, turn: Turn, request: JoinRequest, ticket: Ticket) -> None:
        self.membership.join(turn, request, ticket)

    def sync(self, turn: Turn, request: SyncRequest, ticket: Ticket) -> None:
        self.membership.sync(turn, request, ticket)

    def heartbeat(self, turn: Turn, request: HeartbeatRequest) -> ErrorCode:
        return self.membership.heartbeat(turn, request)

    def leave(self, turn: Turn, group_id: str, leavers: tuple[Leaver, ...]) -> LeaveResults:
        return self.membership.leave(turn, group_id, leavers)

    # Offsets.

    def commit(
        self, turn: Turn, sender: CommitSender, offsets: Sequence[NewOffset]
    ) -> ErrorCode | list[ErrorCode]:
        """Commits offsets: an error for the whole request, or one for each of them."""
        error = self._refuse_commit(sender) or self._refuse_between_generations(sender)
        if error is not None:
            return error
        group = self.membership.groups.get(sender.group_id)
        if group is not None:
            self.membership.hear(turn, group, sender.member_id)
        return self._commit_all(turn, sender.group_id, offsets, None)

    def commit_in_transaction(
        self,
        turn: Turn,
        sender: CommitSender,
        producer: ProducerIdentity,
        offsets: Sequence[NewOffset],
    ) -> ErrorCode | list[ErrorCode]:
        """Commits offsets that count when the producer's transaction is committed."""
        error = self._refuse_transactional(sender)
        if error is not None:
            return error
        return self._commit_all(turn, sender.group_id, offsets, producer)

    def _refuse_commit(self, sender: CommitSender) -> ErrorCode | None:
        group = self._find(sender.group_id)
        if group is None:
            # A consumer without a group to manage its partitions, or an administrator.
            return None if sender.generation < 0 else ErrorCode.GROUP_ID_NOT_FOUND
        if sender.generation < 0 and group.is_empty:
            return None
        if sender.generation < 0 and sender.member_id == NO_MEMBER_ID and not sender.instance_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self._refuse_member(group, sender)

    def _refuse_transactional(self, sender: CommitSender) -> ErrorCode | None:
        """Clients before KIP-447 do not say who they are: for them only the transaction counts."""
        group = self._find(sender.group_id)
        if group is None:
            return None if sender.generation < 0 else ErrorCode.ILLEGAL_GENERATION
        if sender.generation < 0 and (
            group.is_empty or (sender.member_id == NO_MEMBER_ID and not sender.instance_id)
        ):
            return None
        return self._refuse_member(group, sender)

    def _refuse_member(self, group: ClassicGroup, sender: CommitSender) -> ErrorCode | None:
        error = group.validate(sender.member_id, sender.instance_id)
        if error is not ErrorCode.NONE:
            return error
        return None if sender.generation == group.generation else ErrorCode.ILLEGAL_GENERATION

    def _refuse_between_generations(self, sender: CommitSender) -> ErrorCode | None:
        """A member that has joined has to sync before it commits.

        One whose SyncGroup waits may commit. Kafka handles the requests of a connection one after the other, so that a
        commit behind a SyncGroup is decided after it; until then no other member is given a partition (ADR 0032).
        """
        group = self.membership.groups.get(sender.group_id)
        if group is None or group.state is not ClassicState.COMPLETING_REBALANCE:
            return None
        is_syncing = group.awaits_assignment(sender.member_id)
        return None if is_syncing else ErrorCode.REBALANCE_IN_PROGRESS

    def _commit_all(
        self,
        turn: Turn,
        group_id: str,
        offsets: Sequence[NewOffset],
        producer: ProducerIdentity | None,
    ) -> list[ErrorCode]:
        errors: list[ErrorCode] = []
        known: UUID | None = None  # was looked for; most offsets of a request are of one topic
        for new in offsets:
            topic_id = new.topic_id
            if topic_id is not known and topic_id is not None:
                if not self._has_topic(topic_id):
                    # It was deleted while the request waited, and may have been made again: that one has other records.
                    errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    continue
                known = topic_id
            errors.append(self._commit_one(turn, group_id, new, producer))
        return errors

    def _commit_one(
        self, turn: Turn, group_id: str, new: NewOffset, producer: ProducerIdentity | None
    ) -> ErrorCode:
        if _length(new.metadata) > self.config.metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        topic_id = new.topic_id
        expires_at_ms = NO_TIMESTAMP
        if new.retention_ms != NO_TIMESTAMP:
            # A client may mean for ever, which is more than a record can say when it is added to the time.
            expires_at_ms = min(turn.now_ms + new.retention_ms, LAST_TIMESTAMP)
            topic_id = None  # for which such a record has no place
        event = OffsetCommitted(
            group_id,
            new.topic,
            new.partition,
            new.offset,
            new.leader_epoch,
            new.metadata,
            turn.now_ms,
            expires_at_ms,
            topic_id,
        )
        self._write(turn, event, producer)
        return ErrorCode.NONE

    def fetch(self, group_id: str, topic: str, partition: int) -> FetchedOffset:
        """The committed offset, whatever is pending."""
        found = self.offsets.get(group_id, topic, partition)
        if found is None:
            return FetchedOffset(ErrorCode.NONE)
        return FetchedOffset(ErrorCode.NONE, found.offset, found.leader_epoch, found.metadata)

    def fetch_stable(self, group_id: str, topic: str, partition: int) -> FetchedOffset:
        """The committed offset, unless a transaction may still change it (KIP-447)."""
        if self.offsets.is_pending(group_id, topic, partition):
            return FetchedOffset(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return self.fetch(group_id, topic, partition)

    def committed(self, group_id: str) -> list[OffsetCommitted]:
        """Every offset that the group has committed, whatever is pending."""
        return self.offsets.of_group(group_id)

    def unstable_partitions(self, group_id: str) -> frozenset[tuple[str, int]]:
        """Partitions for which a transaction may still change the group's offset (KIP-447)."""
        pending = self.offsets.pending_of_group(group_id)
        return frozenset((kept.topic, kept.partition) for kept in pending)

    def delete_offsets(
        self, turn: Turn, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> ErrorCode | list[ErrorCode]:
        """Deletes offsets of topics that nobody in the group reads."""
        if not self._exists(group_id):
            return ErrorCode.GROUP_ID_NOT_FOUND
        group = self.membership.groups.get(group_id)
        if group is not None and not group.is_empty and not group.uses_consumer_protocol:
            return ErrorCode.NON_EMPTY_GROUP
        errors = []
        for topic, partition in partitions:
            if group is not None and group.subscribes_to(topic):
                errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            if self.offsets.has(group_id, topic, partition):
                self._write(turn, OffsetDeleted(group_id, topic, partition))
            errors.append(ErrorCode.NONE)
        return errors

    def forget_topic(self, turn: Turn, topic: str, deleted_at_ms: int) -> ErrorCode:
        """A topic of that name is gone: what was committed for it means nothing for the next one.

        A deletion takes everything that is known of a partition. Where an open transaction has an offset for the new
        topic, it has to end first: until then the answer is CONCURRENT_TRANSACTIONS.
        """
        result = ErrorCode.NONE
        for (group_id, partition), found in self.offsets.of_topic(topic).items():
            if found.current is not None and not self._is_left_over(found.current, deleted_at_ms):
                continue  # and what may be pending for the old one is earlier in the log: it never replaces this
            left_over = [self._is_left_over(pending, deleted_at_ms) for pending in found.pending]
            if all(left_over):
                self._write(turn, OffsetDeleted(group_id, topic, partition))
            elif found.current is not None or any(left_over):
                result = ErrorCode.CONCURRENT_TRANSACTIONS
        return result

    def _is_left_over(self, kept: OffsetCommitted, deleted_at_ms: int) -> bool:
        """Whether an offset is of a topic that is no more; where a record does not say of which, its time tells."""
        if kept.topic_id is None:
            return kept.committed_at_ms <= deleted_at_ms
        return not self._has_topic(kept.topic_id)

    # Groups.

    def _exists(self, group_id: str) -> bool:
        return group_id in self.membership.groups or self.offsets.has_group(group_id)

    def list_groups(self) -> list[ListedGroup]:
        """Every group, those that only have offsets as well."""
        found = dict.fromkeys(self.membership.groups)
        found |= dict.fromkeys(self.offsets.group_ids())
        return [self._listed(group_id) for group_id in found]

    def count_states(self) -> Counter[ClassicState]:
        """How many groups are in which state; those that only have offsets are empty."""
        groups = self.membership.groups
        counts = Counter(group.state for group in groups.values())
        counts[ClassicState.EMPTY] += sum(name not in groups for name in self.offsets.group_ids())
        return counts

    def _listed(self, group_id: str) -> ListedGroup:
        group = self._group(group_id)
        return ListedGroup(group_id, group.protocol_type or "", group.state.value, group.group_type)

    def _group(self, group_id: str) -> ClassicGroup:
        """A group as it can be looked at: one that only has offsets is an empty one of no type."""
        return self.membership.groups.get(group_id) or ClassicGroup(group_id, NO_TIMESTAMP)

    def _find(self, group_id: str) -> ClassicGroup | None:
        return self._group(group_id) if self._exists(group_id) else None

    def describe(self, group_id: str) -> DescribedGroup | None:
        group = self._find(group_id)
        if group is None:
            return None
        is_stable = group.state is ClassicState.STABLE
        members = tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol) if is_stable else b"",
                # Until there is another one, this is what it works by.
                member.assignment,
            )
            for member in group.members.values()
        )
        protocol = (group.protocol or "") if is_stable else ""
        return DescribedGroup(group.state.value, group.protocol_type or "", protocol, members)

    def delete(self, turn: Turn, group_id: str) -> ErrorCode:
        """Deletes a group that has no members, with its offsets."""
        if not self._exists(group_id):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not self._group(group_id).is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        committed = self.offsets.of_group(group_id) + self.offsets.pending_of_group(group_id)
        for _, topic, partition in dict.fromkeys(kept[:3] for kept in committed):
            self._write(turn, OffsetDeleted(group_id, topic, partition))
        self._forget(turn, group_id)
        return ErrorCode.NONE

    def _forget(self, turn: Turn, group_id: str) -> None:
        if group_id in self._saved:
            self._write(turn, GroupDeleted(group_id))
        group = self.membership.groups.get(group_id)
        if group is not None:
            self.membership.forget(group)

    # Expiry.

    def expire(self, turn: Turn) -> None:
        """Deletes the offsets that nobody has used for long, and the groups of which nothing is left."""
        for group_id in [listed.group_id for listed in self.list_groups()]:
            for kept in self._expired(group_id, turn.now_ms):
                self._write(turn, OffsetDeleted(group_id, kept.topic, kept.partition))
            group = self._group(group_id)
            in_use = self.offsets.has_group(group_id) or bool(group.pending_joins)
            if group.is_empty and not in_use:
                self._forget(turn, group_id)

    def _expired(self, group_id: str, now_ms: int) -> list[OffsetCommitted]:
        group = self._group(group_id)
        if not group.is_empty and not (
            group.state is ClassicState.STABLE
            and group.uses_consumer_protocol
            and group.knows_its_topics
        ):
            return []
        return [
            kept
            for kept in self.offsets.of_group(group_id)
            if not group.subscribes_to(kept.topic)
            and self._is_old(group, kept, now_ms)
            and not self.offsets.is_pending(group_id, kept.topic, kept.partition)
        ]

    def _is_old(self, group: ClassicGroup, kept: OffsetCommitted, now_ms: int) -> bool:
        if kept.expires_at_ms != NO_TIMESTAMP:
            return now_ms >= kept.expires_at_ms
        since_ms = kept.committed_at_ms
        if group.is_empty and group.protocol_type is not None:
            since_ms = empty_since_ms(group, kept.committed_at_ms)
        return now_ms - since_ms >= self.config.offsets_retention_ms


def _length(metadata: str) -> int:
    """The length of a text as Kafka counts it, in UTF-16 units."""
    return len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le")) // 2
