"""Idempotent producers through crashes, moves and bad disks; and deliberate bugs, which have to be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.run import SeedFailedError, play_seed, play_seeds

from ottla.broker.partitions.replay import Replay
from ottla.broker.partitions.shard import Appended, Shard
from ottla.core.partition import Partition
from ottla.core.producer_state import APPEND, ProducerStates
from ottla.errors import ErrorCode

CHUNKS = 8
SEEDS_PER_CHUNK = 25
MUTANT_SEEDS = 60

# Seeds that found something, and what that was.
FOUND = {
    194558089: "records had the brokers' time, of before it was set back: a fault of the scenario",
    112: "an append that failed in the turn in which its time was over was acknowledged",
    8410785: "a node stood still for 14.7 s of the 15 s in which producers recover: a fault of the scenario",
}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_acknowledged_is_lost_or_doubled(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK
    play_seeds("producers", range(first, first + SEEDS_PER_CHUNK))


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    play_seed("producers", seed)


def shown_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Shard._settle_later

    def settle_later(shard: Shard, end_offset: int, size_bytes: int, settled: Any) -> None:
        shard._advance(end_offset, size_bytes)
        original(shard, end_offset, size_bytes, settled)

    monkeypatch.setattr(Shard, "_settle_later", settle_later)


def acknowledged_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Shard._append

    def append(shard: Shard, *args: Any) -> Any:
        appended = original(shard, *args)
        return appended._replace(settled=None) if isinstance(appended, Appended) else appended

    monkeypatch.setattr(Shard, "_append", append)


def repetitions_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "decide_append", lambda partition, header, verification: APPEND)


def producers_forgotten_by_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Replay._finish

    def finish(replay: Replay) -> None:
        original(replay)
        replay.partition.producers = ProducerStates()

    monkeypatch.setattr(Replay, "_finish", finish)


def failures_taken_for_success(monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.broker.requests import produce_replies

    monkeypatch.setattr(produce_replies, "_error_of", lambda settled: ErrorCode.NONE)


@pytest.mark.parametrize(
    "bug",
    [
        shown_before_durable,
        acknowledged_before_durable,
        repetitions_appended,
        producers_forgotten_by_a_replay,
        failures_taken_for_success,
    ],
)
def test_a_deliberate_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(SeedFailedError, match=r"python -m tests\.sim\.run producers --seed \d"):
        play_seeds("producers", range(MUTANT_SEEDS))
