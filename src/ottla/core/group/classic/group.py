"""A group of the classic protocol: its members and its state.

Nothing here is durable. A restart finds the group in a `GroupSaved` event, from which `restored` makes it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from ottla.core.group.events import NO_TIMESTAMP, GroupSaved, SavedMember
from ottla.core.group.requests import JoinedMember, JoinRequest, SyncRequest
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket
from ottla.errors import ErrorCode
from ottla.wire.stored.consumer_protocol import subscribed_topics
from ottla.wire.types import MalformedMessageError

CONSUMER = "consumer"
CLASSIC = "classic"


class ClassicState(Enum):
    """The values are the words that DescribeGroups uses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"  # what a group that does not exist is described as


MAY_BECOME = {
    ClassicState.EMPTY: (ClassicState.PREPARING_REBALANCE,),
    ClassicState.PREPARING_REBALANCE: (ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY),
    ClassicState.COMPLETING_REBALANCE: (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE),
    ClassicState.STABLE: (ClassicState.PREPARING_REBALANCE,),
}


class Member:
    """A member of the group; the tickets are its requests that wait for an answer."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Mapping[str, bytes],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None
        self.is_new = False

    def matches(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether these are its protocols, in the same order of preference."""
        return list(self.protocols.items()) == list(protocols.items())

    def metadata(self, protocol: str | None) -> bytes:
        return b"" if protocol is None else self.protocols.get(protocol, b"")


