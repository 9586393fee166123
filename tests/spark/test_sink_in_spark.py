"""The exactly-once sink under Spark: the driver is killed at each step of a commit, and its last process may go on."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.pipelines import Pipe, records_of
from tests.spark.spark_runs import (
    all_through,
    check_agreement,
    checkpoint_of,
    crash,
    finish,
    run_spark,
)

import ottla
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
    crash(pipe, point, visit, deed)
    check_agreement(pipe)
    pipe.feed(40)
    finish(pipe)
    all_through(pipe)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_lost_checkpoint_goes_on_from_the_groups_offsets(pipe: Pipe) -> None:
    crash(pipe, "SENT", 3, "die")
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
    crash(pipe, "SENT", 2, "die", name="checkpoint", **session)
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
    crash(pipe, "SENT_MARKER", 2, "die", kind="stateful")
    pipe.feed(40)
    finish(pipe, kind="stateful")
    updates: dict[bytes, list[int]] = {}
    with ottla.Consumer(
        {"bootstrap.servers": pipe.servers, "isolation.level": "read_committed"}
    ) as consumer:
        for record in records_of(consumer, pipe.sink):
            updates.setdefault(record.key, []).append(int(record.value))
    # In this mode every micro-batch writes every key once.
    marker = pipe.marker()
    assert marker is not None
    assert {len(counts) for counts in updates.values()} == {marker.batch + 1}
    assert all(counts == sorted(counts) for counts in updates.values())
    expected = Counter(b"%d" % (number % 7) for number in range(pipe.count))
    assert {key: counts[-1] for key, counts in updates.items()} == dict(expected)
    assert pipe.group_offsets() != {}


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_source_of_another_kind_needs_the_marker_only(pipe: Pipe) -> None:
    crash(pipe, "ENDED", 3, "go on", kind="rate", seconds=60)
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
