"""Offsets that are committed in a transaction: pending until its end, and in the order of the log."""

from __future__ import annotations

import pytest
from tests.core.group.groups import Groups, offset

from ottla.core.group.classic.group import ClassicState
from ottla.core.group.events import OffsetCommitted
from ottla.core.outcomes import Refused
from ottla.core.turn import AppliedEvent, ProducerIdentity
from ottla.errors import ErrorCode

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
OLD = ErrorCode.ILLEGAL_GENERATION
UNSTABLE = Refused(ErrorCode.UNSTABLE_OFFSET_COMMIT)


def test_offsets_of_a_transaction_count_from_its_commit_on() -> None:
    groups = Groups()
    groups.commit(offset(value=1))
    assert groups.commit_in_transaction(7, offset(value=5)) == [NONE]
    assert groups.fetched("orders") == 1
    assert groups.machine.fetch_stable("g", "orders", 0) == UNSTABLE
    groups.restart()
    assert groups.fetched("orders") == 1
    assert groups.machine.fetch_stable("g", "orders", 0) == UNSTABLE
    groups.end_transaction("commit", 7)
    assert groups.fetched("orders") == 5
    assert groups.fetched_stable("orders", 0, "g") == 5
    groups.restart()
    assert groups.fetched("orders") == 5


def test_offsets_of_an_aborted_transaction_never_count() -> None:
    groups = Groups()
    groups.commit(offset(value=1))
    groups.commit_in_transaction(7, offset(value=5), offset("other", 0, 6))
    groups.end_transaction("abort", 7)
    assert groups.fetched("orders") == 1
    assert groups.fetched_stable("orders", 0, "g") == 1
    assert groups.committed_partitions("g") == [("orders", 0)]
    groups.restart()


def test_the_events_of_a_transaction_name_their_producer() -> None:
    groups = Groups()
    groups.commit_in_transaction(7, offset(value=5))
    (written,) = groups.log
    assert isinstance(written, AppliedEvent)
    assert written.producer == ProducerIdentity(7, 0)
    assert isinstance(written.event, OffsetCommitted)


def test_only_what_is_pending_is_unstable() -> None:
    groups = Groups()
    groups.commit(offset("orders", 0, 1), offset("orders", 1, 2))
    groups.commit(offset("orders", 0, 3), group="other")
    groups.commit_in_transaction(7, offset("orders", 0, 9))
    assert groups.machine.fetch_stable("g", "orders", 0) == UNSTABLE
    assert groups.fetched_stable("orders", 1, "g") == 2
    assert groups.fetched_stable("orders", 0, "other") == 3


def test_a_marker_ends_everything_its_producer_has_pending_and_nothing_else() -> None:
    groups = Groups()
    groups.commit_in_transaction(7, offset("orders", 0, 1), group="one")
    groups.commit_in_transaction(7, offset("orders", 1, 2), group="two")
    groups.commit_in_transaction(8, offset("orders", 2, 3), group="one")
    groups.end_transaction("commit", 7)
    assert groups.fetched("orders", 0, "one") == 1
    assert groups.fetched("orders", 1, "two") == 2
    assert groups.fetched("orders", 2, "one") == -1
    assert groups.machine.fetch_stable("one", "orders", 2) == UNSTABLE
    groups.end_transaction("commit", 7)  # once more changes nothing
    groups.end_transaction("abort", 8)
    assert groups.fetched_stable("orders", 2, "one") == -1


def test_a_partition_is_unstable_until_the_last_transaction_on_it_has_ended() -> None:
    groups = Groups()
    groups.commit_in_transaction(7, offset(value=1))
    groups.commit_in_transaction(8, offset(value=2))
    groups.end_transaction("commit", 8)
    assert groups.machine.fetch_stable("g", "orders", 0) == UNSTABLE
    groups.end_transaction("commit", 7)
    # The commit of 7 is the earlier one in the log, whichever marker came last.
    assert groups.fetched_stable("orders", 0, "g") == 2


