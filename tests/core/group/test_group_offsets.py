"""Committing, reading and deleting offsets: who may, when, and what is kept of it."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.core.group.groups import DAY_MS, SESSION_MS, START_MS, Groups, offset

from ottla.core.catalog import Topic
from ottla.core.group.classic.group import ClassicState
from ottla.core.group.events import LAST_TIMESTAMP, OffsetCommitted, OffsetDeleted
from ottla.core.group.requests import FetchedOffset, NewOffsets
from ottla.errors import ErrorCode

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
OLD = ErrorCode.ILLEGAL_GENERATION
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


# Who may commit


def test_a_consumer_that_manages_its_partitions_itself_needs_no_group() -> None:
    groups = Groups()
    assert groups.commit(offset("orders", 3, 42, "where I was")) == [NONE]
    assert groups.events == [OffsetCommitted("g", "orders", 3, 42, -1, "where I was", START_MS, -1)]
    assert groups.machine.fetch("g", "orders", 3) == FetchedOffset(42, -1, "where I was")


def test_a_generation_of_a_group_that_does_not_exist_is_refused() -> None:
    groups = Groups()
    assert groups.commit(offset(), generation=1, member_id="a") is ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.log == []


def test_a_generation_of_a_group_that_only_has_offsets_comes_from_no_member() -> None:
    groups = Groups()
    groups.commit(offset())
    assert groups.commit(offset(), generation=1, member_id="a") is UNKNOWN
    in_transaction = groups.commit_in_transaction(7, offset(), generation=1, member_id="a")
    assert in_transaction is UNKNOWN


def test_an_empty_group_takes_offsets_of_anybody_without_a_generation() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.leave("a")
    assert groups.commit(offset()) == [NONE]
    assert groups.commit(offset(), member_id="whoever") == [NONE]
    assert groups.commit(offset(), generation=1, member_id="a") is UNKNOWN


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (ClassicState.PREPARING_REBALANCE, [NONE]),
        (ClassicState.COMPLETING_REBALANCE, REBALANCE),
        (ClassicState.STABLE, [NONE]),
    ],
)
def test_a_member_commits_whenever_it_owns_something(
    state: ClassicState, error: ErrorCode | list[ErrorCode]
) -> None:
    groups = Groups()
    groups.form("a")
    if state is not ClassicState.COMPLETING_REBALANCE:
        groups.stabilize()
    if state is ClassicState.PREPARING_REBALANCE:
        groups.enter("b")
    assert groups.state() is state
    assert groups.commit(offset(), generation=1, member_id="a") == error
    assert groups.commit(offset(), generation=0, member_id="a") is OLD
    assert groups.commit(offset(), generation=2, member_id="a") is OLD
    assert groups.commit(offset(), generation=-1, member_id="a") is OLD
    assert groups.commit(offset(), generation=1, member_id="stranger") is UNKNOWN
    assert groups.commit(offset(), generation=1) is UNKNOWN
    assert groups.commit(offset()) is UNKNOWN
    kept = [event for event in groups.events if isinstance(event, OffsetCommitted)]
    assert len(kept) == (1 if error == [NONE] else 0)


def test_a_member_whose_sync_waits_commits_as_if_it_were_answered() -> None:
    """Kafka looks at a commit that was sent behind a SyncGroup only when that is answered."""
    groups = Groups()
    groups.form("a", "b")
    waiting = groups.sync("b")
    assert groups.commit(offset(), generation=1, member_id="a") is REBALANCE
    assert groups.commit(offset(value=7), generation=1, member_id="b") == [NONE]
    assert groups.commit(offset(), generation=0, member_id="b") is OLD
    assert waiting.waits
    assert groups.state() is ClassicState.COMPLETING_REBALANCE
    groups.stabilize()
    assert groups.fetched("orders") == 7


def test_a_member_whose_sync_ended_in_a_rebalance_commits_until_the_next_generation() -> None:
    groups = Groups()
    groups.form("a", "b")
    waiting = groups.sync("b")
    groups.leave("a")
    assert waiting.error is REBALANCE
    assert groups.commit(offset(), generation=1, member_id="b") == [NONE]
    groups.join("b")
    assert groups.commit(offset(), generation=2, member_id="b") is REBALANCE


def test_a_given_id_cannot_commit() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.join(new_id="p")
    assert groups.commit(offset(), generation=1, member_id="p") is UNKNOWN


@pytest.mark.parametrize("rebalances", [False, True])
def test_a_commit_keeps_the_session_alive(rebalances: bool) -> None:
    groups = Groups()
    groups.form_stable("a")
    if rebalances:
        groups.enter("b")
    groups.pass_ms(SESSION_MS - 1)
    assert groups.commit(generation=1, member_id="a") == []
    groups.pass_ms(SESSION_MS - 1)
    assert "a" in groups.member_ids()
    groups.pass_ms(1)
    assert "a" not in groups.member_ids()


def test_a_refused_commit_does_not_keep_the_session_alive() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.pass_ms(SESSION_MS - 1)
    groups.commit(generation=0, member_id="a")
    groups.pass_ms(1)
    assert groups.state() is ClassicState.EMPTY


# What is committed


def test_metadata_that_is_too_large_costs_only_its_partition() -> None:
    groups = Groups(metadata_max_bytes=5)
    errors = groups.commit(
        offset("orders", 0, 1, "12345"), offset("orders", 1, 2, "123456"), offset("orders", 2, 3)
    )
    assert errors == [NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, NONE]
    assert [groups.fetched("orders", partition) for partition in range(3)] == [1, -1, 3]


def test_the_last_commit_counts() -> None:
    groups = Groups()
    groups.commit(offset(value=5), offset(value=3))
    assert groups.fetched("orders") == 3
    groups.commit(offset(value=1))
    assert groups.fetched("orders") == 1
    assert groups.committed_partitions("g") == [("orders", 0)]


def test_the_leader_epoch_of_a_commit_is_kept() -> None:
    groups = Groups()
    groups.commit(NewOffsets("orders", [0], [9], [4], [""]))
    groups.restart()
    assert groups.machine.fetch("g", "orders", 0) == FetchedOffset(9, 4, "")


def test_groups_do_not_see_each_others_offsets() -> None:
    groups = Groups()
    groups.commit(offset(value=1), group="one")
    groups.commit(offset(value=2), group="two")
    assert (groups.fetched("orders", 0, "one"), groups.fetched("orders", 0, "two")) == (1, 2)


def test_offsets_that_nobody_committed_are_none() -> None:
    groups = Groups()
    assert groups.machine.fetch("g", "orders", 0) == FetchedOffset(-1, -1, "")
    assert groups.machine.fetch_stable("g", "orders", 0) == FetchedOffset(-1, -1, "")
    assert groups.committed_partitions("g") == []


def test_offsets_survive_members_rebalances_and_restarts() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.commit(offset(value=7), generation=1, member_id="a")
    groups.leave("a")
    groups.restart()
    assert groups.fetched("orders") == 7
    groups.form_stable("b")
    assert groups.fetched("orders") == 7


# Deleting offsets


def test_offsets_of_a_group_without_members_can_be_deleted() -> None:
    groups = Groups()
    groups.commit(offset("orders", 0), offset("orders", 1), offset("other", 0))
    assert groups.delete_offsets(("orders", 0), ("other", 0), ("nothing", 9)) == [NONE] * 3
    assert groups.events[3:] == [OffsetDeleted("g", "orders", 0), OffsetDeleted("g", "other", 0)]
    assert groups.committed_partitions("g") == [("orders", 1)]
    groups.restart()
    assert groups.committed_partitions("g") == [("orders", 1)]


def test_offsets_of_topics_that_the_group_reads_are_not_deleted() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.commit(offset("orders"), offset("other"), generation=1, member_id="a")
    assert groups.delete_offsets(("orders", 0), ("other", 0)) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        NONE,
    ]
    assert groups.committed_partitions("g") == [("orders", 0)]
    groups.leave("a")
    assert groups.delete_offsets(("orders", 0)) == [NONE]


def test_as_long_as_it_is_not_known_what_a_group_reads_nothing_is_deleted() -> None:
    groups = Groups()
    groups.form_stable("a", protocols={"range": b"garbage"})
    groups.commit(offset("orders"), generation=1, member_id="a")
    assert groups.delete_offsets(("orders", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]

    groups = Groups(initial_rebalance_delay_ms=3000)
    groups.commit(offset("orders"))
    groups.enter("a")
    assert groups.delete_offsets(("orders", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_offsets_of_a_group_of_another_type_with_members_are_not_deleted() -> None:
    groups = Groups()
    groups.form_stable("w", protocol_type="connect", protocols={"v1": b""})
    groups.commit(offset(), generation=1, member_id="w")
    assert groups.delete_offsets(("orders", 0)) is ErrorCode.NON_EMPTY_GROUP
    groups.leave("w")
    assert groups.delete_offsets(("orders", 0)) == [NONE]


def test_offsets_of_a_group_that_does_not_exist_cannot_be_deleted() -> None:
    assert Groups().delete_offsets(("orders", 0)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_offset_that_is_only_pending_can_be_deleted() -> None:
    groups = Groups()
    groups.commit_in_transaction(7, offset())
    assert groups.delete_offsets(("orders", 0)) == [NONE]
    groups.end_transaction("commit", 7)
    assert groups.fetched("orders") == -1
    groups.restart()


# Topics that are deleted


def test_the_offsets_of_a_deleted_topic_go_in_every_group_pending_ones_too() -> None:
    groups = Groups()
    groups.commit(offset("orders", 0), offset("orders", 1), offset("other"), group="one")
    groups.commit(offset("orders", 0), group="two")
    groups.commit_in_transaction(7, offset("orders", 0), group="two")
    groups.commit_in_transaction(7, offset("orders", 5), group="three")
    groups.forget_topic("orders", START_MS)
    assert groups.committed_partitions("one") == [("other", 0)]
    groups.end_transaction("commit", 7)
    assert groups.committed_partitions("two") == []
    assert groups.committed_partitions("three") == []
    deleted = [event for event in groups.events if isinstance(event, OffsetDeleted)]
    assert len(deleted) == len(set(deleted)) == 4
    groups.restart()


OLD_ID, NEW_ID = UUID(int=1), UUID(int=2)


def make_again(groups: Groups) -> None:
    groups.topics.topics_by_id.pop(OLD_ID, None)
    groups.topics.topics_by_id[NEW_ID] = Topic("orders", NEW_ID, 1, 1)


def test_only_offsets_of_the_topic_that_is_gone_are_forgotten_whatever_the_time() -> None:
    groups = Groups()
    groups.topics.topics_by_id[OLD_ID] = Topic("orders", OLD_ID, 1, 1)
    groups.commit(offset("orders", 0, topic_id=OLD_ID), offset("orders", 1, topic_id=OLD_ID))
    make_again(groups)
    groups.commit(offset("orders", 1, 7, topic_id=NEW_ID))
    for deleted_at_ms in (0, START_MS, LAST_TIMESTAMP):
        assert groups.forget_topic("orders", deleted_at_ms) is NONE
        assert groups.committed_partitions("g") == [("orders", 1)]
        assert groups.fetched("orders", 1) == 7
        groups.restart()


def test_a_commit_for_a_topic_that_went_while_it_waited_is_refused() -> None:
    groups = Groups()
    groups.topics.topics_by_id[OLD_ID] = Topic("orders", OLD_ID, 1, 1)
    waiting = offset("orders", topic_id=OLD_ID)
    make_again(groups)
    assert groups.commit(waiting) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    in_transaction = groups.commit_in_transaction(7, waiting)
    assert in_transaction == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert groups.events == []


def test_what_is_pending_for_the_old_topic_never_replaces_an_offset_of_the_new_one() -> None:
    groups = Groups()
    groups.topics.topics_by_id[OLD_ID] = Topic("orders", OLD_ID, 1, 1)
    groups.commit_in_transaction(7, offset("orders", 0, 4711, topic_id=OLD_ID))
    make_again(groups)
    groups.commit(offset("orders", 0, 3, topic_id=NEW_ID))
    assert groups.forget_topic("orders", START_MS) is NONE
    groups.end_transaction("commit", 7)
    assert groups.fetched("orders") == 3
    groups.restart()


@pytest.mark.parametrize("kind", ["commit", "abort"])
@pytest.mark.parametrize("old_is_pending", [True, False])
def test_an_open_transaction_with_an_offset_of_the_new_topic_is_waited_for(
    kind: str, old_is_pending: bool
) -> None:
    """A deletion takes all that is known of a partition, so it must not come before the transaction's end."""
    groups = Groups()
    groups.topics.topics_by_id[OLD_ID] = Topic("orders", OLD_ID, 1, 1)
    if old_is_pending:
        groups.commit_in_transaction(8, offset("orders", 0, 4711, topic_id=OLD_ID))
    else:
        groups.commit(offset("orders", 0, 4711, topic_id=OLD_ID))
    make_again(groups)
    groups.commit_in_transaction(7, offset("orders", 0, 3, topic_id=NEW_ID))
    assert groups.forget_topic("orders", START_MS) is ErrorCode.CONCURRENT_TRANSACTIONS
    groups.end_transaction(kind, 7)
    assert groups.forget_topic("orders", START_MS) is NONE
    if old_is_pending:
        groups.end_transaction("commit", 8)
    assert groups.fetched("orders") == (3 if kind == "commit" else -1)
    groups.restart()


def test_records_that_do_not_name_their_topic_go_by_their_time() -> None:
    """Those that Kafka wrote before 4.1, and commits that bring their own retention time."""
    groups = Groups()
    groups.topics.topics_by_id[NEW_ID] = Topic("orders", NEW_ID, 1, 1)
    groups.commit(offset("orders", 0), offset("orders", 2, retention_ms=DAY_MS, topic_id=NEW_ID))
    groups.pass_ms(1000)
    groups.commit(offset("orders", 1), offset("orders", 3, retention_ms=DAY_MS, topic_id=NEW_ID))
    groups.forget_topic("orders", START_MS + 999)
    assert groups.committed_partitions("g") == [("orders", 1), ("orders", 3)]
    groups.restart()