class ClassicGroup:
    """Invariants: a leader is a member; `joined_count` members have a join ticket; only members await a sync."""

    group_type = CLASSIC

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        # Ids of clients that have not joined with them yet, and members that have not synced; dicts for their order.
        self.pending_joins: dict[str, None] = {}
        self.pending_syncs: dict[str, None] = {}
        self.joined_count = 0
        # During the initial delay: how long it may still be extended, and whether it should.
        self.remaining_delay_ms = 0
        self.has_new_members = False
        self._support: dict[str, int] = {}
        self._topics: frozenset[str] | None = None

    # States.

    def become(self, state: ClassicState, now_ms: int) -> None:
        assert state in MAY_BECOME[self.state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_initial(self) -> bool:
        """Whether it waits for its first members."""
        return (
            self.state is ClassicState.PREPARING_REBALANCE
            and self.previous_state is ClassicState.EMPTY
        )

    @property
    def all_joined(self) -> bool:
        return self.joined_count == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Members.

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Removes a member; if it was the leader, the member that joined next becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            self.take_join_ticket(member)
            if member.instance_id is not None:
                del self.static_ids[member.instance_id]
            if self.leader == member_id:
                self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        return member

    def update(self, member: Member, request: JoinRequest) -> None:
        """Updates a member that joins again."""
        self._count(member.protocols, -1)
        member.protocols = request.protocols
        self._count(member.protocols, 1)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms

    def replace_static(self, member: Member, new_member_id: str) -> Member:
        """Gives a restarted static member its new id; it keeps its assignment and stays the leader if it was."""
        del self.members[member.member_id]
        replacement = Member(
            new_member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.protocols,
            member.assignment,
        )
        self.members[new_member_id] = replacement
        assert member.instance_id is not None
        self.static_ids[member.instance_id] = new_member_id
        if self.leader == member.member_id:
            self.leader = new_member_id
        if member.member_id in self.pending_syncs:
            del self.pending_syncs[member.member_id]
            self.pending_syncs[new_member_id] = None
        return replacement

    def await_join(self, member: Member, ticket: Ticket) -> None:
        assert member.join_ticket is None
        member.join_ticket = ticket
        self.joined_count += 1

    def take_join_ticket(self, member: Member) -> Ticket | None:
        ticket, member.join_ticket = member.join_ticket, None
        if ticket is not None:
            self.joined_count -= 1
        return ticket

    def awaits_assignment(self, member_id: str) -> bool:
        """Whether a SyncGroup of the member waits for the leader's."""
        member = self.members.get(member_id)
        return member is not None and member.sync_ticket is not None

    def check_member(self, member_id: str, instance_id: str | None) -> Refused | None:
        """Whether a request comes from a member, and its instance id has not been taken by another client."""
        if instance_id is not None:
            known = self.static_ids.get(instance_id)
            if known is None:
                return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                return Refused(ErrorCode.FENCED_INSTANCE_ID)
        return None if member_id in self.members else Refused(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_sync(self, request: SyncRequest) -> Refused | None:
        """Whether a member may ask for its assignment, or, as the leader, bring all assignments."""
        if self.is_empty:
            return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        refused = self.check_member(request.member_id, request.instance_id)
        if refused is not None:
            return refused
        if request.generation != self.generation:
            return Refused(ErrorCode.ILLEGAL_GENERATION)
        # Only newer clients send the protocol (KIP-559).
        if request.protocol_type not in (None, self.protocol_type):
            return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # Without a leader the group comes from the new protocol, in which each member was told its own first protocol.
        if self.leader is not None and request.protocol not in (None, self.protocol):
            return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is ClassicState.PREPARING_REBALANCE:
            return Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def elect_joined_leader(self) -> bool:
        """Makes a member that has joined the leader; False if none has."""
        if self.leader is not None and self.members[self.leader].join_ticket is not None:
            return True
        for member in self.members.values():
            if member.join_ticket is not None:
                self.leader = member.member_id
                return True
        return False

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )

    # Protocols.

    def _count(self, protocols: Mapping[str, bytes], change: int) -> None:
        for name in protocols:
            supporters = self._support.get(name, 0) + change
            if supporters:
                self._support[name] = supporters
            else:
                del self._support[name]

    def supports(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Whether these protocols have one in common with all members."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._support.get(name, 0) == len(self.members) for name in protocols
        )

    def vote(self) -> str:
        """The protocol of the next generation: of those that all members support, the one that most prefer."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            preferred = next(
                name for name in member.protocols if self._support[name] == len(self.members)
            )
            votes[preferred] = votes.get(preferred, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def start_stable(self) -> None:
        """Begins with members that have their assignment: of a stored group, or of one with another protocol."""
        assert self.members, f"{self.group_id} has no members"
        self.state = self.previous_state = ClassicState.STABLE

    def begin_generation(self, now_ms: int) -> None:
        """Begins the next generation with the members that have joined."""
        self.generation += 1
        self.pending_syncs.clear()
        if self.members:
            self.protocol = self.vote()
            self.become(ClassicState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol = None
            self.become(ClassicState.EMPTY, now_ms)
        self.read_topics()

    # Subscriptions.

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER

    @property
    def knows_its_topics(self) -> bool:
        return self._topics is not None

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, as far as is known."""
        return self.uses_consumer_protocol if self._topics is None else topic in self._topics

    def read_topics(self) -> None:
        """Reads the topics out of the members' subscriptions, which are those of a generation."""
        self._topics = self._subscribed_topics()

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        topics: list[str] = []
        # Most members have the same subscription.
        for metadata in dict.fromkeys(
            member.metadata(self.protocol) for member in self.members.values()
        ):
            try:
                topics += subscribed_topics(metadata)
            except MalformedMessageError:
                return None
        return frozenset(topics)

    # Saving.

    def saved(self) -> GroupSaved:
        """The group as a restart has to find it."""
        return GroupSaved(
            self.group_id,
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader,
            self.state_timestamp_ms,
            tuple(self._saved_members()),
        )

    def _saved_members(self) -> Iterator[SavedMember]:
        for member in self.members.values():
            yield SavedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(self.protocol),
                member.assignment,
            )


def restored(saved: GroupSaved) -> ClassicGroup:
    """The group as it was saved: with members it is stable, without any it is empty."""
    group = ClassicGroup(saved.group_id, saved.state_timestamp_ms)
    group.generation = saved.generation
    for saved_member in saved.members:
        member = Member(
            saved_member.member_id,
            saved_member.instance_id,
            saved_member.client_id,
            saved_member.client_host,
            # The oldest format had no rebalance timeout.
            saved_member.session_timeout_ms
            if saved_member.rebalance_timeout_ms < 0
            else saved_member.rebalance_timeout_ms,
            saved_member.session_timeout_ms,
            {saved.protocol or "": saved_member.subscription},
            saved_member.assignment,
        )
        group.add(member, saved.protocol_type)
    group.protocol_type = saved.protocol_type or None
    group.protocol = saved.protocol
    if saved.leader is None or saved.leader in group.members:
        group.leader = saved.leader
    if group.members:
        group.start_stable()
    group.read_topics()
    return group


def empty_since_ms(group: ClassicGroup, committed_at_ms: int) -> int:
    """The time from which the offsets of an empty group age; the oldest formats have no time of the group."""
    return committed_at_ms if group.state_timestamp_ms == NO_TIMESTAMP else group.state_timestamp_ms
