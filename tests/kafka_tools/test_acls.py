"""A broker with an authorizer answers about ACLs as Apache Kafka does, to raw requests and to kafka-acls.

Kafka's answers are recorded in `acl_answers.txt` and `kafka_acls.txt`; the campaign compares the records with a running
Kafka. With OTTLA_WRITE_FACTS=1 they are written instead.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests import maven
from tests.apache_kafka.programs import running_kafka
from tests.apache_kafka.sharing import OPTIONS
from tests.broker.security.acl_requests import OPEN_TO_ANONYMOUS
from tests.kafka_tools.acl_commands import ACL_COMMANDS, comparable_acls
from tests.kafka_tools.acl_questions import acl_questions, answer_to
from tests.kafka_tools.test_side_by_side import FEATURES_OFF
from tests.kafka_tools.tool_runner import run_tools
from tests.lasting import LASTING

import ottla

ANSWERS = Path(__file__).with_name("acl_answers.txt")
OUTPUTS = Path(__file__).with_name("kafka_acls.txt")

CLOSED = "    (the connection is closed)"
BUG = "    -1 None"


def answers_of(address: str) -> list[str]:
    return [f"{one.title}\n{answer_to(address, one)}" for one in acl_questions()]


def outputs_of(tool_path: str, address: str, folder: Path) -> str:
    outcomes = run_tools(tool_path, [command.words(address, folder) for command in ACL_COMMANDS])
    return "\n".join(
        f"# {command.title}\n[{outcome.code}]\n{comparable_acls(command.title, outcome.text)}\n"
        for command, outcome in zip(ACL_COMMANDS, outcomes, strict=True)
    )


def test_our_broker_answers_about_acls_as_kafka_does() -> None:
    with ottla.Broker({**OPEN_TO_ANONYMOUS, **LASTING}) as broker:
        found = answers_of(broker.bootstrap_servers)
    recorded = ANSWERS.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    assert len(found) == len(recorded)
    differences = 0
    for ours, kafkas in zip(found, recorded, strict=True):
        title, answer = kafkas.split("\n", 1)
        if answer == CLOSED or BUG in answer:
            # Kafka closes the connection if a code is 0, and fails if it is that of a filter. We say what is wrong
            # with the one ACL.
            differences += 1
            assert ours.startswith(title)
            if title.startswith("create"):
                wrong, right = ours.split("\n")[1:]
                assert wrong.startswith("    42 Invalid ")
                assert right == "    0 "
            continue
        assert ours == kafkas
    assert differences == 17


def test_kafka_acls_shows_our_broker_as_it_shows_kafka(tool_path: str, tmp_path: Path) -> None:
    with ottla.Broker({**OPEN_TO_ANONYMOUS, **LASTING}) as broker:
        found = outputs_of(tool_path, broker.bootstrap_servers, tmp_path)
    assert found == OUTPUTS.read_text(encoding="utf-8")


@pytest.mark.campaign
def test_the_records_are_what_kafka_answers_about_acls(tool_path: str, tmp_path: Path) -> None:
    jars = maven.kafka_server(tmp_path)
    options = {**OPTIONS, **OPEN_TO_ANONYMOUS}
    with running_kafka(jars, tmp_path, options, FEATURES_OFF) as address:
        answers = "\n\n".join(answers_of(address)) + "\n"
        outputs = outputs_of(tool_path, address, tmp_path)
    if os.environ.get("OTTLA_WRITE_FACTS"):
        ANSWERS.write_text(answers, encoding="utf-8")
        OUTPUTS.write_text(outputs, encoding="utf-8")
    assert answers == ANSWERS.read_text(encoding="utf-8")
    assert outputs == OUTPUTS.read_text(encoding="utf-8")
