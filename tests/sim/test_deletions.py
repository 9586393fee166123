"""Offsets go with their topics, through moves, crashes and bad disks; and deliberate bugs, which have to be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.run import SeedFailedError, play_seed, play_seeds

from ottla.broker import topic_deletion
from ottla.broker.requests.gather_responses import respond_to_all
from ottla.core.group.events import OffsetCommitted
from ottla.core.group.machine import GroupMachine
from ottla.errors import ErrorCode

CHUNKS = 4
SEEDS_PER_CHUNK = 75
BUG_SEEDS = 100

# Seeds that found something, and what that was.
FOUND = {
    770001788: "a node that was stopped twice ran late callbacks later than newer ones: a fault of the simulator"
}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_new_topic_knows_nothing_of_the_old_one(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK
    play_seeds("deletions", range(first, first + SEEDS_PER_CHUNK))


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    play_seed("deletions", seed)


def offsets_stay(patch: pytest.MonkeyPatch) -> None:
    def forget(machine: GroupMachine, turn: Any, topic: str, deleted_at_ms: int) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(GroupMachine, "forget_topic", forget)


def offsets_of_the_new_topic_go_too(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "_is_left_over", lambda machine, kept, deleted_at_ms: True)


def the_clock_tells_of_which_topic_an_offset_is(patch: pytest.MonkeyPatch) -> None:
    def is_left_over(machine: GroupMachine, kept: OffsetCommitted, deleted_at_ms: int) -> bool:
        return kept.committed_at_ms <= deleted_at_ms

    patch.setattr(GroupMachine, "_is_left_over", is_left_over)


def it_is_tried_only_once(patch: pytest.MonkeyPatch) -> None:
    """Coordinators that could not be asked keep what they have."""

    def respond_at_any_rate(parts: Any, done: Any) -> Any:
        return respond_to_all(parts, lambda found: done([[]]))

    patch.setattr(topic_deletion, "respond_to_all", respond_at_any_rate)


@pytest.mark.parametrize(
    "bug",
    [
        offsets_stay,
        offsets_of_the_new_topic_go_too,
        the_clock_tells_of_which_topic_an_offset_is,
        it_is_tried_only_once,
    ],
)
def test_a_deliberate_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(SeedFailedError, match=r"python -m tests\.sim\.run deletions --seed \d"):
        play_seeds("deletions", range(BUG_SEEDS))
