"""What the broker refuses is reported by any client as what it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.clients.broker_side import batches_of
from tests.clients.conftest import MakeDriver
from tests.clients.driver import Driver, ProducerOptions, RefusedError
from tests.clients.messages import MEGABYTE, Message, noise, numbered

from ottla import Broker
from ottla.errors import ErrorCode

# Time enough to connect, to ask and to be refused, on a busy machine too.
GIVE_UP_MS = 3000


def test_a_message_above_the_limit_is_too_large(client: Driver, ottla_topic: str) -> None:
    options = ProducerOptions(codec="none", max_request_bytes=4 * MEGABYTE)
    with pytest.raises(RefusedError) as caught:
        client.send(ottla_topic, [Message(noise(1_048_588))], options=options)
    assert caught.value.error is ErrorCode.MESSAGE_TOO_LARGE
    assert client.send(ottla_topic, numbered(1)) == [0]


def test_a_message_without_a_key_is_refused_by_a_compacted_topic(
    client: Driver, ottla_topic: str
) -> None:
    client.create_topic(ottla_topic, configs={"cleanup.policy": "compact"})
    with pytest.raises(RefusedError) as caught:
        client.send(ottla_topic, [Message(b"value")])
    if client.knows_invalid_record:
        assert caught.value.error is ErrorCode.INVALID_RECORD
    assert batches_of(client.bootstrap_servers, ottla_topic) == []
    assert client.send(ottla_topic, numbered(1)) == [0]


def test_too_few_replicas_refuse_acks_all_and_only_that(client: Driver, ottla_topic: str) -> None:
    client.create_topic(ottla_topic, configs={"min.insync.replicas": "2"})
    options = ProducerOptions(acks="all", give_up_ms=GIVE_UP_MS)
    with pytest.raises(RefusedError) as caught:
        client.send(ottla_topic, [Message(b"value")], options=options)
    assert caught.value.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert batches_of(client.bootstrap_servers, ottla_topic) == []
    assert client.send(ottla_topic, numbered(1), options=ProducerOptions(acks="1")) == [0]


@pytest.fixture(scope="module")
def strict_broker() -> Iterator[Broker]:
    with Broker(auto_create_topics_enable=False) as broker:
        yield broker


def test_an_unknown_topic_is_not_created_where_that_is_off(
    make_client: MakeDriver, strict_broker: Broker, ottla_topic: str
) -> None:
    client = make_client(strict_broker.bootstrap_servers)
    with pytest.raises(RefusedError) as caught:
        client.send(ottla_topic, numbered(1), options=ProducerOptions(give_up_ms=GIVE_UP_MS))
    # Some clients say what they heard, others that they heard of no topic in time.
    assert caught.value.error in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
    )
    # So the name is free.
    client.create_topic(ottla_topic)
    assert client.send(ottla_topic, numbered(1)) == [0]
