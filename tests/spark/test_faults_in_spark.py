"""The exactly-once sink under Spark while brokers, tasks and other instances of the pipeline get in its way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.faults.processes import BrokerProcess, fault_rng
from tests.spark.dying_broker import PLACES, crash_at, revived
from tests.spark.program import FAILED, LEFT
from tests.spark.scenes import RUN_SECONDS, Scene, wait_until
from tests.spark.sessions import needs_spark
from tests.spark.verdict import Transactions
from tests.waiting import in_time

from ottla import Broker
from ottla.broker.crashpoints import CrashPoint

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(1500)]

ONCE = ("LOOKED", "FENCED", "LOOKED_AGAIN")
SUPERVISED: dict[str, Any] = {"supervised": True, "trigger": "always"}
# Clients that give up soon, so that a query fails of an outage.
IMPATIENT: dict[str, Any] = {
    "read": {"kafka.request.timeout.ms": "1500", "kafka.default.api.timeout.ms": "2500"},
    "write": {
        "kafka.request.timeout.ms": "1500",
        "kafka.delivery.timeout.ms": "2500",
        "kafka.max.block.ms": "2500",
    },
}


def made(servers: str, name: str, folder: Path) -> Iterator[Scene]:
    """A pipeline with 150 records to go."""
    needs_spark()
    scene = Scene(servers, name, folder)
    scene.create()
    scene.feed(150)
    yield scene
    scene.clean_up()


@pytest.fixture
def scene(
    spark_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> Iterator[Scene]:
    yield from made(spark_broker.bootstrap_servers, ottla_topic_name(), tmp_path)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    folder = tmp_path / "broker"
    folder.mkdir()
    with BrokerProcess(folder) as started:
        yield started


@pytest.fixture
def mortal(
    broker: BrokerProcess, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> Iterator[Scene]:
    """As `scene`, on a broker that can be killed."""
    yield from made(broker.address, ottla_topic_name(), tmp_path)


def visit_of(point: str) -> int:
    return 1 if point in ONCE else 2


# Brokers


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_a_broker_that_dies_where_a_commit_writes_loses_and_repeats_nothing(
    broker: BrokerProcess, mortal: Scene, place: CrashPoint
) -> None:
    crash_at(broker, place)
    with revived(broker):
        mortal.finish()
    assert broker.starts == 3, "it died once"
    mortal.check_done()


def test_a_broker_that_is_killed_again_and_again_loses_and_repeats_nothing(
    broker: BrokerProcess, mortal: Scene
) -> None:
    random = fault_rng()
    run = mortal.start(**SUPERVISED)
    run.wait_for("batch 0")
    for _ in range(10):
        mortal.feed(100)
        time.sleep(random.uniform(0, 2.5))
        broker.kill()
        time.sleep(random.uniform(0, 1.5))
        broker.start()
    wait_until(lambda: mortal.output_count() == mortal.count, "all records")
    assert run.stop() == 0, run.said()[-6000:]
    mortal.check_done()


def test_a_pipeline_begins_again_after_a_longer_outage(
    broker: BrokerProcess, mortal: Scene
) -> None:
    run = mortal.start(**IMPATIENT, **SUPERVISED)
    run.wait_for("batch 2")
    broker.kill()
    run.wait_for("restarts in 4 s")
    broker.start()
    mortal.feed(100)
    wait_until(lambda: mortal.output_count() == mortal.count, "all records")
    assert run.stop() == 0, run.said()[-6000:]
    mortal.check_done()


def test_a_driver_and_a_broker_that_die_in_the_same_commit_lose_and_repeat_nothing(
    broker: BrokerProcess, mortal: Scene
) -> None:
    for point in ("SENT", "SENT_MARKER", "ENDED"):
        mortal.crash(point, 2, "die")
        broker.kill()
        broker.start()
        mortal.check_whole()
        mortal.feed(150)
    mortal.finish()
    mortal.check_done()


# Instances


def test_a_second_instance_takes_over_and_the_first_does_not_come_back(scene: Scene) -> None:
    first = scene.start(**SUPERVISED)
    first.wait_for("batch 2")
    scene.checkpoints.append("another")
    other = scene.start(**SUPERVISED)
    feed_until(scene, lambda: first.process.poll() is not None)
    assert first.wait() == LEFT, first.said()[-6000:]
    assert "PipelineTakenOverError: Another instance took over pipeline" in first.said()
    assert "restarts" not in first.said()
    wait_until(lambda: scene.output_count() == scene.count, "all records")
    assert other.stop() == 0, other.said()[-6000:]
    scene.check_done()


def test_of_two_instances_with_one_checkpoint_one_stays(scene: Scene) -> None:
    runs = [scene.start(**SUPERVISED), scene.start(**SUPERVISED)]
    feed_until(scene, lambda: any(each.process.poll() is not None for each in runs))
    loser, winner = sorted(runs, key=lambda each: each.process.poll() is None)
    assert loser.wait() == LEFT, loser.said()[-6000:]
    # By the checkpoint's files or by the marker, whichever it sees first.
    assert re.search("PipelineTakenOverError: .*nother instance took over", loser.said())
    assert "restarts" not in loser.said()
    wait_until(lambda: scene.output_count() == scene.count, "all records")
    assert winner.stop() == 0, winner.said()[-6000:]
    scene.check_done()


def feed_until(scene: Scene, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + RUN_SECONDS
    while not condition():
        in_time(deadline, "\n".join(run.said()[-3000:] for run in scene.runs))
        scene.feed(10)
        time.sleep(1)


@pytest.mark.parametrize("deed", ["halt", "freeze"])
@pytest.mark.parametrize("point", ["ENTERED", "LOOKED", "BEGUN", "SENT_MARKER", "ENDED"])
def test_an_instance_that_slept_through_another_one_changes_nothing_and_stops(
    scene: Scene, point: str, deed: str
) -> None:
    first = scene.start((point, visit_of(point), deed), **SUPERVISED)
    first.wait_at_step()
    scene.feed(40)
    scene.finish()
    scene.check_done()
    first.wake()
    assert first.wait() == LEFT, first.said()[-6000:]
    assert "restarts" not in first.said()
    assert "PipelineTakenOverError" in first.said()
    scene.check_done()


@pytest.mark.parametrize("point", ["ENTERED", "LOOKED", "FENCED", "BEGUN", "SENT", "SENT_MARKER"])
def test_a_committer_that_outlives_its_driver_and_wakes_late_changes_nothing(
    scene: Scene, point: str
) -> None:
    zombie = scene.crash(point, visit_of(point), "sleep")
    scene.feed(40)
    scene.finish()
    count = scene.check_done()
    before = Transactions.of(scene.servers, scene.sink)
    zombie.wake()
    zombie.wait_for_committer()
    assert scene.check_done() == count
    after = Transactions.of(scene.servers, scene.sink)
    assert (after.committed, after.aborted) == (before.committed, before.aborted)


@pytest.mark.parametrize(
    ("point", "visit", "takes_over"),
    [
        # Who has not fenced yet takes over when it wakes.
        ("ENTERED", 1, True),
        ("LOOKED", 1, True),
        # Who has been fenced is out; that of the second micro-batch has the session of the first.
        ("ENTERED", 2, False),
        ("FENCED", 1, False),
        ("SENT", 2, False),
        ("SENT_MARKER", 2, False),
    ],
)
def test_a_committer_that_wakes_while_its_successor_commits_repeats_nothing(
    scene: Scene, point: str, visit: int, takes_over: bool
) -> None:
    zombie = scene.crash(point, visit, "sleep")
    scene.feed(40)
    living = scene.start(("SENT_MARKER", 1, "halt"))
    living.wait_at_step()
    zombie.wake()
    zombie.wait_for_committer()
    scene.check_whole()
    living.wake()
    if takes_over:
        assert living.wait() == FAILED, living.said()[-6000:]
        assert "Another instance took over pipeline" in living.said()
        scene.check_whole()
        scene.finish()
    else:
        assert living.wait() == 0, living.said()[-6000:]
    scene.check_done()


# Tasks


def test_tasks_that_fail_and_are_tried_again_write_their_rows_once(scene: Scene) -> None:
    flags = scene.folder / "flags"
    flags.mkdir()
    trying = {"kind": "failing", "flags": str(flags), "master": "local[2,4]"}
    scene.crash("SENT", 2, "die", **trying)
    scene.check_whole()
    scene.feed(100)
    scene.finish(**trying)
    scene.check_done()
    # Both tasks of the four micro-batches that have such records failed in their first two attempts. Not all sixteen
    # flags need to be there: a Python process that does not start in time uses up an attempt, and leaves none.
    failed = [each.name.rpartition("-") for each in flags.iterdir()]
    assert {attempt for _, _, attempt in failed} <= {"0", "1"}
    tasks = {f"{batch}-{task}" for batch in (0, 1, 3, 4) for task in (0, 1)}
    assert {task for task, _, _ in failed} == tasks


def test_a_query_that_fails_with_its_tasks_writes_their_rows_once(scene: Scene) -> None:
    flags = scene.folder / "flags"
    flags.mkdir()
    failures = 0
    while True:
        told = len(list(flags.iterdir()))
        run = scene.start(kind="failing", flags=str(flags), master="local[2]")
        if run.wait() == 0:
            break
        # Of each failure a task left a flag that was told to fail, unless a process of Spark's did not start in time.
        if len(list(flags.iterdir())) > told:
            failures += 1
        else:
            assert "Python worker failed to connect back" in run.said(), run.said()[-6000:]
        scene.check_whole()
    scene.check_done()
    # Both tasks of both micro-batches that have records; together, or one after the other if Spark stops the second.
    assert sorted(each.name for each in flags.iterdir()) == ["0-0-0", "0-1-0", "1-0-0", "1-1-0"]
    assert 2 <= failures <= 4
