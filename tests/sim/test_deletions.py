"""Offsets go with their topics, through moves, crashes and bad disks; and deliberate bugs, which have to be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.run import SeedFailedError, play_seeds

from ottla.broker import cluster
from ottla.broker.together import together
from ottla.core.group.machine import GroupMachine

CHUNKS = 2
SEEDS_PER_CHUNK = 150
BUG_SEEDS = 100


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_new_topic_knows_nothing_of_the_old_one(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK
    play_seeds("deletions", range(first, first + SEEDS_PER_CHUNK))


def offsets_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "forget_topic", lambda machine, turn, topic, deleted_at_ms: None)


def offsets_of_the_new_topic_go_too(patch: pytest.MonkeyPatch) -> None:
    original = GroupMachine.forget_topic

    def forget(machine: GroupMachine, turn: Any, topic: str, deleted_at_ms: int) -> None:
        original(machine, turn, topic, 1 << 62)

    patch.setattr(GroupMachine, "forget_topic", forget)


def it_is_tried_only_once(patch: pytest.MonkeyPatch) -> None:
    """Coordinators that could not be asked keep what they have."""

    def together_at_any_rate(parts: Any, done: Any) -> Any:
        return together(parts, lambda found: done([None]))

    patch.setattr(cluster, "together", together_at_any_rate)


@pytest.mark.parametrize(
    "bug", [offsets_stay, offsets_of_the_new_topic_go_too, it_is_tried_only_once]
)
def test_a_deliberate_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(SeedFailedError, match=r"python -m tests\.sim\.run deletions --seed \d"):
        play_seeds("deletions", range(BUG_SEEDS))
