"""A short run with real clients against the real server; `python -m tests.history.run` makes long ones."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.history.round import SETTINGS, Round

DISTURBED_SECONDS = 5.0


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("setting", ["one", "one-ours", "shared"])
def test_transactions_hold_while_requests_are_late_and_processes_die(
    setting: str, tmp_path: Path
) -> None:
    seed = int(os.environ.get("HISTORY_SEED") or random.SystemRandom().randrange(1 << 31))
    print(f"HISTORY_SEED={seed}; the history is in {tmp_path}")
    report = Round(SETTINGS[setting], tmp_path / "run", seed).run(DISTURBED_SECONDS)
    print(report)
    assert report.anomalies == []
    assert report.counts["committed"] > 0
