"""The commit core while the broker dies: at every place where it writes or sends something, and again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.processes import BrokerProcess, fault_rng
from tests.spark.dying_broker import PLACES, crash_at, revived
from tests.spark.pipelines import WAIT_SECONDS, Pipe

from ottla.broker.crashpoints import CrashPoint

QUICK = {CrashPoint.AFTER_PREPARE_APPEND}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    folder = tmp_path / "broker"
    folder.mkdir()
    made = BrokerProcess(folder)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def killed_pipe(broker: BrokerProcess, ottla_topic_name: Callable[[], str], tmp_path: Path) -> Pipe:
    made = Pipe(broker.address, ottla_topic_name(), tmp_path)
    made.create()
    made.feed(150)
    return made


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=[] if place in QUICK else [pytest.mark.campaign], id=place.name)
        for place in PLACES
    ],
)
def test_a_broker_that_dies_anywhere_loses_and_repeats_nothing(
    broker: BrokerProcess, killed_pipe: Pipe, place: CrashPoint
) -> None:
    crash_at(broker, place)
    with revived(broker):
        code, said = killed_pipe.run()
    assert code == 0, said
    assert broker.starts == 3, "it died once"
    killed_pipe.check_done()


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_a_broker_that_is_killed_again_and_again_loses_and_repeats_nothing(
    broker: BrokerProcess, killed_pipe: Pipe
) -> None:
    random = fault_rng()
    for _ in range(15):
        killed_pipe.feed(100)
        process = killed_pipe.start()
        time.sleep(random.uniform(0.2, 1.5))
        broker.kill()
        broker.start()
        said, trouble = process.communicate(timeout=2 * WAIT_SECONDS)
        assert process.returncode == 0, said + trouble
        killed_pipe.check_done()
