"""Secured brokers of the test kit: the fixture, the marker, looking into them, and the control API."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

import pytest

import ottla
from ottla.errors import ErrorCode, KafkaError
from ottla.testing import Broker


def test_the_fixture_has_users(ottla_secured_broker: Broker, ottla_topic: str) -> None:
    with ottla.Producer(ottla_secured_broker.client_options()) as producer:
        producer.send(ottla_topic, b"one espresso").result(10)
    with ottla.Producer(ottla_secured_broker.client_options("till")) as producer:
        with pytest.raises(KafkaError) as caught:
            producer.send(ottla_topic, b"two teas").result(10)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [each.value for each in ottla_secured_broker.records(ottla_topic)] == [b"one espresso"]
    assert ottla_secured_broker.groups() == {}


@pytest.mark.ottla_broker(security="mtls", nodes=3, options={"num.partitions": 3})
def test_the_marker_secures_clusters(ottla_test_broker: Broker, ottla_topic: str) -> None:
    ottla_test_broker.seed({ottla_topic: {"records": [{"value": "one espresso"}]}})
    ottla_test_broker.kill()
    ottla_test_broker.restart()
    assert len(ottla_test_broker.records(ottla_topic)) == 1
    ottla_test_broker.start_over()
    with ottla.Admin(ottla_test_broker.client_options()) as admin:
        assert admin.list_topics() == {}


def test_users_survive_a_start_over() -> None:
    with Broker(security="sasl-ssl") as broker:
        options = broker.client_options("alice")
        broker.start_over()
        assert {**broker.client_options("alice"), "bootstrap.servers": ""} == {
            **options,
            "bootstrap.servers": "",
        }
        with ottla.Admin(broker.client_options("alice")) as admin:
            assert admin.list_topics() == {}


def test_tests_in_any_language_get_the_options_of_their_clients() -> None:
    command = [sys.executable, "-m", "ottla", "test-broker", "--security", "scram"]
    with subprocess.Popen(
        [*command, "--stop-with-stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        control = process.stdout.readline().split()[-1]
        found = json.load(urllib.request.urlopen(f"{control}/client-options?user=alice"))
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0
    assert found["bootstrap.servers"] == address
    assert 'ScramLoginModule required username="alice" password="' in found["sasl.jaas.config"]
