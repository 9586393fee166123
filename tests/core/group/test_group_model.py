"""Whatever clients do, in whatever order: what must hold for groups at any time, and in the end."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.core.group.groups import DAY_MS, Asked, Groups, offset, subscription

from ottla.core.group.classic.group import ClassicGroup, ClassicState
from ottla.core.group.requests import Joined, JoinRefused, Leaver, Synced
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

NONE = ErrorCode.NONE
GROUP_IDS = st.sampled_from(["g", "h"])
INSTANCES = st.sampled_from([None, None, "i", "j"])
PROTOCOLS = st.sampled_from(
    [
        {"range": subscription("orders")},
        {"range": subscription("orders", "other")},
        {"range": subscription("orders"), "sticky": b"garbage"},
        {"sticky": b"garbage", "range": subscription("orders")},
    ]
)
STEPS_MS = st.sampled_from([1, 1, 1000, 1000, 1000, 5999, 10_000, 60_000, 300_000, DAY_MS])
WHO = st.integers(0, 20)
PRODUCERS = st.integers(1, 2)
PARTITIONS = st.tuples(st.sampled_from(["orders", "given up"]), st.integers(0, 1))
RARELY = st.integers(0, 9).map(lambda number: number == 0)
# Nobody says anything for longer than any timeout.
SILENCE_MS = 3_600_000


class GroupModel(RuleBasedStateMachine):
    """The offsets are modelled; of the members is checked what can be said without a second coordinator."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = Groups(offsets_retention_ms=3 * DAY_MS, max_size=3)
        self.ids: list[tuple[str, str, str | None]] = []
        self.open: list[tuple[str, str, Asked]] = []
        self.seen: dict[str, tuple[ClassicGroup, int]] = {}
        # What a member was assigned in a generation of a group, as long as the group lives.
        self.assigned: dict[tuple[str, int, str], bytes] = {}
        self.offsets: dict[tuple[str, str, int], tuple[int, int]] = {}
        self.pending: dict[tuple[int, str, str, int], tuple[int, int]] = {}
        self.count = 0

    @initialize(delay_ms=st.sampled_from([0, 0, 3000]))
    def configure(self, delay_ms: int) -> None:
        self.groups.restart(initial_rebalance_delay_ms=delay_ms)

    def next(self) -> int:
        self.count += 1
        return self.count

    def pick(self, who: int) -> tuple[str, str, str | None]:
        """One of the latest ids that were given out."""
        return self.ids[-1 - who % min(len(self.ids), 8)]

    def live(self) -> dict[str, ClassicGroup]:
        return self.groups.machine.membership.groups

    # Members.

    @rule(group=GROUP_IDS, instance=INSTANCES, protocols=PROTOCOLS, old=st.booleans())
    def join(self, group: str, instance: str | None, protocols: Any, old: bool) -> None:
        name = f"m{self.next()}"
        asked = self.groups.join(
            group=group,
            instance=instance,
            protocols=protocols,
            version=3 if old else 9,
            new_id=name,
            rebalance_ms=(20_000, 60_000, 60_000, 60_000, 0)[self.count % 5],
        )
        self.ids.append((group, name, instance))
        self.open.append((group, name, asked))

    @precondition(lambda self: self.ids)
    @rule(who=WHO, protocols=PROTOCOLS, session_ms=st.sampled_from([6000, 10_000, 5]))
    def join_again(self, who: int, protocols: Any, session_ms: int) -> None:
        group, name, instance = self.pick(who)
        asked = self.groups.join(
            name, group=group, instance=instance, protocols=protocols, session_ms=session_ms
        )
        self.open.append((group, name, asked))

    # Otherwise a rebalance would hardly ever come to its end.

    @rule(group=GROUP_IDS, instance=INSTANCES, protocols=PROTOCOLS)
    def two_join_together(self, group: str, instance: str | None, protocols: Any) -> None:
        with self.groups.one_turn():
            self.join(group, instance, protocols, True)
            self.join(group, None, protocols, True)

    @rule(group=GROUP_IDS)
    def everybody_joins_again(self, group: str) -> None:
        if group in self.live():
            for member in list(self.live()[group].members.values()):
                asked = self.groups.join(
                    member.member_id,
                    group=group,
                    instance=member.instance_id,
                    protocols=member.protocols,
                )
                self.open.append((group, member.member_id, asked))

    @rule(group=GROUP_IDS)
    def the_group_settles(self, group: str) -> None:
        for name in list(self.live()[group].pending_joins) if group in self.live() else []:
            self.groups.leave(name, group=group)
        self.everybody_joins_again(group)
        self.everybody_syncs(group)

    @rule(passed_ms=st.integers(1, 5999))
    def everybody_stays(self, passed_ms: int) -> None:
        for group_id, group in self.live().items():
            for name, member in list(group.members.items()):
                self.groups.heartbeat(name, group=group_id, instance=member.instance_id)
        self.groups.pass_ms(passed_ms)
        self._learn_what_expired()

    @precondition(lambda self: self.ids)
    @rule(who=WHO, behind=RARELY)
    def sync(self, who: int, behind: bool) -> None:
        group, name, instance = self.pick(who)
        generation = self.live()[group].generation if group in self.live() else 1
        names = list(self.live()[group].members) if group in self.live() else []
        assignments = {each: f"{each} {self.next()}".encode() for each in names}
        asked = self.groups.sync(
            name, generation - behind, assignments, group=group, instance=instance
        )
        if behind and not asked.waits:
            assert asked.error is not NONE
        self.open.append((group, name, asked))

    @rule(group=GROUP_IDS)
    def everybody_syncs(self, group: str) -> None:
        if group in self.live():
            for member in list(self.live()[group].members.values()):
                names = list(self.live()[group].members)
                asked = self.groups.sync(
                    member.member_id,
                    None,
                    {each: f"{each} {self.next()}".encode() for each in names},
                    group=group,
                    instance=member.instance_id,
                )
                self.open.append((group, member.member_id, asked))

    @precondition(lambda self: self.ids)
    @rule(who=WHO, behind=RARELY)
    def heartbeat(self, who: int, behind: bool) -> None:
        name, member_id, instance = self.pick(who)
        found = self.live().get(name)
        generation = (1 if found is None else found.generation) - behind
        expected = self._member_error(found, member_id, instance, generation)
        if (
            expected is NONE
            and found is not None
            and found.state is ClassicState.PREPARING_REBALANCE
        ):
            expected = ErrorCode.REBALANCE_IN_PROGRESS
        told = self.groups.heartbeat(member_id, generation, group=name, instance=instance)
        assert told is expected

    def _member_error(
        self, found: ClassicGroup | None, member_id: str, instance: str | None, generation: int
    ) -> ErrorCode:
        members = {} if found is None else found.members
        holders = [member for member in members.values() if member.instance_id == instance]
        if instance is not None and holders and holders[0].member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if found is None or member_id not in members or (instance is not None and not holders):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return NONE if generation == found.generation else ErrorCode.ILLEGAL_GENERATION

    @precondition(lambda self: self.ids)
    @rule(who=WHO, by_instance=st.booleans())
    def leave(self, who: int, by_instance: bool) -> None:
        group, name, instance = self.pick(who)
        found = self.live().get(group)
        leaver = Leaver("", instance) if by_instance else Leaver(name, instance)
        (error,) = self.groups.leave(leaver, group=group)
        if error is NONE:
            assert found is not None
            if not by_instance:
                assert name not in found.members
                assert name not in found.pending_joins
            else:
                assert instance not in found.static_ids

    # Offsets.

    @rule(group=GROUP_IDS, partition=PARTITIONS, who=WHO)
    def commit(self, group: str, partition: tuple[str, int], who: int) -> None:
        found = self.live().get(group)
        generation, member_id = -1, ""
        if found is not None and found.members:
            generation = found.generation
            member_id = list(found.members)[who % len(found.members)]
        instance = found.members[member_id].instance_id if found and member_id else None
        value = self.next()
        errors = self.groups.commit(
            offset(*partition, value),
            group=group,
            generation=generation,
            member_id=member_id,
            instance=instance,
        )
        is_between = found is not None and found.state is ClassicState.COMPLETING_REBALANCE
        if found is not None and is_between and found.members[member_id].sync_ticket is None:
            assert errors is ErrorCode.REBALANCE_IN_PROGRESS
        elif found is not None and not found.members and found.state is not ClassicState.EMPTY:
            # Everybody left during the initial delay: it becomes empty at its end.
            assert errors is ErrorCode.UNKNOWN_MEMBER_ID
        else:
            assert errors == [NONE]
            self.offsets[group, *partition] = value, value

    @rule(group=GROUP_IDS, partition=PARTITIONS, producer_id=PRODUCERS)
    def commit_in_transaction(
        self, group: str, partition: tuple[str, int], producer_id: int
    ) -> None:
        value = self.next()
        told = self.groups.commit_in_transaction(
            producer_id, offset(*partition, value), group=group
        )
        assert told == [NONE]
        self.pending[producer_id, group, *partition] = value, value

    @rule(producer_id=PRODUCERS, kind=st.sampled_from(["commit", "abort"]))
    def end_transaction(self, producer_id: int, kind: str) -> None:
        self.groups.end_transaction(kind, producer_id)
        for key, (value, position) in list(self.pending.items()):
            if key[0] == producer_id:
                del self.pending[key]
                if kind == "commit" and self.offsets.get(key[1:], (0, 0))[1] < position:
                    self.offsets[key[1:]] = value, position

    @rule(group=GROUP_IDS, partition=PARTITIONS)
    def delete_offsets(self, group: str, partition: tuple[str, int]) -> None:
        if self.groups.delete_offsets(partition, group=group) == [NONE]:
            self._forget_offsets(group, *partition)

    @rule(topic=st.sampled_from(["orders", "given up"]))
    def forget_topic(self, topic: str) -> None:
        self.groups.forget_topic(topic, self.groups.now_ms)
        for group in ("g", "h"):
            for partition in (0, 1):
                self._forget_offsets(group, topic, partition)

    def _forget_offsets(self, group: str, topic: str, partition: int) -> None:
        self.offsets.pop((group, topic, partition), None)
        for producer_id in (1, 2):
            self.pending.pop((producer_id, group, topic, partition), None)

    @rule(group=GROUP_IDS)
    def delete(self, group: str) -> None:
        found = self.live().get(group)
        exists = found is not None or any(group in key for key in (*self.offsets, *self.pending))
        error = self.groups.delete(group)
        if not exists:
            assert error is ErrorCode.GROUP_ID_NOT_FOUND
        elif found is not None and found.state is not ClassicState.EMPTY:
            assert error is ErrorCode.NON_EMPTY_GROUP
        else:
            assert error is NONE
            for key in [key for key in self.offsets if key[0] == group]:
                del self.offsets[key]
            for pending_key in [key for key in self.pending if key[1] == group]:
                del self.pending[pending_key]

    # Time.

    @rule(passed_ms=STEPS_MS)
    def time_passes(self, passed_ms: int) -> None:
        self.groups.pass_ms(passed_ms)
        self._learn_what_expired()

    def _learn_what_expired(self) -> None:
        """Expiry is tested elsewhere; here an offset may go only if it is old and nothing is pending."""
        for key in list(self.offsets):
            if self.groups.machine.offsets.get(*key) is None:
                assert not any(pending[1:] == key for pending in self.pending)
                del self.offsets[key]

    @rule()
    def restart(self) -> None:
        self.groups.restart()
        self.open.clear()
        self.seen.clear()

    # What must hold.

    @invariant()
    def every_request_is_answered_or_kept(self) -> None:
        answered = [entry for entry in self.open if not entry[2].waits]
        self.open = [entry for entry in self.open if entry[2].waits]
        kept = [
            ticket
            for group in self.live().values()
            for member in group.members.values()
            for ticket in (member.join_ticket, member.sync_ticket)
            if ticket is not None
        ]
        assert len(kept) == len(self.open)
        assert {id(ticket) for ticket in kept} == {id(asked) for _, _, asked in self.open}
        for group_id, name, asked in answered:
            self._check_answer(group_id, name, asked.answers)

    def _check_answer(self, group_id: str, name: str, answers: list[Any]) -> None:
        (answer,) = answers
        group = self.live().get(group_id)
        # After a long time the group may be gone, too.
        if isinstance(answer, Refused | JoinRefused) or group is None:
            return
        if isinstance(answer, Joined):
            assert answer.member_id == name
            assert answer.generation <= group.generation
            if answer.members:
                assert answer.leader == name
                assert name in [member.member_id for member in answer.members]
        else:
            assert isinstance(answer, Synced)
            key = group_id, group.generation, name
            if group.state is ClassicState.STABLE and name in group.members:
                assert self.assigned.setdefault(key, answer.assignment) == answer.assignment

    @invariant()
    def groups_are_consistent(self) -> None:
        for group in self.live().values():
            members = group.members
            assert (group.leader in members) if members else group.leader is None
            assert group.joined_count == sum(
                member.join_ticket is not None for member in members.values()
            )
            assert group.static_ids == {
                member.instance_id: member.member_id
                for member in members.values()
                if member.instance_id is not None
            }
            assert set(group.pending_syncs) <= set(members)
            assert not set(group.pending_joins) & set(members)
            assert not (members and group.state is ClassicState.EMPTY)
            for name in {name for member in members.values() for name in member.protocols}:
                supporters = sum(name in member.protocols for member in members.values())
                assert group._support[name] == supporters
            if group.state is not ClassicState.PREPARING_REBALANCE:
                assert group.joined_count == 0
            if group.state is not ClassicState.COMPLETING_REBALANCE:
                assert all(member.sync_ticket is None for member in members.values())

    @invariant()
    def generations_do_not_fall(self) -> None:
        for group_id, group in self.live().items():
            before, generation = self.seen.get(group_id, (group, 0))
            if before is not group:
                # It was deleted and began anew: what it had assigned is of no meaning any more.
                self.assigned = {
                    key: value for key, value in self.assigned.items() if key[0] != group_id
                }
            else:
                assert group.generation >= generation
            self.seen[group_id] = group, group.generation

    @invariant()
    def deadlines_are_for_somebody_and_everybody_has_one(self) -> None:
        deadlines = self.groups.machine.membership.deadlines
        expected: set[tuple[str, ...]] = set()
        optional: set[tuple[str, ...]] = set()
        for group_id, group in self.live().items():
            for member in group.members.values():
                key = ("session", group_id, member.member_id)
                awaits = member.join_ticket is not None or member.sync_ticket is not None
                (optional if awaits and not member.is_new else expected).add(key)
            expected |= {("session", group_id, name) for name in group.pending_joins}
            if group.state is ClassicState.PREPARING_REBALANCE:
                expected.add(("join", group_id))
            if group.pending_syncs:
                expected.add(("sync", group_id))
        found = set(deadlines._due_ms)
        assert expected <= found <= expected | optional

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        machine = self.groups.machine
        for group in ("g", "h"):
            for topic in ("orders", "given up"):
                for partition in (0, 1):
                    key = (group, topic, partition)
                    is_pending = any(pending[1:] == key for pending in self.pending)
                    value = self.offsets.get(key, (-1, 0))[0]
                    assert machine.fetch(*key).offset == value
                    stable = machine.fetch_stable(*key)
                    assert (stable == Refused(ErrorCode.UNSTABLE_OFFSET_COMMIT)) == is_pending

    def teardown(self) -> None:
        """When nobody speaks any more, everybody is answered, everybody goes, and nothing is left."""
        self.groups.pass_ms(SILENCE_MS)
        assert all(not asked.waits for _, _, asked in self.open)
        for group in self.live().values():
            assert group.state is ClassicState.EMPTY
        for producer_id in (1, 2):
            self.groups.end_transaction("abort", producer_id)
        self.groups.pass_ms(4 * DAY_MS)
        self.groups.restart()
        machine = self.groups.machine
        assert machine.list_groups() == []
        assert self.live() == {}
        assert len(machine.membership.deadlines) == 0
        assert machine.durable_state() == ({}, ({}, {}), {})


TestGroupModel = GroupModel.TestCase
TestGroupModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
