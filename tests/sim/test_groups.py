"""Consumer groups through moves, crashes, bad disks and a bad network; and deliberate bugs, which have to be found."""

from __future__ import annotations

import pytest
from tests.sim.group_bugs import BUGS, Bug
from tests.sim.run import SeedFailedError, play_seed, play_seeds

CHUNKS = 20
SEEDS_PER_CHUNK = 50
BUG_SEEDS = 200

# Seeds that found something, and what that was.
FOUND = {
    84: "a SyncGroup during a replay was answered COORDINATOR_LOAD_IN_PROGRESS, fatal to the Java client",
    586: "on a full disk the next coordinator showed offsets that were not durable yet, and were lost",
    725: "a partition stayed offline because somebody had set the wall clock back",
    920003982: "a heartbeat was held against a coordinator that was still loading: a fault of the check",
    950001070: "the late answer of a coordinator that was over was held against the next: a fault of the check",
}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_groups_keep_their_promises(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK
    play_seeds("groups", range(first, first + SEEDS_PER_CHUNK))


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    play_seed("groups", seed)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_deliberate_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(SeedFailedError, match=r"python -m tests\.sim\.run groups --seed \d"):
        play_seeds("groups", range(BUG_SEEDS))
