"""kafka-configs shows and changes users, their quotas and those of addresses as it does with Apache Kafka.

What it prints about Apache Kafka is recorded in `kafka_configs_of_users.txt`; the campaign compares the record with a
running Kafka. With OTTLA_WRITE_FACTS=1 it is written instead.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests import maven
from tests.apache_kafka.programs import running_kafka
from tests.kafka_tools.test_side_by_side import FEATURES_OFF
from tests.kafka_tools.tool_runner import run_tools
from tests.kafka_tools.user_commands import USER_COMMANDS, comparable_users
from tests.lasting import LASTING

import ottla

RECORDED = Path(__file__).with_name("kafka_configs_of_users.txt")


def outputs_of(tool_path: str, address: str, folder: Path) -> str:
    outcomes = run_tools(tool_path, [command.words(address, folder) for command in USER_COMMANDS])
    return "\n".join(
        f"# {command.title}\n[{outcome.code}]\n{comparable_users(command.title, outcome.text)}\n"
        for command, outcome in zip(USER_COMMANDS, outcomes, strict=True)
    )


def test_kafka_configs_shows_our_users_as_it_shows_kafkas(tool_path: str, tmp_path: Path) -> None:
    with ottla.Broker(LASTING) as broker:
        found = outputs_of(tool_path, broker.bootstrap_servers, tmp_path)
    assert found == RECORDED.read_text(encoding="utf-8")


@pytest.mark.campaign
def test_the_record_is_what_kafka_configs_prints_about_kafka(
    tool_path: str, tmp_path: Path
) -> None:
    jars = maven.kafka_server(tmp_path)
    with running_kafka(jars, tmp_path, features=FEATURES_OFF) as address:
        found = outputs_of(tool_path, address, tmp_path)
    if os.environ.get("OTTLA_WRITE_FACTS"):
        RECORDED.write_text(found, encoding="utf-8")
    assert found == RECORDED.read_text(encoding="utf-8")
