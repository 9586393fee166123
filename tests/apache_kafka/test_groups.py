"""Apache Kafka answers about groups as we do, but for the differences that the table of bad input explains."""

from __future__ import annotations

import pytest
from tests.broker.group_conversations import CONVERSATIONS, transcript
from tests.broker.group_errors.stage import OPTIONS
from tests.broker.group_errors.table import SITUATIONS, Ready, prepare

import ottla
from ottla.wire.declare import info_of


@pytest.fixture(scope="module")
def kafka(kafka_address: str) -> Ready:
    return prepare(kafka_address)


def test_bad_input_is_answered_as_the_table_says(kafka: Ready) -> None:
    wrong = {}
    for title, situation in SITUATIONS.items():
        answers = kafka.answers(situation)
        expected = situation.kafka or situation.expected
        if answers != dict.fromkeys(kafka.versions_of(situation), expected):
            wrong[title] = answers
    assert not wrong


def test_conversations_are_the_same_word_for_word(kafka: Ready) -> None:
    differences = []
    with ottla.Broker(OPTIONS) as broker:
        ours = prepare(broker.bootstrap_servers)
        for name, told in CONVERSATIONS.items():
            key = info_of(told.request).api_key
            served = set(kafka.served[key]) & set(ours.served[key])
            versions = sorted(one for one in served if one >= told.first_version)
            assert versions, name
            for version in versions:
                said, said_by_kafka = (
                    transcript(told, one.address, one.topic, one.topic_id, version)
                    for one in (ours, kafka)
                )
                if said != said_by_kafka:
                    differences.append((name, version, said, said_by_kafka))
    assert not differences