def test_a_plain_commit_after_one_in_a_transaction_counts() -> None:
    groups = Groups()
    groups.commit_in_transaction(7, offset(value=5))
    groups.commit(offset(value=6))
    groups.end_transaction("commit", 7)
    assert groups.fetched("orders") == 6
    groups.restart()
    assert groups.fetched("orders") == 6


def test_a_commit_in_a_transaction_after_a_plain_one_counts() -> None:
    groups = Groups()
    groups.commit(offset(value=6))
    groups.commit_in_transaction(7, offset(value=5))
    groups.end_transaction("commit", 7)
    assert groups.fetched("orders") == 5
    groups.restart()
    assert groups.fetched("orders") == 5


def test_the_last_of_several_commits_in_a_transaction_counts() -> None:
    groups = Groups()
    groups.commit_in_transaction(7, offset(value=5))
    groups.commit_in_transaction(7, offset(value=4))
    groups.end_transaction("commit", 7)
    assert groups.fetched("orders") == 4


def test_an_offset_that_was_deleted_is_not_brought_back_by_a_marker() -> None:
    groups = Groups()
    groups.commit(offset(value=1))
    groups.commit_in_transaction(7, offset(value=5), offset("other", 0, 6))
    groups.delete_offsets(("orders", 0))
    groups.end_transaction("commit", 7)
    assert groups.fetched("orders") == -1
    assert groups.fetched("other") == 6
    groups.restart()
    assert groups.fetched("orders") == -1


# Who may commit in a transaction


def test_clients_that_do_not_say_who_they_are_commit_whatever_the_group_does() -> None:
    groups = Groups()
    assert groups.commit_in_transaction(7, offset()) == [NONE]
    groups.form("a")
    assert groups.commit_in_transaction(7, offset()) == [NONE]
    groups.stabilize()
    assert groups.commit_in_transaction(7, offset()) == [NONE]


def test_the_group_does_not_have_to_be_stable_for_a_transaction() -> None:
    groups = Groups()
    groups.form("a")
    assert groups.state() is ClassicState.COMPLETING_REBALANCE
    assert groups.commit_in_transaction(7, offset(), generation=1, member_id="a") == [NONE]


@pytest.mark.parametrize(
    ("generation", "member_id", "instance", "error"),
    [
        (1, "a", None, [NONE]),
        (1, "b", "i", [NONE]),
        (0, "a", None, OLD),
        (-1, "a", None, OLD),
        (1, "stranger", None, UNKNOWN),
        (1, "", None, UNKNOWN),
        (1, "a", "i", ErrorCode.FENCED_INSTANCE_ID),
        (-1, "", "i", ErrorCode.FENCED_INSTANCE_ID),
        (1, "b", "j", UNKNOWN),
    ],
)
def test_clients_that_say_who_they_are_have_to_be_members(
    generation: int, member_id: str, instance: str | None, error: ErrorCode | list[ErrorCode]
) -> None:
    groups = Groups()
    groups.form_stable("a", "i#b")
    asked = groups.commit_in_transaction(
        7, offset(), generation=generation, member_id=member_id, instance=instance
    )
    assert asked == error
    plain = groups.commit(offset(), generation=generation, member_id=member_id, instance=instance)
    assert plain == error


def test_a_generation_of_a_group_that_does_not_exist_is_refused() -> None:
    groups = Groups()
    refused = groups.commit_in_transaction(7, offset(), generation=1, member_id="a")
    assert refused is ErrorCode.GROUP_ID_NOT_FOUND


def test_metadata_that_is_too_large_costs_only_its_partition() -> None:
    groups = Groups(metadata_max_bytes=2)
    errors = groups.commit_in_transaction(7, offset(metadata="xyz"), offset("other", 0, 2, "xy"))
    assert errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE, NONE]
    groups.end_transaction("commit", 7)
    assert groups.committed_partitions("g") == [("other", 0)]
