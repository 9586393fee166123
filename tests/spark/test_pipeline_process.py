"""`ottla pipeline run` as operating systems and people see it: signals, exit codes, what it does about dead parts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark.pipeline_process import PipelineProcess, environment, parents, until
from tests.spark.sessions import needs_spark

import ottla
from ottla import Broker
from ottla.cli.demo.broker_process import BrokerProcess
from ottla.spark.sink.progress import transactional_id

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(600)]

HERE = ("--master", "local[2]")


@pytest.fixture
def pipeline(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> Iterator[PipelineProcess]:
    needs_spark()
    made = PipelineProcess(ottla_broker.bootstrap_servers, ottla_topic_name(), tmp_path)
    made.feed(300)
    yield made
    made.end()


def nothing_is_left(pids: list[int]) -> None:
    """Java and its workers end with their driver."""
    until(lambda: not {pid for pid, _ in parents()} & set(pids), "processes are left", 30)


def was_stopped(pipeline: PipelineProcess) -> bool:
    """Whether the last line says so, and of how many records Spark has told."""
    words = rf"{re.escape(pipeline.name)}: stopped( after \d+ records)?"
    return re.fullmatch(words, pipeline.said().splitlines()[-1]) is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_told_to_stop_it_ends_with_0_and_without_a_traceback(
    pipeline: PipelineProcess, number: signal.Signals
) -> None:
    pipeline.start(*HERE)
    pipeline.check_exactly_once()
    pids = pipeline.pids()
    if number is signal.SIGINT:
        pipeline.send_to_group(number)
    else:
        pipeline.send(number)
    assert pipeline.wait() == 0, pipeline.said()
    assert was_stopped(pipeline)
    assert "Traceback" not in pipeline.said()
    nothing_is_left(pids)
    assert not list(Path(pipeline.checkpoint).rglob(".*.crc")), "checksums cost time"


@pytest.mark.parametrize(
    ("number", "send", "words", "java_seconds"),
    [
        (signal.SIGTERM, PipelineProcess.send, (), 0.0),
        (signal.SIGINT, PipelineProcess.send_to_group, (), 0.0),
        # Service managers send it to all processes of a service: Java is gone before we could tell it.
        (signal.SIGTERM, PipelineProcess.send_to_group, ("-v",), 0.0),
        (signal.SIGTERM, PipelineProcess.send_to_group, ("-v",), 6.0),
    ],
    ids=["SIGTERM", "Ctrl-C", "SIGTERM for all at once", "SIGTERM for all later"],
)
def test_told_to_stop_while_spark_starts_it_ends_with_0(
    pipeline: PipelineProcess,
    number: signal.Signals,
    send: Callable[[PipelineProcess, signal.Signals], None],
    words: tuple[str, ...],
    java_seconds: float,
) -> None:
    pipeline.start(*HERE, *words)
    until(lambda: "starting" in pipeline.said(), pipeline.said())
    until(lambda: len(pipeline.pids()) > 1, "no child")
    time.sleep(java_seconds)
    pids = pipeline.pids()
    send(pipeline, number)
    assert pipeline.wait() == 0, pipeline.said()
    assert was_stopped(pipeline)
    assert "Traceback" not in pipeline.said()
    nothing_is_left(pids)
    assert "Exception" not in pipeline.said()


def test_when_java_dies_a_new_driver_takes_its_place(pipeline: PipelineProcess) -> None:
    pipeline.start(*HERE)
    pipeline.until_out(30)
    pid = pipeline.pid
    for _ in range(2):
        subprocess.run(["kill", "-9", str(pipeline.java())], check=True)
        pipeline.feed(60)
        pipeline.check_exactly_once()
    assert pipeline.pid == pid
    # A micro-batch was done in between: the second pause is as short as the first.
    assert pipeline.said().count("a new driver starts in 1 s") == 2
    pipeline.send(signal.SIGTERM)
    assert pipeline.wait() == 0, pipeline.said()
    assert "Traceback" not in pipeline.said()


def test_a_broker_that_was_away_is_waited_for(tmp_path: Path) -> None:
    needs_spark()
    broker = BrokerProcess(str(tmp_path))
    broker.start()
    pipeline = PipelineProcess(broker.address, "thirds", tmp_path)
    try:
        pipeline.feed(150)
        pipeline.start(*HERE)
        pipeline.until_out(50)
        broker.kill()
        until(lambda: "restarts" in pipeline.said(), pipeline.said())
        broker.start()
        pipeline.feed(150)
        pipeline.check_exactly_once()
        pipeline.send(signal.SIGTERM)
        assert pipeline.wait() == 0, pipeline.said()
        assert "Traceback" not in pipeline.said()
    finally:
        pipeline.end()
        broker.stop()


def test_taken_over_it_ends_with_1_and_one_line(pipeline: PipelineProcess) -> None:
    pipeline.start(*HERE)
    pipeline.check_exactly_once()
    with ottla.Producer(
        bootstrap_servers=pipeline.servers, transactional_id=transactional_id(pipeline.name)
    ) as other:
        other.init_transactions()
        before = pipeline.values()
        pipeline.feed(30)
        assert pipeline.wait() == 1
    assert "nother instance took over" in pipeline.said().splitlines()[-1]
    assert pipeline.said().splitlines()[-1].startswith("ottla: ")
    assert "Traceback" not in pipeline.said()
    assert pipeline.values() == before


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("transform=lambda df: df.select('nothing')", "nothing"),
        (
            "transform=lambda df: df.selectExpr('string(1 / (offset - offset)) AS value')",
            "DIVIDE_BY_ZERO",
        ),
    ],
    ids=["of the plan", "of a task"],
)
def test_an_error_of_the_program_is_one_line_and_exit_code_1(
    pipeline: PipelineProcess, tmp_path: Path, program: str, words: str
) -> None:
    (tmp_path / "bad.py").write_text(
        "from ottla.spark import Pipeline\n"
        f"Pipeline('{pipeline.name}', source='{pipeline.name}-in', sink='{pipeline.name}-out', {program}).run()\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "pipeline", "run", "bad.py", "-b", pipeline.servers, *HERE],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
        env=environment(),
        check=False,
    )
    assert done.returncode == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ottla: pipeline {pipeline.name} stopped: ")
    assert words in last
    assert "Traceback" not in done.stderr
