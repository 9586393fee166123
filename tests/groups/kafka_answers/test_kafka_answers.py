"""Our broker answers every script as Apache Kafka did when it was recorded, but for differences with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests import maven
from tests.groups.kafka_answers.brokers import OPTIONS, OttlaStage, kafka_stage, ottla_stage
from tests.groups.kafka_answers.differences import DIFFERENCES, expected
from tests.groups.kafka_answers.record import answers_of
from tests.groups.kafka_answers.repertoire import ALL, recorded
from tests.groups.kafka_answers.script import play

RECORDED = recorded()


class Stages:
    """A broker of ours for each set of options, started when it is needed."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._started: dict[str, OttlaStage] = {}

    def with_options(self, options: str) -> OttlaStage:
        if options not in self._started:
            self._started[options] = self._stack.enter_context(ottla_stage(options))
        return self._started[options]


@pytest.fixture(scope="module")
def stages() -> Iterator[Stages]:
    with ExitStack() as stack:
        yield Stages(stack)


@pytest.mark.parametrize("name", ALL)
def test_the_answers_are_kafkas(stages: Stages, name: str) -> None:
    script = ALL[name]
    answers = play(script, stages.with_options(script.broker))
    assert answers == expected(name, RECORDED[name])


def test_every_script_is_recorded_and_every_recording_has_its_script() -> None:
    assert set(RECORDED) == set(ALL)
    assert set(DIFFERENCES) <= set(ALL)
    assert len(ALL) > 200


@pytest.mark.campaign
@pytest.mark.parametrize("options", OPTIONS)
def test_apache_kafka_still_answers_so(options: str, tmp_path: Path) -> None:
    jars = maven.kafka_server(tmp_path.parent)
    scripts = [script for script in ALL.values() if script.broker == options]
    with kafka_stage(options, jars, tmp_path) as broker:
        answers = answers_of(broker, scripts)
    changed = {
        script.name: (said, RECORDED[script.name])
        for script, said in zip(scripts, answers, strict=True)
        if said != RECORDED[script.name]
    }
    assert not changed
