"""What any client sends is what it gets back."""

from __future__ import annotations

import pytest
from tests.clients.broker_side import batches_of
from tests.clients.driver import CODECS, Driver, ProducerOptions
from tests.clients.messages import MEGABYTE, SHAPES, Message, noise, numbered

from ottla.records.compression import Codec

LARGE = ProducerOptions(max_request_bytes=4 * MEGABYTE)
BATCH_LIMIT_BYTES = 1_048_588


@pytest.mark.parametrize("shape", SHAPES)
def test_a_message_comes_back_as_it_was_sent(client: Driver, ottla_topic: str, shape: str) -> None:
    message = SHAPES[shape]
    reason = client.cannot_send(message)
    if reason is not None:
        pytest.skip(reason)
    assert client.send(ottla_topic, [message], options=LARGE) == [0]
    (received,) = client.read(ottla_topic, 1)
    assert received.offset == 0
    assert received.content == message


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_carries_every_message(client: Driver, ottla_topic: str, codec: str) -> None:
    if codec not in client.codecs():
        pytest.skip(f"{client.name} needs another package for {codec}")
    messages = [message for message in SHAPES.values() if client.cannot_send(message) is None]
    options = ProducerOptions(codec=codec, max_request_bytes=4 * MEGABYTE, linger_ms=50)
    assert client.send(ottla_topic, messages, options=options) == list(range(len(messages)))
    assert [one.content for one in client.read(ottla_topic, len(messages))] == messages
    # Clients leave alone what compression would make larger; zeros are not among that.
    large = SHAPES["megabyte-of-zeros"]
    used = {
        batch.header.codec
        for batch in batches_of(client.bootstrap_servers, ottla_topic)
        if any(record.value == large.value for record in batch.records)
    }
    assert used == {Codec[codec.upper()]}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_stores_the_messages(
    client: Driver, ottla_topic: str, acks: str
) -> None:
    client.create_topic(ottla_topic)
    messages = numbered(20)
    offsets = client.send(ottla_topic, messages, options=ProducerOptions(acks=acks))
    if acks != "0":
        assert offsets == list(range(20))
    assert [one.content for one in client.read(ottla_topic, 20)] == messages


def test_the_default_producer_is_idempotent_where_the_client_says_so(
    client: Driver, ottla_topic: str
) -> None:
    client.send(ottla_topic, numbered(5))
    (batch, *_) = batches_of(client.bootstrap_servers, ottla_topic)
    assert (batch.header.producer_id >= 0) == client.is_idempotent_by_default


def test_a_batch_of_exactly_the_limit_is_stored(client: Driver, ottla_topic: str) -> None:
    empty_bytes = _batch_bytes(client, ottla_topic, 1_000_000) - 1_000_000
    # The varints of the sizes are as long in both.
    message = Message(noise(BATCH_LIMIT_BYTES - empty_bytes))
    options = ProducerOptions(codec="none", max_request_bytes=4 * MEGABYTE)
    assert client.send(ottla_topic, [message], options=options) == [1]
    (received,) = client.read(ottla_topic, 1, offset=1)
    assert received.value == message.value
    (batch,) = batches_of(client.bootstrap_servers, ottla_topic, offset=1)
    assert batch.header.size_bytes == BATCH_LIMIT_BYTES


def _batch_bytes(client: Driver, topic: str, value_bytes: int) -> int:
    """The size of a batch with one record of such a value, as this client writes it."""
    options = ProducerOptions(codec="none", max_request_bytes=4 * MEGABYTE)
    client.send(topic, [Message(noise(value_bytes))], options=options)
    (batch,) = batches_of(client.bootstrap_servers, topic)
    return batch.header.size_bytes
