"""Every API answers as Apache Kafka does, whatever a caller may do: `recorded` has the table.

The campaign compares the record with a running Kafka. With OTTLA_WRITE_FACTS=1 it is written instead.
"""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

import pytest
from tests.security.kafka_answers.brokers import OPEN_WITHOUT_ACLS, secured_kafka, secured_ottla
from tests.security.kafka_answers.differences import expected
from tests.security.kafka_answers.message_builder import APIS
from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.table import (
    CHAPTERS,
    RECORDED_WITHOUT_ACLS,
    answered,
    difference,
    record,
    recorded,
)

# Nobody is refused, and Kafka has them only where a plugin takes the metrics of clients.
UNASKED = {"GetTelemetrySubscriptions", "PushTelemetry"}


# Some of each kind.
ASKED_WITHOUT_ACLS = {
    "CreateTopics",
    "DescribeCluster",
    "DescribeGroups",
    "DescribeTopicPartitions",
    "InitProducerId",
    "ListGroups",
    "TxnOffsetCommit",
}


def questions_without_acls() -> list[Question]:
    every = chain.from_iterable(CHAPTERS.values())
    return [question for question in every if question.api in ASKED_WITHOUT_ACLS]


def test_every_api_is_in_the_table() -> None:
    asked = {question.api for questions in CHAPTERS.values() for question in questions}
    assert asked == {api.name for api in APIS.values()} - UNASKED
    highest = {api.name: api.last_version for api in APIS.values()}
    chapters = {(question.api, name) for name, chapter in CHAPTERS.items() for question in chapter}
    assert len(chapters) == len(asked), "an API is in one chapter"
    for question in chain.from_iterable(CHAPTERS.values()):
        assert max(question.versions) <= highest[question.api], question


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_our_broker_answers_as_kafka_does(chapter: str) -> None:
    with secured_ottla() as addresses:
        found = answered(addresses, CHAPTERS[chapter])
    changes = difference(expected(recorded(found)), found)
    assert not changes, changes


def test_what_no_acl_is_about_may_be_open_as_in_kafka() -> None:
    with secured_ottla(OPEN_WITHOUT_ACLS) as addresses:
        found = answered(addresses, questions_without_acls())
    changes = difference(recorded(found, RECORDED_WITHOUT_ACLS), found)
    assert not changes, changes


@pytest.mark.campaign
def test_the_record_is_what_kafka_answers(tmp_path: Path) -> None:
    questions = chain.from_iterable(CHAPTERS.values())
    with secured_kafka(tmp_path) as addresses:
        found = answered(addresses, questions)
    if os.environ.get("OTTLA_WRITE_FACTS"):
        record(found)
    changes = difference(recorded(found), found)
    assert not changes, changes


@pytest.mark.campaign
def test_the_record_is_what_kafka_answers_that_is_open_without_acls(tmp_path: Path) -> None:
    with secured_kafka(tmp_path, OPEN_WITHOUT_ACLS) as addresses:
        found = answered(addresses, questions_without_acls())
    if os.environ.get("OTTLA_WRITE_FACTS"):
        record(found, RECORDED_WITHOUT_ACLS)
    changes = difference(recorded(found, RECORDED_WITHOUT_ACLS), found)
    assert not changes, changes
