from __future__ import annotations

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ConfigError
from ottla.model import (
    Endpoint,
    TopicPartition,
    coordinator_partition,
    java_string_hash,
    parse_topic_id,
    topic_id_text,
)

hosts = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,40}", fullmatch=True) | st.ip_addresses().map(str)


def test_a_partition_equals_its_tuple_and_prints_like_its_folder() -> None:
    assert TopicPartition("orders", 3) == ("orders", 3)
    assert str(TopicPartition("my-orders", 0)) == "my-orders-0"


@given(hosts, st.integers(0, 65535))
def test_endpoints_survive_printing_and_parsing(host: str, port: int) -> None:
    endpoint = Endpoint(host, port)
    assert Endpoint.parse(str(endpoint)) == endpoint


def test_ipv6_is_printed_in_brackets() -> None:
    assert str(Endpoint("::1", 9092)) == "[::1]:9092"
    assert Endpoint.parse(" [fe80::1%eth0]:0 ") == ("fe80::1%eth0", 0)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("localhost", "has no port: write HOST:PORT"),
        ("[::1]", "has no port"),
        ("", "has no port"),
        ("localhost:", "must be a number from 0 to 65535"),
        ("localhost:65536", "must be a number from 0 to 65535"),
        ("localhost:-1", "must be a number from 0 to 65535"),
        ("localhost:\u0663", "must be a number from 0 to 65535"),
        ("::1:9092", r"write an IPv6 address as \[::1\]:9092"),
        ("[localhost]:9092", "only for IPv6"),
        (":9092", "write 0.0.0.0:9092 for every interface"),
        ("http://localhost:9092", "ambiguous"),
        ("a b:9092", "not a host name"),
        ("a,b:9092", "not a host name"),
    ],
)
def test_a_bad_endpoint_says_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        Endpoint.parse(text)


@given(st.text(max_size=30) | st.from_regex(r"[\[\]:a0-9.]{0,20}", fullmatch=True))
def test_garbage_is_an_endpoint_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        endpoint = Endpoint.parse(text)
        assert Endpoint.parse(str(endpoint)) == endpoint


@given(st.uuids(version=4) | st.binary(min_size=16, max_size=16).map(lambda raw: UUID(bytes=raw)))
def test_topic_ids_survive_printing_and_parsing(topic_id: UUID) -> None:
    text = topic_id_text(topic_id)
    assert len(text) == 22
    assert parse_topic_id(text) == topic_id


def test_topic_ids_look_like_kafkas() -> None:
    assert topic_id_text(UUID(int=0)) == "A" * 22
    assert topic_id_text(UUID(int=1)) == "A" * 21 + "Q"
    assert topic_id_text(UUID("fbffffff-ffff-ffff-ffff-ffffffffffff")) == "-" + "_" * 20 + "w"


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "+", "é" * 22])
def test_what_is_no_topic_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a topic id"):
        parse_topic_id(text)


@given(st.text(max_size=24))
def test_garbage_is_a_topic_id_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert topic_id_text(parse_topic_id(text)) == text


# What Java 17 says.
@pytest.mark.parametrize(
    ("key", "java_hash", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("hello", 99162322, 22),
        ("Hello World", -862545276, 26),
        ("console-consumer-12345", 158455506, 6),
        ("my-group", -1906497762, 12),
        ("gr\u00f6\u00dfe", 98762257, 7),
        ("\U0001f600", 1772899, 49),
        ("\u65e5\u672c\u8a9e", 25921943, 43),
        # The smallest number has no positive counterpart.
        ("polygenelubricants", -(2**31), 0),
        ("GydZG_", -(2**31), 0),
    ],
)
def test_a_key_has_the_coordinator_that_it_has_in_kafka(
    key: str, java_hash: int, partition: int
) -> None:
    assert java_string_hash(key) == java_hash % 2**32
    assert coordinator_partition(key, 50) == partition
    assert coordinator_partition(key, 1) == 0


@given(st.text(), st.integers(1, 1000))
def test_every_key_has_a_coordinator(key: str, partition_count: int) -> None:
    assert 0 <= coordinator_partition(key, partition_count) < partition_count
