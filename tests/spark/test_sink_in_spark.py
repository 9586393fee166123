"""The exactly-once sink under Spark: the driver is killed at each step of a commit, and its last process may go on."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.pipelines import Pipe
from tests.spark.spark_runs import (
    all_through,
    check_agreement,
    checkpoint_of,
    finish,
    run_spark,
    wait_until,
)

from ottla.spark.committing import CommitPoint

ONCE = {CommitPoint.LOOKED, CommitPoint.FENCED, CommitPoint.LOOKED_AGAIN}
# In every test run one of each kind; the others in the campaign.
QUICK = {("SENT_MARKER", "die")}
CASES = [
    pytest.param(
        *(point.name, deed),
        marks=[] if (point.name, deed) in QUICK else [pytest.mark.campaign],
        id=f"{point.name}-{deed}",
    )
    for point in CommitPoint
    for deed in ("die", "go on")
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("point", "deed"), CASES)
def test_a_driver_killed_at_any_step_of_a_commit_loses_and_repeats_nothing(
    pipe: Pipe, point: str, deed: str
) -> None:
    visit = 1 if CommitPoint[point] in ONCE else 2
    run = run_spark(pipe, crash=(point, visit, deed))
    assert run.returncode != 0, run.stdout
    wait_until(pipe, "died" if deed == "die" else "woke")
    check_agreement(pipe)
    pipe.feed(40)
    finish(pipe)
    all_through(pipe)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_lost_checkpoint_goes_on_from_the_groups_offsets(pipe: Pipe) -> None:
    assert run_spark(pipe, crash=("SENT", 3, "die")).returncode != 0
    check_agreement(pipe)
    shutil.rmtree(checkpoint_of(pipe))
    finish(pipe)
    all_through(pipe)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_checkpoint_that_only_the_session_knows_is_found(pipe: Pipe) -> None:
    root = str(pipe.folder)
    session: dict[str, Any] = {
        "checkpoint": None,
        "conf": {"spark.sql.streaming.checkpointLocation": root},
    }
    assert run_spark(pipe, crash=("SENT", 2, "die"), name="checkpoint", **session).returncode != 0
    check_agreement(pipe)
    finish(pipe, name="checkpoint", **session)
    all_through(pipe)
    # Without a name Spark makes one up, for a checkpoint that nobody will find again.
    pipe.feed(20)
    finish(pipe, **session)
    assert Counter(int(value.split()[1]) for value in pipe.output()) == Counter(range(pipe.count))


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_counts_of_a_stateful_query_are_right_after_a_crash(pipe: Pipe) -> None:
    assert run_spark(pipe, crash=("SENT_MARKER", 2, "die"), kind="stateful").returncode != 0
    pipe.feed(40)
    finish(pipe, kind="stateful")
    values = [int(value) for value in pipe.output()]
    expected = Counter(number % 7 for number in range(pipe.count))
    # Each update of a key is larger than the one before, and the last one is the whole count.
    assert sorted(values, reverse=True)[: len(expected)] == sorted(expected.values(), reverse=True)
    assert pipe.group_offsets() != {}


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_source_of_another_kind_needs_the_marker_only(pipe: Pipe) -> None:
    run_spark(pipe, crash=("ENDED", 3, "go on"), kind="rate", seconds=25)
    wait_until(pipe, "woke")
    finish(pipe, kind="rate", seconds=15)
    values = sorted(int(value) for value in pipe.output())
    marker = pipe.marker()
    assert marker is not None
    assert values == list(range(20 * (marker.batch + 1)))
    assert pipe.group_offsets() == {}


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_continuous_processing_is_refused_with_a_reason(pipe: Pipe) -> None:
    run = run_spark(pipe, kind="rate", trigger="continuous", seconds=30)
    assert run.returncode == 5
    assert "continuous" in run.stdout.lower()
    assert pipe.output() == []


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_asynchronous_progress_is_refused_with_a_reason(pipe: Pipe) -> None:
    run = run_spark(pipe, write={"asyncProgressTrackingEnabled": "true"}, kind="rate", seconds=30)
    assert run.returncode == 5
    assert "asyncprogresstrackingenabled is refused" in run.stdout.lower() or "async" in run.stdout
    assert pipe.output() == []


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_at_least_once_writes_everything_and_tells_the_lag(pipe: Pipe) -> None:
    finish(pipe, write={"delivery": "at-least-once"})
    assert Counter(int(value.split()[1]) for value in pipe.output()) == Counter(range(pipe.count))
    planned = sorted(
        (checkpoint_of(pipe) / "offsets").glob("[0-9]*"), key=lambda each: int(each.name)
    )
    end = json.loads(planned[-1].read_text().splitlines()[2])["topics"][pipe.source]
    assert pipe.group_offsets() == {int(each): at for each, at in end.items()}
