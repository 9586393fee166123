"""Copiers and the broker are killed while a topic is copied: every record has exactly one copy."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.copies import Work
from tests.faults.copying_run import run
from tests.faults.processes import fault_rng


@pytest.mark.timeout(300)
def test_five_thousand_records_have_one_copy_each_over_six_kills(tmp_path: Path) -> None:
    figures = run(tmp_path, fault_rng(), Work(4, 1_250), kill_count=6)
    print(figures)
    assert (figures.broker_kills, figures.copier_kills) == (3, 3)


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_records_have_one_copy_each_over_sixty_kills(tmp_path: Path) -> None:
    figures = run(tmp_path, fault_rng(), Work(4, 25_000), kill_count=60)
    print(figures)
    assert (figures.broker_kills, figures.copier_kills) == (30, 30)
    # Else no kill met an open transaction.
    assert figures.aborted_records > 0


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocols", [("consumer", "consumer"), ("classic", "consumer")])
def test_copiers_with_the_new_group_protocol_copy_each_record_once(
    tmp_path: Path, protocols: tuple[str, str]
) -> None:
    figures = run(tmp_path, fault_rng(), Work(4, 2_500), kill_count=10, protocols=protocols)
    print(figures)
    assert (figures.broker_kills, figures.copier_kills) == (5, 5)
