"""What a reset of offsets is said to do: what is read again, what is skipped, what is taken instead."""

from __future__ import annotations

import pytest

from ottla.admin import OffsetSpec
from ottla.console.groups.reset_plans import ResetOffsetsPlan, reset_plan
from ottla.inspection.offset_reset import ResetPlan, ToOffset, plan_reset
from ottla.model import TopicPartition

Listed = dict[int, dict[TopicPartition, int]]
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def plan(committed: int | None, to: int, start: int = 0, end: int = 10) -> ResetOffsetsPlan:
    listed: Listed = {OffsetSpec.EARLIEST: {FIRST: start}, OffsetSpec.LATEST: {FIRST: end}}
    before = {} if committed is None else {FIRST: committed}
    return reset_plan(
        "g", plan_reset("g", ToOffset(to), [FIRST], before, listed), before, listed, []
    )


@pytest.mark.parametrize(
    ("committed", "to", "start", "after", "again", "skipped"),
    [
        (6, 2, 0, 2, 4, 0),
        (6, 9, 0, 9, 0, 3),
        (6, 6, 0, 6, 0, 0),
        (None, 4, 0, 4, 0, 4),
        (None, 0, 0, 0, 0, 0),
        # What retention has deleted is neither read again nor skipped.
        (6, 2, 5, 5, 1, 0),
        (2, 9, 5, 9, 0, 4),
        (2, 0, 5, 5, 0, 0),
        # Beyond the end.
        (6, 99, 0, 10, 0, 4),
        (99, 4, 0, 4, 6, 0),
    ],
)
def test_what_is_read_again_and_skipped(
    committed: int | None, to: int, start: int, after: int, again: int, skipped: int
) -> None:
    found = plan(committed, to, start)
    (row,) = found.partitions
    assert (row.after_offset, row.again_count, row.skipped_count) == (after, again, skipped)
    assert (found.again_count, found.skipped_count) == (again, skipped)
    assert found.changed_count == (committed != after)
    assert (row.wanted_offset != after) == any("nearest" in step for step in found.steps)


def test_topics_that_are_gone_are_named() -> None:
    listed: Listed = {OffsetSpec.EARLIEST: {SECOND: 0}, OffsetSpec.LATEST: {SECOND: 3}}
    found = reset_plan("g", ResetPlan({SECOND: 3}), {SECOND: 1}, listed, ["lost"])
    assert (
        "The topic lost does not exist: what the group has committed for it stays." in found.steps
    )
