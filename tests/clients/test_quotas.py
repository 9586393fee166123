"""Any client that exceeds its quota gets the rate that the quota allows, and loses nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from tests.broker.quota_requests import alter, describe, entry, set_quotas
from tests.broker.requests import create, on_loop, session_with
from tests.clients.conftest import MakeDriver
from tests.clients.messages import Message
from tests.lasting import LASTING

from ottla import Broker
from ottla.core.security.quotas.entities import QuotaKind
from ottla.model import TopicPartition

RATE_BYTES = 100_000
REQUESTS = 28
MESSAGE_BYTES = 5_000
BYTES = REQUESTS * MESSAGE_BYTES
TOPIC = "limited"
# What a client needs for its first metadata, and this machine for other tests.
SLACK_SECONDS = 1.0
EVERYBODY = {"user": "ANONYMOUS"}


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    # One whole window and the present one, so that a test sees a few of them.
    with Broker({**LASTING, "quota.window.num": "2"}) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Iterator[Broker]:
    yield running
    with session_with(running) as connection:
        for names, quotas in describe(connection):
            alter(connection, entry(names, dict.fromkeys(quotas)))


def messages() -> list[Message]:
    source = random.Random(1)
    return [Message(source.randbytes(MESSAGE_BYTES)) for _ in range(REQUESTS)]


def test_a_producer_gets_its_rate(
    make_admin_client: MakeDriver, broker: Broker, request: pytest.FixtureRequest
) -> None:
    name = f"{TOPIC}-{request.node.callspec.id}"
    with session_with(broker) as connection:
        create(connection, name)
        # Nobody else has a quota: what the tests before have used is not counted.
        set_quotas(connection, EVERYBODY, producer_byte_rate=RATE_BYTES)
    client = make_admin_client(broker.bootstrap_servers)
    with client.producer() as producer:
        began = time.monotonic()
        for number, message in enumerate(messages()):
            assert producer.send(name, [message]) == [number]
        seconds = time.monotonic() - began
    # The whole window may be used up at once; the rest has the rate.
    assert seconds >= BYTES / (1.15 * RATE_BYTES) - 1
    assert seconds <= BYTES * 1.15 / RATE_BYTES + SLACK_SECONDS


def throttled(broker: Broker) -> int:
    kind = QuotaKind.CONSUMER_BYTE_RATE
    return on_loop(broker, lambda found: found.node.quotas.throttles.requests[kind])


def test_a_consumer_over_its_quota_gets_everything_in_the_end(
    make_admin_client: MakeDriver, broker: Broker, request: pytest.FixtureRequest
) -> None:
    name = f"read-{TOPIC}-{request.node.callspec.id}"
    client = make_admin_client(broker.bootstrap_servers)
    sent = messages()
    with session_with(broker) as connection:
        create(connection, name)
        with client.producer() as producer:
            producer.send(name, sent)
        set_quotas(connection, EVERYBODY, consumer_byte_rate=RATE_BYTES)
        with client.consumer() as consumer:
            before = throttled(broker)
            consumer.assign({TopicPartition(name, 0): 0})
            received = consumer.read(len(sent))
    assert [one.value for one in received] == [one.value for one in sent]
    assert throttled(broker) > before
