"""Kafka's tools print about our broker what they print about Apache Kafka.

What they print about Apache Kafka is recorded in `apache_kafka.txt`; the campaign compares the record with a running
Kafka. With OTTLA_WRITE_FACTS=1 it is written instead.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import maven
from tests.apache_kafka.programs import running_kafka
from tests.apache_kafka.sharing import OPTIONS
from tests.kafka_tools.commands import COMMANDS, comparable, inhabited, write_files
from tests.kafka_tools.tool_runner import Outcome, run_tools
from tests.lasting import LASTING

import ottla
from ottla.broker.requests.apis import SERVED
from ottla.client.raw import RawConnection
from ottla.testing.kafka_releases import KafkaRelease
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

RECORDED = Path(__file__).with_name("apache_kafka.txt")
# What our broker does not have, turned off.
FEATURES_OFF = ("share.version=0", "streams.version=0", "eligible.leader.replicas.version=0")


def ask(tool_path: str, address: str, folder: Path) -> list[Outcome]:
    """What every command answers about a cluster at an address."""
    write_files(folder)
    with inhabited(address):
        return run_tools(tool_path, [command.words(address, folder) for command in COMMANDS])


def text_of(outcomes: list[Outcome]) -> str:
    parts = [
        f"# {command.title}\n[{outcome.code}]\n{comparable(command.title, outcome.text)}\n"
        for command, outcome in zip(COMMANDS, outcomes, strict=True)
    ]
    return "\n".join(parts)


def sections(text: str) -> list[str]:
    return re.split(r"^(?=# )", text, flags=re.MULTILINE)[1:]


@pytest.fixture
def root_level() -> Iterator[None]:
    """One of the commands changes the level of the root logger, which belongs to the process."""
    level = logging.root.level
    yield
    logging.root.setLevel(level)


@pytest.mark.usefixtures("root_level")
def test_kafkas_tools_show_our_broker_as_they_show_kafka(tool_path: str, tmp_path: Path) -> None:
    options = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 2, **LASTING}
    with ottla.Broker(options, data_dir=tmp_path / "data") as broker:
        outcomes = ask(tool_path, broker.bootstrap_servers, tmp_path)
    found = sections(text_of(outcomes))
    assert found == sections(RECORDED.read_text(encoding="utf-8"))
    assert len(found) == len(COMMANDS)


@pytest.mark.campaign
def test_the_record_is_what_the_tools_print_about_kafka(tool_path: str, tmp_path: Path) -> None:
    jars = maven.kafka_server(tmp_path)
    with running_kafka(jars, tmp_path, OPTIONS, FEATURES_OFF) as address:
        outcomes = ask(tool_path, address, tmp_path)
    text = text_of(outcomes)
    if os.environ.get("OTTLA_WRITE_FACTS"):
        RECORDED.write_text(text, encoding="utf-8")
    assert sections(text) == sections(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.campaign
def test_the_table_of_kafka_4_3_is_what_kafka_advertises(tmp_path: Path) -> None:
    jars = maven.kafka_server(tmp_path)
    with (
        running_kafka(jars, tmp_path, OPTIONS, FEATURES_OFF) as address,
        RawConnection(address) as connection,
    ):
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = connection.call(request, ApiVersionsResponse, 4)
    theirs = {one.api_key: one.max_version for one in answer.api_keys if one.api_key in SERVED}
    ours = {
        api.key: api.last_version
        for api in KafkaRelease("4.3").restrict(SERVED).values()
        if not api.needs_metrics_page  # nor has this Kafka a plugin that wants metrics of clients
    }
    assert ours == theirs
