"""Groups of the new protocol through everything; and deliberate bugs, which have to be found."""

from __future__ import annotations

import pytest
from tests.sim.consumer_group_bugs import CONSUMER_BUGS
from tests.sim.group_bugs import Bug
from tests.sim.run import SeedFailedError, play_seed, play_seeds

CHUNKS = 4
SEEDS_PER_CHUNK = 10
BUG_SEEDS = 300
# The bugs that a few seeds find; `make campaign` looks for all of them.
QUICK_BUGS = 6

# Seeds that found something, and what that was.
FOUND = {
    24: "classic members that were alone in a group left the partitions of those that had gone to nobody",
    224: "an upgrade of which half was written lost the members of a group",
    100014: "a group that was upgraded while its classic members were to be assigned anew never was",
    886: "a member gave up a pattern for one that matched no topic, and nobody got its partitions",
    707270: "a group that was downgraded and upgraded again gave a partition to two members",
    7: "half of a removal was written, and was forgotten when the log was compacted",
}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_consumer_groups_keep_their_promises(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK
    play_seeds("consumer_groups", range(first, first + SEEDS_PER_CHUNK))


@pytest.mark.campaign
@pytest.mark.timeout(7_200)
def test_consumer_groups_keep_their_promises_in_10_000_worlds() -> None:
    play_seeds("consumer_groups", range(10_000))


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    play_seed("consumer_groups", seed)


def find(bug: Bug, patch: pytest.MonkeyPatch) -> None:
    bug(patch)
    expected = r"python -m tests\.sim\.run consumer_groups --seed \d"
    with pytest.raises(SeedFailedError, match=expected):
        play_seeds("consumer_groups", range(BUG_SEEDS))


@pytest.mark.parametrize("bug", CONSUMER_BUGS[:QUICK_BUGS], ids=lambda bug: bug.__name__)
def test_a_deliberate_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    find(bug, monkeypatch)


@pytest.mark.campaign
@pytest.mark.parametrize("bug", CONSUMER_BUGS[QUICK_BUGS:], ids=lambda bug: bug.__name__)
def test_a_rarer_deliberate_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    find(bug, monkeypatch)
