"""What a reset makes of committed offsets."""

from __future__ import annotations

import pytest

from ottla.admin import OffsetSpec
from ottla.inspection.offset_reset import (
    MovedOffset,
    NothingToShiftError,
    ResetTarget,
    ShiftBy,
    ToCommitted,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTime,
    offsets_to_list,
    plan_reset,
)
from ottla.model import TopicPartition

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
LISTED = {
    OffsetSpec.EARLIEST: {A: 10, B: 0},
    OffsetSpec.LATEST: {A: 50, B: 5},
    1000: {A: 20, B: -1},
    0: {A: 10, B: 0},
}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (ToEarliest(), {A: 10, B: 0}),
        (ToLatest(), {A: 50, B: 5}),
        (ToCommitted(), {A: 30, B: 5}),
        (ToTime(1000), {A: 20, B: 5}),
        (ToTime(-7), {A: 10, B: 0}),
        (ToOffset(4), {A: 10, B: 4}),
        (ToOffsets({A: 60, B: 1}), {A: 50, B: 1}),
    ],
)
def test_a_plan_has_only_offsets_that_exist(
    target: ResetTarget, expected: dict[TopicPartition, int]
) -> None:
    listed = {spec: LISTED[spec] for spec in offsets_to_list(target)}
    assert plan_reset("g", target, [A, B], {A: 30}, listed).offsets == expected


def test_a_shift_needs_a_committed_offset_and_stays_in_the_log() -> None:
    plan = plan_reset("g", ShiftBy(-25), [A], {A: 30}, LISTED)
    assert plan.offsets == {A: 10}
    assert plan.moved == [MovedOffset(A, 5, 10)]
    assert plan.moved[0].text == f"new offset (5) is lower than the earliest offset of {A}"
    with pytest.raises(NothingToShiftError, match="committed nothing for orders-1"):
        plan_reset("g", ShiftBy(1), [A, B], {A: 30}, LISTED)
