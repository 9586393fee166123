"""A member of KIP-848 without IO: its states, its epochs, and what errors mean."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.client.state.group.consumer.membership import (
    IN_GROUP,
    TRANSITIONS,
    AfterHeartbeat,
    ConsumerEvent,
    ConsumerMembership,
    ConsumerState,
    TopicIdPartition,
)
from ottla.client.state.group.consumer.reconciliation import (
    Reconciliation,
    next_reconciliation,
    unnamed_topics,
)
from ottla.client.state.group.membership import AfterError, CommitFailure, Generation
from ottla.errors import ErrorCode, FatalError
from ottla.model import TopicPartition

ORDERS, MENUS = UUID(int=1), UUID(int=2)
NAMES = {ORDERS: "orders", MENUS: "menus"}


def ids(*numbers: int, topic: UUID = ORDERS) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(topic, number) for number in numbers)


def state_of(member: ConsumerMembership) -> ConsumerState:
    """The state, where a type checker believes that it has not changed."""
    return member.state


def joined(*numbers: int, epoch: int = 1, instance: str | None = None) -> ConsumerMembership:
    """A member that was given these partitions of `orders`."""
    member = ConsumerMembership("m", instance)
    member.join()
    member.answered(member.incarnation, epoch, ids(*numbers))
    return member


def stable(*numbers: int, epoch: int = 1, instance: str | None = None) -> ConsumerMembership:
    """A member that has taken its partitions over."""
    member = joined(*numbers, epoch=epoch, instance=instance)
    assert member.target is not None
    member.reconciled(member.incarnation, member.target.number, member.target.partitions)
    assert state_of(member) is ConsumerState.STABLE
    return member


def plan_of(
    member: ConsumerMembership,
    *owned: int,
    names: dict[UUID, str] | None = None,
    subscribed: tuple[str, ...] = ("orders", "menus"),
) -> Reconciliation | None:
    known = NAMES if names is None else names
    return next_reconciliation(
        member,
        {TopicPartition("orders", number): ORDERS for number in owned},
        known.get,
        subscribed.__contains__,
    )


# Joining, targets


def test_a_member_keeps_its_id_for_life() -> None:
    member = stable(0)
    member.refused(member.incarnation, ErrorCode.UNKNOWN_MEMBER_ID)
    member.join()
    member.left()
    assert member.member_id == "m"


def test_a_member_joins_with_epoch_zero_and_follows_the_epoch_of_answers() -> None:
    member = ConsumerMembership("m")
    member.join()
    assert (member.state, member.member_epoch) == (ConsumerState.JOINING, 0)
    member.answered(member.incarnation, 7, ids())
    assert member.member_epoch == 7
    assert member.metadata_generation == Generation(7, "m")


def test_an_empty_target_is_reconciled_too() -> None:
    """The listener hears that there is nothing, as with the classic protocol."""
    member = joined()
    assert state_of(member) is ConsumerState.RECONCILING
    plan = plan_of(member)
    assert plan is not None
    assert (plan.revoked, plan.added) == ((), ())
    member.reconciled(plan.incarnation, plan.number, plan.partitions)
    assert state_of(member) is ConsumerState.STABLE
    assert plan_of(member) is None


def test_an_answer_without_a_target_changes_none() -> None:
    member = stable(0, 1)
    member.answered(member.incarnation, 2, None)
    assert (member.state, member.member_epoch) == (ConsumerState.STABLE, 2)
    assert member.target is not None
    assert member.target.partitions == ids(0, 1)


def test_a_join_that_is_answered_without_a_target_makes_a_member_without_partitions() -> None:
    member = ConsumerMembership("m")
    member.join()
    member.answered(member.incarnation, 1, None)
    assert state_of(member) is ConsumerState.STABLE
    member.answered(member.incarnation, 2, ids(3))
    assert state_of(member) is ConsumerState.RECONCILING


def test_the_same_target_again_is_no_new_one() -> None:
    member = stable(0, 1)
    member.answered(member.incarnation, 2, ids(1, 0))
    assert state_of(member) is ConsumerState.STABLE


def test_a_target_that_returns_to_what_the_member_has_is_acknowledged_again() -> None:
    member = stable(0, 1)
    member.answered(member.incarnation, 2, ids(0))
    member.answered(member.incarnation, 2, ids(0, 1))
    assert state_of(member) is ConsumerState.RECONCILING
    before = member.reached
    plan = plan_of(member, 0, 1)
    assert plan is not None
    assert (plan.revoked, plan.added) == ((), ())
    member.reconciled(plan.incarnation, plan.number, plan.partitions)
    assert state_of(member) is ConsumerState.STABLE
    assert member.reached != before, "the next heartbeat reports the partitions"


# Reconciliation


def test_what_is_not_in_the_target_is_revoked_and_what_is_new_is_added() -> None:
    member = stable(0, 1)
    member.answered(member.incarnation, 2, ids(1, 2))
    plan = plan_of(member, 0, 1)
    assert plan is not None
    assert plan.revoked == (TopicPartition("orders", 0),)
    assert plan.added == (TopicPartition("orders", 2),)
    assert list(plan.kept) == [TopicPartition("orders", 1)]
    assert plan.partitions == ids(1, 2)


def test_a_newer_target_waits_until_the_older_one_is_reached() -> None:
    member = stable(0, 1, 2)
    member.answered(member.incarnation, 2, ids(0, 1))
    plan = plan_of(member, 0, 1, 2)
    assert plan is not None
    member.answered(member.incarnation, 3, ids(0))
    assert plan.is_valid(member)
    member.reconciled(plan.incarnation, plan.number, plan.partitions)
    assert state_of(member) is ConsumerState.RECONCILING
    assert member.reached is not None
    assert member.reached.partitions == ids(0, 1)
    following = plan_of(member, 0, 1)
    assert following is not None
    assert following.revoked == (TopicPartition("orders", 1),)


def test_topics_without_a_name_wait_for_metadata_and_the_others_do_not() -> None:
    member = ConsumerMembership("m")
    member.join()
    member.answered(member.incarnation, 1, ids(0) | ids(0, topic=MENUS))
    known = {ORDERS: "orders"}
    assert unnamed_topics(member, known.get) == (MENUS,)
    plan = plan_of(member, names=known)
    assert plan is not None
    assert plan.partitions == ids(0)
    member.reconciled(plan.incarnation, plan.number, plan.partitions)
    assert state_of(member) is ConsumerState.RECONCILING
    assert plan_of(member, 0, names=known) is None, "nothing to do before the name is known"
    rest = plan_of(member, 0)
    assert rest is not None
    assert rest.added == (TopicPartition("menus", 0),)
    member.reconciled(rest.incarnation, rest.number, rest.partitions)
    assert state_of(member) is ConsumerState.STABLE


def test_a_topic_that_was_created_again_is_another_one() -> None:
    member = stable(0)
    member.answered(member.incarnation, 2, ids(0, topic=MENUS))
    plan = plan_of(member, 0, names={MENUS: "orders"})
    assert plan is not None
    assert plan.revoked == plan.added == (TopicPartition("orders", 0),)
    assert not plan.kept


def test_topics_that_are_not_subscribed_any_more_are_not_assigned() -> None:
    member = ConsumerMembership("m")
    member.join()
    member.answered(member.incarnation, 1, ids(0) | ids(0, topic=MENUS))
    plan = plan_of(member, subscribed=("menus",))
    assert plan is not None
    assert plan.added == (TopicPartition("menus", 0),)


# Removal, leaving


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ],
)
def test_a_member_that_was_removed_releases_its_partitions_and_joins_again(code: ErrorCode) -> None:
    member = stable(0, epoch=5)
    plan = Reconciliation(member.incarnation, 0, {}, (), ())
    assert member.refused(member.incarnation, code) is AfterHeartbeat.JOIN_AGAIN
    assert state_of(member) is ConsumerState.FENCED
    assert member.has_to_release
    assert not member.is_in_group
    assert not plan.is_valid(member)
    assert member.stable_generation is None, "it cannot commit"
    assert member.metadata_generation == Generation(5, "m"), "transactions are fenced by it"
    member.join()
    assert (member.state, member.member_epoch) == (ConsumerState.JOINING, 0)
    assert member.target is None
    assert member.reached is None


def test_a_reconciliation_of_an_earlier_time_in_the_group_does_not_count() -> None:
    member = stable(0)
    member.answered(member.incarnation, 2, ids(0, 1))
    plan = plan_of(member, 0)
    assert plan is not None
    member.refused(member.incarnation, ErrorCode.FENCED_MEMBER_EPOCH)
    member.join()
    member.answered(member.incarnation, 3, ids(5))
    assert not plan.is_valid(member)
    member.reconciled(plan.incarnation, plan.number, plan.partitions)
    assert member.reached is None


def test_a_late_answer_does_not_concern_a_member_that_joins_again() -> None:
    member = stable(0)
    old = member.incarnation
    member.poll_expired()
    member.join()
    member.answered(old, 9, ids(1, 2))
    assert (member.member_epoch, member.target) == (0, None)
    assert member.refused(old, ErrorCode.UNKNOWN_MEMBER_ID) is AfterHeartbeat.IGNORE
    assert state_of(member) is ConsumerState.JOINING


def test_a_member_whose_program_does_not_poll_is_stale_until_it_joins_again() -> None:
    member = stable(0)
    member.poll_expired()
    assert state_of(member) is ConsumerState.STALE
    assert member.has_to_release
    assert member.poll_timed_out
    member.join()
    assert member.poll_timed_out, "a commit before the answer says why it fails"
    member.answered(member.incarnation, 3, ids(0))
    assert not member.poll_timed_out


def test_a_static_member_leaves_for_a_while_and_another_one_for_good() -> None:
    assert ConsumerMembership("m").leaving_epoch == -1
    assert ConsumerMembership("m", "instance").leaving_epoch == -2


def test_a_member_that_left_has_no_generation_for_transactions() -> None:
    member = stable(0)
    member.left()
    assert state_of(member) is ConsumerState.UNSUBSCRIBED
    assert member.metadata_generation == Generation()


# Errors


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_errors_that_a_retry_does_not_cure_end_the_membership(code: ErrorCode) -> None:
    member = stable(0)
    assert member.refused(member.incarnation, code) is AfterHeartbeat.GIVE_UP
    member.give_up(FatalError(code))
    assert state_of(member) is ConsumerState.FATAL
    assert member.has_to_release
    member.join()
    assert state_of(member) is ConsumerState.FATAL, "only leaving ends it"
    assert member.is_fenced == (code is ErrorCode.FENCED_INSTANCE_ID)
    member.left()
    assert member.fatal is None
    member.join()
    assert state_of(member) is ConsumerState.JOINING


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, AfterHeartbeat.RETRY),
        (ErrorCode.REQUEST_TIMED_OUT, AfterHeartbeat.RETRY),
        (ErrorCode.NOT_COORDINATOR, AfterHeartbeat.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, AfterHeartbeat.FIND_COORDINATOR),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AfterHeartbeat.TELL_AND_RETRY),
    ],
)
def test_other_errors_leave_the_member_as_it_is(code: ErrorCode, reaction: AfterHeartbeat) -> None:
    member = stable(0, epoch=4)
    assert member.refused(member.incarnation, code) is reaction
    assert (member.state, member.member_epoch) == (ConsumerState.STABLE, 4)


def test_a_group_of_another_type_refuses_who_joins() -> None:
    member = ConsumerMembership("m")
    member.join()
    assert (
        member.refused(member.incarnation, ErrorCode.GROUP_ID_NOT_FOUND) is AfterHeartbeat.GIVE_UP
    )


def test_no_event_but_leaving_ends_a_fatal_state() -> None:
    assert {event for state, event in TRANSITIONS if state is ConsumerState.FATAL} == {
        ConsumerEvent.LEFT
    }


# Commits


def test_a_member_commits_with_its_epoch_while_it_reconciles() -> None:
    member = stable(0, epoch=3)
    member.answered(member.incarnation, 4, ids())
    assert member.stable_generation == Generation(4, "m")
    assert member.checked_generation == Generation(4, "m")
    assert not member.is_rebalancing


def test_a_member_that_joins_cannot_commit() -> None:
    member = ConsumerMembership("m")
    assert member.stable_generation is None
    member.join()
    assert member.stable_generation is None


def test_a_commit_with_an_old_epoch_is_repeated_while_the_member_is_in_the_group() -> None:
    member = stable(0)
    assert member.commit_failed(ErrorCode.STALE_MEMBER_EPOCH, Generation()) is AfterError.RETRY
    member.refused(member.incarnation, ErrorCode.FENCED_MEMBER_EPOCH)
    assert member.commit_failed(ErrorCode.STALE_MEMBER_EPOCH, Generation()) is CommitFailure.STALE


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailure.STALE),
        (ErrorCode.ILLEGAL_GENERATION, CommitFailure.STALE),
        (ErrorCode.REBALANCE_IN_PROGRESS, CommitFailure.REBALANCING),
        (ErrorCode.NOT_COORDINATOR, AfterError.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, AfterError.RETRY),
        (ErrorCode.UNKNOWN_TOPIC_ID, AfterError.REFRESH_AND_RETRY),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, AfterError.TELL),
    ],
)
def test_what_other_errors_of_a_commit_mean(
    code: ErrorCode, outcome: AfterError | CommitFailure
) -> None:
    member = stable(0)
    assert member.commit_failed(code, Generation()) is outcome
    assert state_of(member) is ConsumerState.STABLE


class OwnedByTheCoordinatorsLeave(RuleBasedStateMachine):
    """Whatever happens in whatever order, a member reads only partitions that the coordinator believes it has.

    The coordinator believes in the union of what it gave since the member last reported, and forgets all when it
    removes the member.
    """

    @initialize()
    def begin(self) -> None:
        self.member = ConsumerMembership("m")
        self.owned: dict[TopicPartition, UUID] = {}
        self.granted: frozenset[TopicIdPartition] = frozenset()
        self.plan: Reconciliation | None = None
        self.epoch = 0

    @rule()
    def poll(self) -> None:
        """What the reconciler does in poll, up to the end of the listener's call for revoked partitions."""
        if self.member.has_to_release:
            self.owned = {}
            self.plan = None
            self.member.join()
        elif self.member.state is ConsumerState.UNSUBSCRIBED:
            self.member.join()
        elif self.plan is None:
            self.plan = next_reconciliation(
                self.member, self.owned, NAMES.get, ("orders", "menus").__contains__
            )
            if self.plan is not None:
                self.owned = self.plan.kept

    @precondition(lambda self: self.plan is not None)
    @rule()
    def complete(self) -> None:
        """The rest of the reconciliation, after anything else may have happened."""
        plan, self.plan = self.plan, None
        assert plan is not None
        if plan.is_valid(self.member):
            self.owned = dict(plan.assigned)
            self.member.reconciled(plan.incarnation, plan.number, plan.partitions)

    @precondition(lambda self: self.member.is_in_group)
    @rule(numbers=st.frozensets(st.integers(0, 3)), menus=st.frozensets(st.integers(0, 1)))
    def heartbeat(self, numbers: frozenset[int], menus: frozenset[int]) -> None:
        reported = frozenset() if self.member.reached is None else self.member.reached.partitions
        if self.member.member_epoch == 0:
            self.granted = frozenset()
        target = ids(*numbers) | ids(*menus, topic=MENUS)
        in_transit = frozenset() if self.plan is None else self.plan.partitions
        self.granted = (self.granted & (reported | in_transit)) | target
        if self.member.target is not None and self.member.state is ConsumerState.RECONCILING:
            # It does not take back what the member may be taking over at this moment.
            self.granted |= self.member.target.partitions
        self.epoch += 1
        self.member.answered(self.member.incarnation, self.epoch, target)

    @precondition(lambda self: self.member.is_in_group)
    @rule(code=st.sampled_from([ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID]))
    def remove(self, code: ErrorCode) -> None:
        self.member.refused(self.member.incarnation, code)
        self.granted = frozenset()

    @precondition(lambda self: self.member.is_in_group)
    @rule()
    def stop_polling(self) -> None:
        self.member.poll_expired()
        self.granted = frozenset()

    @rule(incarnation=st.integers(0, 5), numbers=st.frozensets(st.integers(0, 3)))
    def late_answer(self, incarnation: int, numbers: frozenset[int]) -> None:
        if incarnation < self.member.incarnation:
            before = (self.member.state, self.member.member_epoch, self.member.target)
            self.member.answered(incarnation, 99, ids(*numbers))
            self.member.refused(incarnation, ErrorCode.UNKNOWN_MEMBER_ID)
            assert before == (self.member.state, self.member.member_epoch, self.member.target)

    @invariant()
    def a_member_in_the_group_has_only_what_was_granted(self) -> None:
        if self.member.is_in_group:
            owned = {TopicIdPartition(i, each.partition) for each, i in self.owned.items()}
            assert owned <= self.granted

    @invariant()
    def a_stable_member_has_its_target(self) -> None:
        if self.member.state is ConsumerState.STABLE and self.plan is None:
            target = self.member.target
            owned = {TopicIdPartition(i, each.partition) for each, i in self.owned.items()}
            assert owned == (set() if target is None else target.partitions)

    @invariant()
    def only_a_member_in_the_group_commits(self) -> None:
        if self.member.stable_generation is not None:
            assert self.member.state in IN_GROUP


TestOwnedByTheCoordinatorsLeave = OwnedByTheCoordinatorsLeave.TestCase
TestOwnedByTheCoordinatorsLeave.settings = settings(max_examples=60, stateful_step_count=40)
