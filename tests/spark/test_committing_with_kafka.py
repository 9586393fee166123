"""The commit core with Apache Kafka: its transactions, groups and fences are those of our broker."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.apache_kafka.conftest import kafka_address, kafka_jars
from tests.spark.driver import TAKEN_OVER
from tests.spark.pipelines import Pipe
from tests.spark.test_committing import stop_at, wake

from ottla.spark.sink.commit_session import CommitPoint

__all__ = ["kafka_address", "kafka_jars"]


@pytest.fixture
def kafka_pipe(kafka_address: str, ottla_topic_name: Callable[[], str], tmp_path: Path) -> Pipe:
    made = Pipe(kafka_address, ottla_topic_name(), tmp_path)
    made.create()
    made.feed(100)
    return made


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(
            point.name,
            marks=[] if point.name == "SENT_MARKER" else [pytest.mark.campaign],
        )
        for point in CommitPoint
    ],
)
def test_a_driver_that_dies_at_any_step_loses_and_repeats_nothing(
    kafka_pipe: Pipe, point: str
) -> None:
    code, said = kafka_pipe.run(at=(point, 1, "die"))
    assert code == -signal.SIGKILL, said
    kafka_pipe.check_whole()
    kafka_pipe.feed(50)
    code, said = kafka_pipe.run()
    assert code == 0, said
    kafka_pipe.check_done()


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("FENCED", marks=[pytest.mark.campaign]),
        pytest.param("SENT", marks=[pytest.mark.campaign]),
        "SENT_MARKER",
    ],
)
def test_a_zombie_that_wakes_late_changes_nothing(kafka_pipe: Pipe, point: str) -> None:
    zombie = stop_at(kafka_pipe, point)
    code, said = kafka_pipe.run()
    assert code == 0, said
    code, said = wake(zombie)
    assert code == TAKEN_OVER, said
    kafka_pipe.check_done()
