"""Client programs are compared round by round, and do what their names say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.bench_client_consume import QUESTION as CONSUME
from benchmarks.bench_client_produce import QUESTION as PRODUCE
from benchmarks.client_comparison import ClientReport, Question, Rounds
from benchmarks.client_task import Done
from benchmarks.frames import create_wide_topic
from benchmarks.peers import PARTITIONS_PER_TOPIC, Peer

import ottla

ROOT = Path(__file__).parents[2]


class SomePeer(Peer):
    name = "some"
    version = "1"

    def __init__(self) -> None:
        pass

    def command(self) -> list[str]:
        return []


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    rounds = Rounds()
    # In the second round the machine was busy for both.
    rounds.done["some", "ours"] = [Done(300, 1, 1), Done(30, 1, 1), Done(500, 1, 1)]
    rounds.done["some", "theirs"] = [Done(100, 1, 2), Done(10, 1, 2), Done(100, 1, 2)]
    assert rounds.ratio("some", "ours", "theirs") == 3
    assert rounds.cpu_us("some", "theirs") == 2 / 100 * 1e6


def test_the_table_has_a_line_for_each_program() -> None:
    question = Question("produce", "", ["ours", "theirs"], ["ours"], PRODUCE.prepare, PRODUCE.check)
    rounds = Rounds({("some", "ours"): [Done(600, 2, 3)], ("some", "theirs"): [Done(200, 2, 3)]})
    report = ClientReport(question, ["ours", "theirs"], [SomePeer()], 1, 2, 0.5, rounds)
    lines = report.markdown().splitlines()
    assert lines[2] == "| produce, broker some | records/s | ours / this | client CPU µs/record |"
    assert lines[4:] == ["| ours | 300 | 1.00 | 5,000 |", "| theirs | 100 | 3.00 | 15,000 |"]


def test_our_programs_are_among_those_of_their_question() -> None:
    for question in (PRODUCE, CONSUME):
        assert set(question.ours) < set(question.programs)


@pytest.mark.parametrize("program", ["ottla send", "ottla send_many", "confluent-kafka produce"])
def test_what_was_produced_is_there_and_can_be_consumed(
    program: str, ottla_broker: ottla.Broker, ottla_topic: str
) -> None:
    def run(module: str, name: str, records: int) -> Done:
        command = [sys.executable, "-m", module, name, ottla_broker.bootstrap_servers]
        done = subprocess.run(
            [*command, ottla_topic, "0.05", str(records)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            timeout=60,
            check=True,
        )
        return Done(**json.loads(done.stdout))

    create_wide_topic(ottla_broker.bootstrap_servers, ottla_topic, PARTITIONS_PER_TOPIC)
    produced = run("benchmarks.producing_clients", program, 0)
    assert produced.records > 0
    assert produced.seconds > 0
    consumed = run("benchmarks.consuming_clients", "ottla poll", produced.records)
    assert 0 < consumed.records <= produced.records
