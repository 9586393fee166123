"""What the options do that name serializers, deserializers and their settings."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.producer.reading import records_of

import ottla

WORD = "Käse"
LATIN, UTF = WORD.encode("latin-1"), WORD.encode()


def written(servers: str, topic: str, key: Any, value: Any, **options: Any) -> tuple[Any, Any]:
    """The bytes that a producer makes of a key and a value."""
    with ottla.Producer(bootstrap_servers=servers, **options) as producer:
        producer.send(topic, value, key, partition=0).result(10)
    record = records_of(servers, topic)[-1]
    return record.key, record.value


def read(servers: str, topic: str, key: bytes, value: bytes, **options: Any) -> tuple[Any, Any]:
    """What a consumer makes of a key and a value."""
    with ottla.Producer(bootstrap_servers=servers) as producer:
        place = producer.send(topic, value, key, partition=0).result(10)
    with ottla.Consumer(bootstrap_servers=servers, **options) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), place.offset)
        record = next(iter(consumer))
    return record.key, record.value


TEXT_IN = {"key_serializer": "string", "value_serializer": "string"}
TEXT_OUT = {"key_deserializer": "string", "value_deserializer": "string"}


@pytest.mark.parametrize(
    ("option", "seen"),
    [
        (None, (UTF, UTF)),
        ("serializer_encoding", (LATIN, LATIN)),
        ("key_serializer_encoding", (LATIN, UTF)),
        ("value_serializer_encoding", (UTF, LATIN)),
    ],
)
def test_text_is_written_in_the_encoding_of_the_option(
    servers: str, topic: str, option: str | None, seen: tuple[bytes, bytes]
) -> None:
    encoding = {} if option is None else {option: "latin-1"}
    assert written(servers, topic, WORD, WORD, **TEXT_IN, **encoding) == seen


@pytest.mark.parametrize(
    ("option", "key", "value"),
    [
        (None, UTF, UTF),
        ("deserializer_encoding", LATIN, LATIN),
        ("key_deserializer_encoding", LATIN, UTF),
        ("value_deserializer_encoding", UTF, LATIN),
    ],
)
def test_text_is_read_in_the_encoding_of_the_option(
    servers: str, topic: str, option: str | None, key: bytes, value: bytes
) -> None:
    encoding = {} if option is None else {option: "latin-1"}
    assert read(servers, topic, key, value, **TEXT_OUT, **encoding) == (WORD, WORD)


def test_serializers_are_those_of_key_serializer_and_value_serializer(
    servers: str, topic: str
) -> None:
    seen = written(servers, topic, 7, "tea", key_serializer="short", value_serializer="string")
    assert seen == (b"\0\7", b"tea")
    with pytest.raises(ottla.SerializationError):
        written(servers, topic, 7, "tea")


def test_deserializers_are_those_of_key_deserializer_and_value_deserializer(
    servers: str, topic: str
) -> None:
    options = {"key_deserializer": "short", "value_deserializer": "string"}
    assert read(servers, topic, b"\0\7", b"tea", **options) == (7, "tea")
    assert read(servers, topic, b"\0\7", b"tea") == (b"\0\7", b"tea")


@pytest.mark.parametrize("inner", ["short", "long"])
def test_items_of_lists_are_written_and_read_by_the_inner_serde_of_key_and_value(
    servers: str, topic: str, inner: str
) -> None:
    other = "integer"
    key, value = written(
        servers,
        topic,
        [1, 2],
        [3, 4],
        key_serializer="list",
        value_serializer="list",
        default_list_key_serde_inner=inner,
        default_list_value_serde_inner=other,
    )
    item_bytes = {"short": 2, "integer": 4, "long": 8}
    assert key.endswith((2).to_bytes(item_bytes[inner]))
    assert value.endswith((4).to_bytes(item_bytes[other]))
    assert len(key) - len(value) == 2 * (item_bytes[inner] - item_bytes[other])
    reading = {
        "key_deserializer": "list",
        "value_deserializer": "list",
        "default_list_key_serde_inner": inner,
        "default_list_value_serde_inner": other,
    }
    assert read(servers, topic, key, value, **reading) == ([1, 2], [3, 4])
    kinds = {"default_list_key_serde_type": tuple, "default_list_value_serde_type": set}
    assert read(servers, topic, key, value, **reading, **kinds) == ((1, 2), {3, 4})
