"""The members of groups: joining, syncing, heartbeats, leaving.

Everything that changes a group's state is in this module; `group.py` has the group itself. A JoinGroup or SyncGroup
that has to wait leaves its ticket with its member; the decision that ends the wait answers it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ottla.core.deadlines import Deadlines
from ottla.core.group.classic.group import ClassicGroup, ClassicState, Member
from ottla.core.group.classic.log_messages import (
    counted,
    in_own_words,
    log_all_expired,
    log_begins,
    log_empty,
    log_forming,
    log_never_joined,
    log_refused,
    log_stable,
    log_timed_out,
)
from ottla.core.group.log_messages import log_expired, log_left, log_replaced
from ottla.core.group.requests import (
    NO_MEMBER_ID,
    GroupConfig,
    HeartbeatRequest,
    Joined,
    JoinRefused,
    JoinRequest,
    Leaver,
    LeaveResults,
    Synced,
    SyncRequest,
)
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket, Turn
from ottla.errors import ErrorCode

# How long the JoinGroup of a new member may wait: it has no id yet and cannot heartbeat, and a client that gives up
# and joins again would leave one such member behind each time.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
# The shortest time until a rebalance that no member has joined is checked again.
MIN_JOIN_RETRY_MS = 1000

# The most ids of a group that wait for their first join.
MAX_PENDING_JOINS = 10_000

# The subject of a deadline: the join or sync phase of a group, or the session of a member.
Timer = tuple[Literal["join", "sync"], str] | tuple[Literal["session"], str, str]


class Membership:
    """The groups of a partition and their timers; `save` writes a group durably."""

    def __init__(self, config: GroupConfig, save: Callable[[Turn, ClassicGroup], None]) -> None:
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.deadlines: Deadlines[Timer] = Deadlines()
        self._save = save

    # Starting and waking.

    def resume(self, turn: Turn, group: ClassicGroup) -> None:
        """Takes over a restored group: the session of every member begins anew. Without a leader it rebalances."""
        self.groups[group.group_id] = group
        for member in group.members.values():
            self._renew_session(turn, group, member)
        has_no_leader = bool(group.members) and group.leader is None
        if has_no_leader or len(group.members) > self.config.max_size:
            what = "has no leader" if has_no_leader else "has more members than it may have"
            self._prepare(turn, group, f"the group {what}")

    def wake(self, turn: Turn) -> None:
        """Handles the deadlines that have passed."""
        while (timer := self.deadlines.pop_due(turn.uptime_ms)) is not None:
            group = self.groups.get(timer[1])
            if group is None:
                continue
            if timer[0] == "join":
                self._join_time_is_up(turn, group)
            elif timer[0] == "sync":
                self._sync_time_is_up(turn, group)
            else:
                self._session_is_over(turn, group, timer[2])

    # Groups that change their protocol.

    def adopt(self, turn: Turn, group: ClassicGroup, *, rebalance: bool) -> None:
        """Takes over a stable group that followed another protocol until now."""
        if rebalance:
            # The saved group has no trace of a member that has left: without this the next coordinator would take it
            # for stable, and nobody would get that member's partitions.
            group.leader = None
        self._save(turn, group)
        self.resume(turn, group)

    def give_up(self, turn: Turn, group: ClassicGroup) -> None:
        """Forgets a group that follows another protocol from now on; members that wait have to join again."""
        for member in group.members.values():
            ticket = group.take_join_ticket(member)
            if ticket is not None:
                refused = JoinRefused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
                turn.answer(ticket, refused)
            if member.sync_ticket is not None:
                turn.answer(member.sync_ticket, Refused(ErrorCode.REBALANCE_IN_PROGRESS))
            self.deadlines.cancel(("session", group.group_id, member.member_id))
        for member_id in group.pending_joins:
            self.deadlines.cancel(("session", group.group_id, member_id))
        self.deadlines.cancel(("join", group.group_id))
        self.deadlines.cancel(("sync", group.group_id))
        del self.groups[group.group_id]

    # Joining.

    def join(self, turn: Turn, request: JoinRequest, ticket: Ticket) -> None:
        refused = self._check_join(request)
        if refused is not None:
            turn.answer(ticket, refused)
            log_refused(turn, request, refused.error)
            if refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED:
                self._expel(turn, self.groups[request.group_id], request.member_id)
            return
        group = self.groups.get(request.group_id)
        if group is None:
            group = self.groups[request.group_id] = ClassicGroup(request.group_id, turn.now_ms)
        if request.member_id != NO_MEMBER_ID:
            self._join_known(turn, group, request, ticket)
        elif request.instance_id is not None and request.instance_id in group.static_ids:
            old = group.members[group.static_ids[request.instance_id]]
            self._join_again_as_static(turn, group, old, request, ticket)
        elif request.instance_id is None and request.knows_handshake:
            self._make_room(group)
            group.pending_joins[request.new_member_id] = None
            self._set_session(turn, group, request.new_member_id, request.session_timeout_ms)
            turn.answer(ticket, JoinRefused(ErrorCode.MEMBER_ID_REQUIRED, request.new_member_id))
        else:
            self._add(turn, group, request.new_member_id, request, ticket)

    def _make_room(self, group: ClassicGroup) -> None:
        """If too many ids wait for their first join, forgets the oldest."""
        if len(group.pending_joins) >= MAX_PENDING_JOINS:
            oldest = next(iter(group.pending_joins))
            del group.pending_joins[oldest]
            self.deadlines.cancel(("session", group.group_id, oldest))

    def check_session_timeout(self, request: JoinRequest) -> JoinRefused | None:
        config = self.config
        low_ms, high_ms = config.min_session_timeout_ms, config.max_session_timeout_ms
        if low_ms <= request.session_timeout_ms <= high_ms:
            return None
        return JoinRefused(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)

    def _check_join(self, request: JoinRequest) -> JoinRefused | None:
        refused = self.check_session_timeout(request)
        if refused is not None:
            return refused
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != NO_MEMBER_ID:
                return JoinRefused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            group = ClassicGroup(request.group_id, 0)
        elif not self._has_room(group, request.member_id):
            return JoinRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID)
        if not group.supports(request.protocol_type, request.protocols):
            return JoinRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        return None

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the group has room; during a rebalance only the members that have joined count."""
        member = group.members.get(member_id)
        if group.is_empty:
            return True
        if group.state is ClassicState.PREPARING_REBALANCE:
            awaits = member is not None and member.join_ticket is not None
            return awaits or group.joined_count < self.config.max_size
        return member is not None or len(group.members) < self.config.max_size

    def _join_known(
        self, turn: Turn, group: ClassicGroup, request: JoinRequest, ticket: Ticket
    ) -> None:
        """A join with a member id: of a client that has just got it, or of a member that joins again."""
        if request.member_id in group.pending_joins and request.instance_id is None:
            self._add(turn, group, request.member_id, request, ticket)
            return
        refused = group.check_member(request.member_id, request.instance_id)
        if refused is not None:
            turn.answer(ticket, JoinRefused(refused.error, request.member_id))
            return
        member = group.members[request.member_id]
        # The leader may join because of changes outside of its subscription, such as new partitions.
        must_rebalance = (
            group.state is ClassicState.PREPARING_REBALANCE
            or not member.matches(request.protocols)
            or (group.state is ClassicState.STABLE and group.leader == member.member_id)
        )
        if not must_rebalance:
            # The member may have missed the answer to its last join.
            turn.answer(ticket, self._joined(group, member))
            return
        is_changed = not member.matches(request.protocols)
        group.update(member, request)
        self._park_join(turn, group, member, ticket)
        what = "with another subscription" if is_changed else "as the leader"
        why = in_own_words(f"{member.member_id} joins again {what}", request.reason)
        self._rebalance(turn, group, why)

    def _park_join(self, turn: Turn, group: ClassicGroup, member: Member, ticket: Ticket) -> None:
        """Lets the join wait; a client that joins again has given up its earlier request."""
        earlier = group.take_join_ticket(member)
        if earlier is not None:
            turn.answer(earlier, JoinRefused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        group.await_join(member, ticket)

    def _add(
        self,
        turn: Turn,
        group: ClassicGroup,
        member_id: str,
        request: JoinRequest,
        ticket: Ticket,
    ) -> None:
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
        )
        member.is_new = True
        if group.is_initial:
            group.has_new_members = True
        group.add(member, request.protocol_type)
        group.await_join(member, ticket)
        self._set_session(turn, group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance(turn, group, in_own_words(f"{member_id} joins", request.reason))

    def _join_again_as_static(
        self,
        turn: Turn,
        group: ClassicGroup,
        old: Member,
        request: JoinRequest,
        ticket: Ticket,
    ) -> None:
        """A static member has restarted (KIP-345): it takes its place again, and its old id is fenced."""
        log_replaced(turn, group, old.member_id, request.new_member_id)
        old_leader = group.leader
        fenced = ErrorCode.FENCED_INSTANCE_ID
        waiting = group.take_join_ticket(old)
        if waiting is not None:
            turn.answer(waiting, JoinRefused(fenced, old.member_id))
        if old.sync_ticket is not None:
            turn.answer(old.sync_ticket, Refused(fenced))
        self.deadlines.cancel(("session", group.group_id, old.member_id))
        member = group.replace_static(old, request.new_member_id)
        member.client_id, member.client_host = request.client_id, request.client_host
        group.update(member, request)
        self._renew_session(turn, group, member)
        if group.state is not ClassicState.STABLE:
            # In CompletingRebalance the leader may be assigning to the old id: the new one would get no partitions.
            group.await_join(member, ticket)
            self._rebalance(turn, group, f"static member {member.member_id} has restarted")
        elif group.vote() != group.protocol:
            group.await_join(member, ticket)
            self._prepare(
                turn, group, f"static member {member.member_id} has restarted with other protocols"
            )
        else:
            self._save(turn, group)
            turn.answer(ticket, self._rejoined(group, member, old_leader, request))

    def _rejoined(
        self, group: ClassicGroup, member: Member, old_leader: str | None, request: JoinRequest
    ) -> Joined:
        """The answer to a restarted member: if it leads, it must not assign again.

        A client that does not know `skip_assignment` gets its old id as the leader.
        """
        joined = self._joined(group, member)
        if not request.knows_skipping:
            return joined._replace(leader=old_leader or "", members=())
        return joined._replace(skip_assignment=group.leader == member.member_id)

    def _joined(self, group: ClassicGroup, member: Member) -> Joined:
        """The current generation, for the answer to a member."""
        leads = group.leader == member.member_id
        return Joined(
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader or "",
            group.joined_members() if leads else (),
        )

    # Rebalancing.

    def _rebalance(self, turn: Turn, group: ClassicGroup, why: str) -> None:
        """A member has joined, left or changed."""
        if group.state is not ClassicState.PREPARING_REBALANCE:
            self._prepare(turn, group, why)
        elif not group.is_initial and group.all_joined:
            self._complete_join(turn, group)

    def _prepare(self, turn: Turn, group: ClassicGroup, why: str) -> None:
        """Begins a rebalance: all members have to join again."""
        log_begins(turn, group, why)
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._drop_assignment(turn, group)
        group.pending_syncs.clear()
        self.deadlines.cancel(("sync", group.group_id))
        was_empty = group.is_empty
        group.become(ClassicState.PREPARING_REBALANCE, turn.now_ms)
        if was_empty:
            delay_ms = self.config.initial_rebalance_delay_ms
            group.remaining_delay_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.has_new_members = False
            # Even without a delay: members that join at the same time are in the first generation together.
            self._set(turn, ("join", group.group_id), delay_ms)
        elif group.all_joined:
            self._complete_join(turn, group)
        else:
            self._set(turn, ("join", group.group_id), group.rebalance_timeout_ms)

    def _drop_assignment(self, turn: Turn, group: ClassicGroup) -> None:
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(turn, group, member, Refused(ErrorCode.REBALANCE_IN_PROGRESS))

    def _join_time_is_up(self, turn: Turn, group: ClassicGroup) -> None:
        if group.state is not ClassicState.PREPARING_REBALANCE:
            return
        if group.is_initial and group.has_new_members and group.remaining_delay_ms > 0:
            group.has_new_members = False
            delay_ms = min(self.config.initial_rebalance_delay_ms, group.remaining_delay_ms)
            group.remaining_delay_ms = max(group.remaining_delay_ms - delay_ms, 0)
            self._set(turn, ("join", group.group_id), delay_ms)
        else:
            # With only static members, of which none has joined, the rebalance does not end here.
            if not group.is_initial and (group.joined_count or not group.static_ids):
                log_timed_out(turn, group)
            self._complete_join(turn, group)

    def _complete_join(self, turn: Turn, group: ClassicGroup) -> None:
        """Begins the next generation with the members that have joined; static members stay in any case."""
        self.deadlines.cancel(("join", group.group_id))
        late = [
            member.member_id
            for member in group.members.values()
            if member.join_ticket is None and member.instance_id is None
        ]
        log_all_expired(turn, group, late, "did not join in time")
        for member_id in late:
            self._remove(turn, group, member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members, and none has joined: the end of their sessions will end the rebalance.
            retry_ms = max(group.rebalance_timeout_ms, MIN_JOIN_RETRY_MS)
            self._set(turn, ("join", group.group_id), retry_ms)
            return
        group.begin_generation(turn.now_ms)
        if group.is_empty:
            log_empty(turn, group)
            self._save(turn, group)
            return
        log_forming(turn, group)
        for member in group.members.values():
            group.pending_syncs[member.member_id] = None
            member.is_new = False
            self._renew_session(turn, group, member)
            ticket = group.take_join_ticket(member)
            if ticket is not None:
                turn.answer(ticket, self._joined(group, member))
        self._set(turn, ("sync", group.group_id), group.rebalance_timeout_ms)

    # Syncing.

    def sync(self, turn: Turn, request: SyncRequest, ticket: Ticket) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            turn.answer(ticket, Refused(ErrorCode.UNKNOWN_MEMBER_ID))
            return
        refused = group.check_sync(request)
        if refused is not None:
            turn.answer(ticket, refused)
            return
        member = group.members[request.member_id]
        group.pending_syncs.pop(member.member_id, None)
        if not group.pending_syncs:
            self.deadlines.cancel(("sync", group.group_id))
        if group.state is ClassicState.STABLE:
            turn.answer(ticket, self._assigned(group, member))
            # Kafka does not; a member whose JoinGroup waited for a slow disk could lose what it is given here.
            self._renew_session(turn, group, member)
            return
        if member.sync_ticket is not None:
            turn.answer(member.sync_ticket, Refused(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_ticket = ticket
        if group.leader == member.member_id:
            self._assign(turn, group, request)

    def _assign(self, turn: Turn, group: ClassicGroup, request: SyncRequest) -> None:
        """Saves the leader's assignment, then answers the members that wait for it."""
        for member in group.members.values():
            member.assignment = request.assignments.get(member.member_id, b"")
        group.become(ClassicState.STABLE, turn.now_ms)
        self._save(turn, group)
        log_stable(turn, group)
        for member in group.members.values():
            self._answer_sync(turn, group, member, self._assigned(group, member))

    def _answer_sync(
        self, turn: Turn, group: ClassicGroup, member: Member, result: Synced | Refused
    ) -> None:
        ticket, member.sync_ticket = member.sync_ticket, None
        if ticket is not None:
            turn.answer(ticket, result)
            self._renew_session(turn, group, member)

    def _assigned(self, group: ClassicGroup, member: Member) -> Synced:
        return Synced(group.protocol_type, group.protocol, member.assignment)

    def _sync_time_is_up(self, turn: Turn, group: ClassicGroup) -> None:
        if group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return
        late = list(group.pending_syncs)
        log_all_expired(turn, group, late, "did not sync in time")
        for member_id in late:
            self._remove(turn, group, member_id)
        if late:
            self._prepare(turn, group, f"{counted(late)} did not sync in time")

    # Staying.

    def heartbeat(self, turn: Turn, request: HeartbeatRequest) -> Refused | None:
        group = self.groups.get(request.group_id)
        if group is None:
            return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        refused = group.check_member(request.member_id, request.instance_id)
        if refused is not None:
            return refused
        if request.generation != group.generation:
            return Refused(ErrorCode.ILLEGAL_GENERATION)
        self._renew_session(turn, group, group.members[request.member_id])
        if group.state is ClassicState.PREPARING_REBALANCE:
            return Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def renew_session_by_commit(self, turn: Turn, group: ClassicGroup, member_id: str) -> None:
        """Renews the session of a member that commits: a commit counts as a heartbeat."""
        member = group.members.get(member_id)
        if member is not None and group.state in (
            ClassicState.STABLE,
            ClassicState.PREPARING_REBALANCE,
        ):
            self._renew_session(turn, group, member)

    def _session_is_over(self, turn: Turn, group: ClassicGroup, member_id: str) -> None:
        if member_id in group.pending_joins:
            del group.pending_joins[member_id]
            # Logged only for the last id that a rebalance has waited for, however many there were.
            is_joining = group.state is ClassicState.PREPARING_REBALANCE and not group.is_initial
            if is_joining and group.all_joined:
                log_never_joined(turn, group, member_id)
            self._go_on_joining(turn, group)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        # A member that waits for an answer does not heartbeat; only a new member may not wait for ever.
        awaits = member.join_ticket is not None or member.sync_ticket is not None
        if awaits and not member.is_new:
            return
        log_expired(turn, group, member_id, "was not heard of in its session")
        self._remove(turn, group, member_id)
        self._after_leaving(turn, group, f"{member_id} was not heard of in its session")

    # Leaving.

    def leave(self, turn: Turn, group_id: str, leavers: tuple[Leaver, ...]) -> LeaveResults:
        group = self.groups.get(group_id)
        if group is None:
            unknown = Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            return tuple((leaver, unknown) for leaver in leavers)
        answers = tuple((leaver, self._leave(turn, group, leaver)) for leaver in leavers)
        gone = [leaver for leaver, refused in answers if refused is None]
        if gone:
            ids = [leaver.member_id or leaver.instance_id or "" for leaver in gone]
            self._after_leaving(turn, group, in_own_words(f"{counted(ids)} left", gone[0].reason))
        return answers

    def _leave(self, turn: Turn, group: ClassicGroup, leaver: Leaver) -> Refused | None:
        member_id = leaver.member_id
        if member_id == NO_MEMBER_ID:
            # An administrator removes a static member by its instance id.
            member_id = group.static_ids.get(leaver.instance_id or "", NO_MEMBER_ID)
        elif member_id not in group.pending_joins:
            refused = group.check_member(member_id, leaver.instance_id)
            if refused is not None:
                return refused
        if member_id == NO_MEMBER_ID:
            return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        log_left(turn, group, member_id)
        self._remove(turn, group, member_id)
        return None

    def _remove(self, turn: Turn, group: ClassicGroup, member_id: str) -> None:
        """Removes a member; its waiting requests are refused, so that it joins as a new member."""
        self.deadlines.cancel(("session", group.group_id, member_id))
        member = group.members.get(member_id)
        join_ticket = None if member is None else group.take_join_ticket(member)
        group.remove(member_id)
        if join_ticket is not None:
            turn.answer(join_ticket, JoinRefused(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER_ID))
        if member is not None and member.sync_ticket is not None:
            turn.answer(member.sync_ticket, Refused(ErrorCode.UNKNOWN_MEMBER_ID))

    def _expel(self, turn: Turn, group: ClassicGroup, member_id: str) -> None:
        """Removes a member for which the group has no more room, so that the other members do not wait for it."""
        if member_id in group.members or member_id in group.pending_joins:
            self._remove(turn, group, member_id)
            self._go_on_joining(turn, group)

    def _after_leaving(self, turn: Turn, group: ClassicGroup, why: str) -> None:
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self._prepare(turn, group, why)
        else:
            self._go_on_joining(turn, group)

    def _go_on_joining(self, turn: Turn, group: ClassicGroup) -> None:
        """Continues a rebalance that may have waited for a client that will not join."""
        if group.state is ClassicState.PREPARING_REBALANCE and (
            not group.is_initial and group.all_joined
        ):
            self._complete_join(turn, group)

    def forget(self, group: ClassicGroup) -> None:
        """Forgets a group without members, and the deadlines of ids that never joined."""
        assert not group.members, f"{group.group_id} has members"
        for member_id in group.pending_joins:
            self.deadlines.cancel(("session", group.group_id, member_id))
        del self.groups[group.group_id]

    # Timers.

    def _set(self, turn: Turn, timer: Timer, delay_ms: int) -> None:
        self.deadlines.set(timer, turn.uptime_ms + delay_ms)

    def _renew_session(self, turn: Turn, group: ClassicGroup, member: Member) -> None:
        self._set_session(turn, group, member.member_id, member.session_timeout_ms)

    def _set_session(
        self, turn: Turn, group: ClassicGroup, member_id: str, timeout_ms: int
    ) -> None:
        self._set(turn, ("session", group.group_id, member_id), timeout_ms)
