"""Apache Kafka answers about transactions as we do, but for the differences that the table explains."""

from __future__ import annotations

import pytest
from tests.broker.txn_errors.stage import REQUESTS
from tests.broker.txn_errors.table import SITUATIONS, Ready, expected_of_kafka, prepare


@pytest.fixture(scope="module")
def kafka(kafka_address: str) -> Ready:
    return prepare(kafka_address)


def test_every_situation_is_answered_as_the_table_says(kafka: Ready) -> None:
    wrong = {}
    for situation in SITUATIONS:
        versions = REQUESTS[situation.request].versions
        wanted = {version: expected_of_kafka(situation, version) for version in versions}
        found = kafka.answers(situation)
        if found != wanted:
            wrong[str(situation)] = (found, wanted)
    assert not wrong
