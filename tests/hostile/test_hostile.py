"""Attacks in short: nobody else waits, memory stays small, SIGTERM is obeyed, and nothing acknowledged is lost.

The campaign has the same attacks in full: `CAMPAIGN_PARTS=hostile make campaign`.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.hostile.attacks import ATTACKS
from tests.hostile.run import attack_once
from tests.hostile.target import Target

# Twice what the campaign allows, for machines on which the suite is not alone. The measure leaves out what the loop's
# thread waited for a processor.
LIMIT_SECONDS = 0.2
PATIENCE_SECONDS = 40.0
STOP_SECONDS = 20.0
MEMORY_BYTES = 256 << 20
# Together they keep a broker busy in every way for some seconds.
MIXED = ("pipelined", "fetch-elements", "half-open", "sizes", "comings-and-goings", "metrics")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In memory where that is possible: what a sync takes on a busy disk is no client's doing."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and shutil.disk_usage(memory).free >= MEMORY_BYTES):
        yield tmp_path_factory.mktemp("hostile")
        return
    with tempfile.TemporaryDirectory(prefix="ottla-hostile-", dir=memory) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def target(folder: Path) -> Iterator[Target]:
    """One broker for all attacks: what one leaves behind must not help the next."""
    made = Target(folder, PATIENCE_SECONDS)
    made.start()
    try:
        yield made
    finally:
        made.kill()
        made.close_all()


@pytest.mark.parametrize("name", list(ATTACKS))
def test_nobody_else_waits_for_a_hostile_client(target: Target, name: str) -> None:
    result = attack_once(target, ATTACKS[name], ATTACKS[name].short, LIMIT_SECONDS)
    if result.wrong:
        target.close_all()
        target.kill()
        target.start()  # what held the loop would be taken for the doing of attacks that follow
    assert not result.wrong, result


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Target]:
    """A broker that several clients attack at once, for as long as it lives."""
    made = Target(tmp_path, PATIENCE_SECONDS)
    made.start()
    is_over = threading.Event()

    def attack(name: str) -> None:
        while not is_over.is_set() and made.process.is_running:
            with suppress(OSError, AssertionError, IndexError):
                ATTACKS[name].run(made, ATTACKS[name].short)

    attacking = [threading.Thread(target=attack, args=(name,), daemon=True) for name in MIXED]
    for each in attacking:
        each.start()
    time.sleep(1.0)
    try:
        yield made
    finally:
        is_over.set()
        made.kill()
        made.close_all()
        for each in attacking:
            each.join(PATIENCE_SECONDS)


def test_a_broker_under_attack_obeys_sigterm(attacked: Target) -> None:
    assert attacked.stop(STOP_SECONDS) is not None, "SIGTERM was ignored"


def test_what_was_acknowledged_under_attack_survives_a_kill(attacked: Target) -> None:
    assert attacked.probe is not None
    assert attacked.probe.go_on(20, PATIENCE_SECONDS), attacked.probe.failure
    attacked.kill()
    assert len(attacked.acknowledged) >= 25
    attacked.start()  # which looks for all of it
