"""The APIs of what a broker has not enabled, of features, quorum, loggers and replicas answer as Apache Kafka does.

Kafka's answers are recorded in `answers.txt`; the campaign compares the record with a running Kafka. With
OTTLA_WRITE_FACTS=1 it is written instead.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests import maven
from tests.apache_kafka.programs import running_kafka
from tests.apache_kafka.sharing import OPTIONS
from tests.kafka_tools.requests import answer_to, create_topic, questions
from tests.kafka_tools.test_side_by_side import FEATURES_OFF

import ottla
from ottla.client.raw import RawConnection

RECORDED = Path(__file__).with_name("answers.txt")


def answers_of(address: str) -> list[str]:
    with RawConnection(address) as connection:
        create_topic(connection)
        return [f"{one.title}\n    {answer_to(connection, one)}" for one in questions()]


def test_our_broker_answers_as_kafka_does(tmp_path: Path) -> None:
    with ottla.Broker(data_dir=tmp_path / "data") as broker:
        found = answers_of(broker.bootstrap_servers)
    assert found == RECORDED.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    assert len(found) > 100


@pytest.mark.campaign
def test_the_record_is_what_kafka_answers(tmp_path: Path) -> None:
    jars = maven.kafka_server(tmp_path)
    with running_kafka(jars, tmp_path, OPTIONS, FEATURES_OFF) as address:
        text = "\n\n".join(answers_of(address)) + "\n"
    if os.environ.get("OTTLA_WRITE_FACTS"):
        RECORDED.write_text(text, encoding="utf-8")
    assert text == RECORDED.read_text(encoding="utf-8")
