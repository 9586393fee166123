"""The exactly-once sink under Spark while its driver dies: at each step of a commit, with every kind of query."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark import verdict
from tests.spark.scenes import Scene
from tests.spark.sessions import needs_spark

import ottla
from ottla import Broker
from ottla.spark.sink.commit_session import CommitPoint
from ottla.spark.sink.progress import marker_group, transactional_id

pytestmark = pytest.mark.timeout(1500)

ONCE = {CommitPoint.LOOKED, CommitPoint.FENCED, CommitPoint.LOOKED_AGAIN}
# In every test run the demo kills a driver, in the middle of a transaction if it catches one: tests/cli/test_demo.py.
CASES = [
    pytest.param(point.name, deed, id=f"{point.name}-{deed}")
    for point in CommitPoint
    for deed in ("die", "go on")
]


def visit_of(point: CommitPoint) -> int:
    """The second micro-batch, or the first one where only that one comes by."""
    return 1 if point in ONCE else 2


@pytest.mark.campaign
@pytest.mark.parametrize(("point", "deed"), CASES)
def test_a_driver_killed_at_any_step_of_a_commit_loses_and_repeats_nothing(
    scene: Scene, point: str, deed: str
) -> None:
    scene.crash(point, visit_of(CommitPoint[point]), deed)
    # What dies in the first commit leaves nothing; in the second, one micro-batch or two.
    is_committed = point == "ENDED" or deed == "go on"
    assert scene.check_whole() == visit_of(CommitPoint[point]) - 1 + is_committed
    scene.feed(40)
    scene.finish()
    scene.check_done()


@pytest.mark.campaign
def test_a_lost_checkpoint_goes_on_from_the_groups_offsets(scene: Scene) -> None:
    scene.crash("SENT", 3, "die")
    assert scene.check_whole() == 2
    scene.checkpoints.append("another")
    scene.finish()
    scene.check_done()


@pytest.mark.campaign
def test_a_checkpoint_that_only_the_session_knows_is_found(scene: Scene) -> None:
    session: dict[str, Any] = {
        "checkpoint": None,
        "conf": {"spark.sql.streaming.checkpointLocation": str(scene.folder)},
    }
    scene.crash("SENT", 2, "die", name="checkpoint", **session)
    assert scene.check_whole() == 1
    scene.finish(name="checkpoint", **session)
    scene.check_done()
    # Without a name Spark makes one up, for a checkpoint that nobody will find again.
    scene.feed(20)
    before = set(scene.folder.iterdir())
    scene.finish(**session)
    (made,) = [each for each in set(scene.folder.iterdir()) - before if each.name.count("-") > 1]
    scene.checkpoints.append(made.name)
    scene.check_done()


@pytest.mark.campaign
def test_a_checkpoint_that_is_older_than_the_output_is_refused(scene: Scene) -> None:
    scene.crash("ENDED", 1, "die")
    shutil.copytree(scene.folder / "checkpoint", scene.folder / "backup")
    scene.finish()
    scene.check_done()
    said = scene.fail(checkpoint=str(scene.folder / "backup"))
    assert "the checkpoint is older than the output" in said
    scene.check_done()


@pytest.mark.campaign
@pytest.mark.parametrize("point", ["SENT_MARKER", "ENDED"])
@pytest.mark.parametrize("kind", ["counted", "distinct"])
def test_state_is_right_after_a_crash(scene: Scene, kind: str, point: str) -> None:
    scene.shape = getattr(verdict, kind)
    scene.crash(point, 2, "die", kind=kind)
    assert scene.check_whole() == (2 if point == "ENDED" else 1)
    scene.feed(40)
    scene.crash(point, 2, "go on", kind=kind)
    scene.check_whole()
    scene.feed(40)
    scene.finish(kind=kind)
    scene.check_done()


@pytest.mark.campaign
@pytest.mark.parametrize("point", ["SENT_MARKER", "ENDED"])
def test_a_source_of_another_kind_needs_the_marker_only(scene: Scene, point: str) -> None:
    scene.shape = verdict.rated
    scene.crash(point, 3, "die", kind="rated", trigger="always")
    assert scene.check_whole() == (3 if point == "ENDED" else 2)
    run = scene.start(kind="rated", trigger="always")
    while scene.output_count() < 200:
        assert run.process.poll() is None, run.said()
    assert run.stop() == 0, run.said()
    assert scene.check_done() >= 10


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["copied", "joined"])
@pytest.mark.parametrize("point", ["SENT_SOURCE_OFFSETS", "ENDED"])
def test_two_sources_agree_after_a_crash(
    spark_broker: Broker,
    ottla_topic_name: Callable[[], str],
    tmp_path: Path,
    kind: str,
    point: str,
) -> None:
    needs_spark()
    name = ottla_topic_name()
    scene = Scene(
        *(spark_broker.bootstrap_servers, name, tmp_path),
        sources=[f"{name}-a", f"{name}-b"],
        shape=getattr(verdict, kind),
    )
    scene.create()
    scene.feed(120)
    try:
        scene.crash(point, 2, "die", kind=kind)
        assert scene.check_whole() == (2 if point == "ENDED" else 1)
        scene.feed(40)
        scene.finish(kind=kind)
        scene.check_done()
        if kind == "copied":
            # Both sources find their offsets in the group.
            scene.feed(40)
            scene.checkpoints.append("another")
            scene.finish(kind=kind)
            scene.check_done()
    finally:
        scene.clean_up()


@pytest.mark.campaign
@pytest.mark.parametrize("point", ["SENT_MARKER", "ENDED"])
def test_source_and_sink_may_be_on_two_clusters(
    spark_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path, point: str
) -> None:
    needs_spark()
    with ottla.Broker() as far:
        scene = Scene(
            spark_broker.bootstrap_servers,
            ottla_topic_name(),
            tmp_path,
            source_servers=far.bootstrap_servers,
        )
        scene.create()
        scene.feed(150)
        try:
            scene.crash(point, 2, "die")
            assert scene.check_whole() == (2 if point == "ENDED" else 1)
            scene.feed(40)
            scene.finish()
            scene.check_done()
        finally:
            scene.clean_up()


@pytest.mark.campaign
def test_an_expired_marker_is_an_error_that_names_the_option(scene: Scene) -> None:
    scene.crash("BEGUN", 2, "die")
    assert scene.check_whole() == 1
    with ottla.Admin(bootstrap_servers=scene.servers) as admin:
        # A transaction that is open keeps the group; expiry would wait for its end too.
        admin.fence_producers([transactional_id(scene.name)])
        admin.delete_consumer_groups([marker_group(scene.name), scene.name])
    said = scene.fail()
    assert "ProgressError" in said
    assert "failOnUnknownProgress=false" in said
    assert "offsets.retention.minutes" in said
    scene.finish(write={"failOnUnknownProgress": "false"})
    scene.check_done()


@pytest.mark.campaign
def test_at_least_once_writes_everything_and_tells_the_lag(scene: Scene) -> None:
    scene.finish(write={"delivery": "at-least-once"})
    inputs = verdict.records(scene.servers, scene.sources)
    (expected,) = verdict.copied([inputs])
    assert {each.value for each in verdict.records(scene.servers, [scene.sink])} == set(expected)
    planned = verdict.planned_in(scene.folder / "checkpoint", 1)
    assert scene.checked.group_offsets() == planned[-1].ends
    assert json.loads((scene.folder / "checkpoint" / "metadata").read_text())["id"]
