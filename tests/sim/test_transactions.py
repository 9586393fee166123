"""Transactions through crashes at every named place, and deliberate bugs, which have to be found."""

from __future__ import annotations

import pytest
from tests.sim.run import SeedFailedError, play_seeds
from tests.sim.txn_bugs import BUGS, Bug, seeds_for

CHUNKS = 4
SEEDS_PER_CHUNK = 250


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_transactions_are_whole_and_nodes_die_at_every_place(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK
    play_seeds("transactions", range(first, first + SEEDS_PER_CHUNK)).check("transactions")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_deliberate_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(SeedFailedError, match=r"python -m tests\.sim\.run transactions --seed \d"):
        play_seeds("transactions", seeds_for(bug))
