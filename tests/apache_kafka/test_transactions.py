"""Apache Kafka answers about transactions as we do, but for the differences that the table explains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.apache_kafka.programs import running_kafka
from tests.broker.txn_errors.stage import REQUESTS
from tests.broker.txn_errors.table import SITUATIONS, Ready, expected_of_kafka, prepare


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    with running_kafka(kafka_jars, tmp_path_factory.mktemp("kafka")) as address:
        yield prepare(address)


def test_every_situation_is_answered_as_the_table_says(kafka: Ready) -> None:
    """One test, because every process that tests has to start a Kafka of its own."""
    wrong = {}
    for situation in SITUATIONS:
        versions = REQUESTS[situation.request].versions
        wanted = {version: expected_of_kafka(situation, version) for version in versions}
        found = kafka.answers(situation)
        if found != wanted:
            wrong[str(situation)] = (found, wanted)
    assert not wrong
