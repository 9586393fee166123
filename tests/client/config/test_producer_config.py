"""The options of a producer and the rules between them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.config.client import read_client_config
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigError

CONFLICTS: list[tuple[dict[str, Any], str]] = [
    ({"acks": 1}, "acks=all: change acks, which is 1"),
    ({"acks": "0"}, "acks=all: change acks, which is 0"),
    ({"retries": 0}, "retries: raise retries, which is 0"),
    (
        {"max_in_flight_requests_per_connection": 6},
        "at most 5 requests in flight: lower max.in.flight.requests.per.connection, which is 6",
    ),
]


def producer(**options: Any) -> ProducerConfig:
    return read_client_config(ProducerConfig, {"bootstrap.servers": "127.0.0.1:9092"}, options)


@pytest.mark.parametrize(
    ("given", "expected"), [("all", -1), ("-1", -1), (-1, -1), (1, 1), ("1", 1), (0, 0), ("0", 0)]
)
def test_acks_are_text_or_number(given: object, expected: int) -> None:
    assert producer(acks=given).required_acks == expected


@pytest.mark.parametrize("acks", [2, "some", True, None.__class__])
def test_other_acks_are_refused(acks: object) -> None:
    with pytest.raises(ConfigError, match=r"acks=.* is not valid: it must be one of all, -1, 0, 1"):
        producer(acks=acks)


def test_idempotence_is_on_by_default() -> None:
    config = producer()
    assert config.enable_idempotence
    assert config.notes == ()


@pytest.mark.parametrize(("options", "obstacle"), CONFLICTS)
def test_default_idempotence_gives_way_and_says_why(options: dict[str, Any], obstacle: str) -> None:
    config = producer(**options)
    assert not config.enable_idempotence
    assert config.notes == (f"enable.idempotence is false: it would need {obstacle}",)


def test_what_gives_way_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    producer(acks=1, client_id="till")
    assert [record.getMessage() for record in caplog.records] == [
        "till: enable.idempotence is false: it would need acks=all: change acks, which is 1"
    ]
    caplog.clear()
    producer(acks="all")
    producer(acks=1)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("options", "obstacle"), CONFLICTS)
def test_explicit_idempotence_does_not_give_way(options: dict[str, Any], obstacle: str) -> None:
    with pytest.raises(ConfigError) as caught:
        producer(enable_idempotence=True, **options)
    assert str(caught.value) == f"enable.idempotence=true needs {obstacle}"


@pytest.mark.parametrize(("options", "obstacle"), CONFLICTS)
def test_a_transactional_id_needs_idempotence(options: dict[str, Any], obstacle: str) -> None:
    with pytest.raises(ConfigError) as caught:
        producer(transactional_id="till", **options)
    assert str(caught.value) == f"transactional.id needs idempotence, and so {obstacle}"


@pytest.mark.parametrize(("options", "_"), CONFLICTS)
def test_without_idempotence_everything_goes(options: dict[str, Any], _: str) -> None:
    config = producer(enable_idempotence="false", **options)
    assert not config.enable_idempotence
    assert config.notes == ()


def test_a_transactional_id_cannot_be_had_without_idempotence() -> None:
    with pytest.raises(ConfigError, match=r"transactional\.id needs enable\.idempotence=true"):
        producer(transactional_id="till", enable_idempotence=False)
    with pytest.raises(ConfigError, match=r"transactional\.id is empty"):
        producer(transactional_id="")
    assert producer(transactional_id="till", acks="all").enable_idempotence


def test_the_default_delivery_timeout_makes_room() -> None:
    config = producer(request_timeout_ms=200_000, linger_ms=10)
    assert config.delivery_timeout_ms == 200_010
    assert config.notes[0].startswith("delivery.timeout.ms is 200010: ")


def test_a_given_delivery_timeout_has_to_be_long_enough() -> None:
    with pytest.raises(
        ConfigError, match=r"delivery\.timeout\.ms \(1000\) is below linger\.ms and"
    ):
        producer(delivery_timeout_ms=1000, request_timeout_ms=1000)
    with pytest.raises(ConfigError, match=r"raise it, or lower one of them"):
        producer(delivery_timeout_ms=1000, linger_ms=1000)
    assert producer(
        delivery_timeout_ms=1000, request_timeout_ms=900, linger_ms=100
    ).delivery_timeout_ms


def test_the_default_request_timeout_gives_way_to_a_short_delivery_timeout() -> None:
    config = producer(delivery_timeout_ms=10_000, linger_ms=10)
    assert (config.delivery_timeout_ms, config.request_timeout_ms) == (10_000, 9990)
    assert config.notes[0].startswith("request.timeout.ms is 9990: delivery.timeout.ms was given")
    assert producer(delivery_timeout_ms=10_000, request_timeout_ms=9000).notes == ()


def test_a_linger_time_of_ages_is_possible() -> None:
    assert producer(linger_ms=(1 << 63) - 1).delivery_timeout_ms == (1 << 31) - 1


def test_a_batch_has_to_fit_into_the_buffer() -> None:
    with pytest.raises(
        ConfigError, match=r"batch\.size \(16384\) is above buffer\.memory \(1000\)"
    ):
        producer(buffer_memory=1000)
    assert producer(batch_size=0).batch_size == 0


def test_two_phase_commit_is_not_available() -> None:
    assert not producer(
        transaction_two_phase_commit_enable=False
    ).transaction_two_phase_commit_enable
    with pytest.raises(ConfigError, match=r"transaction\.two\.phase\.commit\.enable=true is not"):
        producer(transaction_two_phase_commit_enable=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", -1),
        ("buffer_memory", 0),
        ("compression_type", "brotli"),
        ("compression_gzip_level", 0),
        ("compression_lz4_level", 18),
        ("compression_zstd_level", 23),
        ("linger_ms", -1),
        ("linger_ms", 0.5),
        ("max_block_ms", "soon"),
        ("max_in_flight_requests_per_connection", 0),
        ("metadata_max_idle_ms", 4999),
        ("retries", -1),
        ("retries", 1 << 31),
        ("transaction_timeout_ms", 0),
        ("key_serializer", ""),
        ("key_serializer", ["str", "str"]),
        ("interceptor_classes", ["x", ""]),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"^{name.replace('_', '.')}=.* is not valid"):
        producer(**{name: value})
