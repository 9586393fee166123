"""Apache Kafka answers bad input to groups as our table says, but for the differences that the table explains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.apache_kafka.programs import running_kafka
from tests.broker.group_errors.stage import OPTIONS
from tests.broker.group_errors.table import SITUATIONS, Ready, prepare


@pytest.fixture(scope="module")
def ready(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    with running_kafka(kafka_jars, tmp_path_factory.mktemp("kafka"), OPTIONS) as address:
        yield prepare(address)


@pytest.mark.parametrize("title", SITUATIONS)
def test_the_answer_is_the_one_in_the_table(ready: Ready, title: str) -> None:
    situation = SITUATIONS[title]
    expected = situation.kafka or situation.expected
    assert ready.answers(situation) == dict.fromkeys(ready.versions_of(situation), expected)
