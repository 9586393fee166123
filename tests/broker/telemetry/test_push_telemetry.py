"""PushTelemetry: who may push when, and what of it is on the metrics page."""

from __future__ import annotations

import uuid

import pytest
from tests.broker.exposition_reader import Family
from tests.broker.requests import eventually
from tests.broker.telemetry.clients import PushingClient, samples, scrape, subscribe
from tests.broker.telemetry.otlp_payloads import (
    CUMULATIVE,
    gauge,
    histogram,
    many_gauges,
    payload,
    point,
    total,
)

from ottla.broker.telemetry import client_series, telemetry
from ottla.errors import ErrorCode
from ottla.records.compression import Codec, compress
from ottla.testing import Broker

SENT = "org.apache.kafka.producer.record.send.total"
SENT_NAME = "kafka_client_producer_record_send_total"
LATENCY = "org.apache.kafka.producer.request.latency.avg"
LATENCY_NAME = "kafka_client_producer_request_latency_avg"
TILL = (("client_id", "till"),)
ONE = payload(gauge(LATENCY, point(1.5)))


def ready(client: PushingClient) -> PushingClient:
    """A client that knows its subscription."""
    assert client.get().error_code == ErrorCode.NONE
    return client


# -- who may push


def test_pushes_come_once_an_interval(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, interval_ms="1000")
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        measured.clock.advance("1ms")
        # The first one may come early: clients do not all push at the same time.
        assert client.push(ONE) is ErrorCode.NONE
        assert client.push(ONE) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        measured.clock.advance("1s")
        assert client.push(ONE) is ErrorCode.NONE


def test_the_last_push_may_come_early_and_is_the_last(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        assert client.push(ONE) is ErrorCode.NONE
        assert client.push(ONE, terminating=True) is ErrorCode.NONE
        assert client.push(ONE, terminating=True) is ErrorCode.INVALID_REQUEST
        assert samples(scrape(measured), LATENCY_NAME) == {TILL: 1.5}


@pytest.mark.parametrize("number", [0, 1])
def test_reserved_ids_are_refused(measured: Broker, number: int) -> None:
    with PushingClient(measured.bootstrap_servers) as client:
        client.instance_id = uuid.UUID(int=number)
        assert client.push(ONE) is ErrorCode.INVALID_REQUEST


def test_a_push_for_a_changed_subscription_is_refused_and_the_client_may_ask_at_once(
    measured: Broker,
) -> None:
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        wrong = client.subscription_id ^ 1
        measured.clock.advance("300s")
        assert client.push(ONE, subscription_id=wrong) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        assert client.get().error_code == ErrorCode.NONE
        subscribe(measured.bootstrap_servers, metrics="a.")
        measured.clock.advance("300s")
        assert client.push(ONE) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID


def test_an_unknown_compression_is_refused(measured: Broker) -> None:
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        assert client.push(ONE, codec=5) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert client.get().error_code == ErrorCode.NONE


def test_a_client_that_no_node_knows_may_push(measured: Broker) -> None:
    """It asked another node, or this one has forgotten it."""
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        measured.clock.advance("1000s")
        eventually(lambda: instance_count(measured) == 0)
        assert client.push(ONE) is ErrorCode.NONE


def instance_count(broker: Broker) -> float:
    (count,) = samples(scrape(broker), "ottla_client_metrics_instances").values()
    return count


# -- payloads


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_every_compression_is_understood(measured: Broker, codec: Codec) -> None:
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        assert client.push_compressed(ONE, codec) is ErrorCode.NONE
        assert samples(scrape(measured), LATENCY_NAME) == {TILL: 1.5}


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_garbage_is_refused_and_the_connection_stays(measured: Broker, codec: Codec) -> None:
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        assert client.push(b"\xff" * 100, codec=codec) is ErrorCode.INVALID_RECORD
        measured.clock.advance("300s")
        assert client.push(ONE) is ErrorCode.NONE


def test_a_push_that_is_too_large_is_refused(measured: Broker) -> None:
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        assert client.push(bytes((1 << 20) + 1)) is ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.SNAPPY, Codec.ZSTD])
def test_what_grows_beyond_the_limit_is_refused(measured: Broker, codec: Codec) -> None:
    bomb = compress(codec, bytes(16 << 20), None)
    assert len(bomb) < 1 << 20
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        assert client.push(bomb, codec=codec) is ErrorCode.INVALID_RECORD


def test_too_many_points_are_refused(measured: Broker) -> None:
    one = point(1)
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        assert client.push(payload(gauge("g", *[one] * 10_001))) is ErrorCode.TELEMETRY_TOO_LARGE


def test_pushes_that_would_wait_in_too_much_memory_come_later(
    measured: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "MAX_WAITING_BYTES", 10)
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        assert client.push(ONE) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


# -- the page


def test_differences_are_added_up(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, interval_ms="1000")
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        for expected in (3, 6, 9):
            assert client.push(payload(total(SENT, point(3)))) is ErrorCode.NONE
            page = scrape(measured)
            assert page[SENT_NAME].kind == "counter"
            assert samples(page, SENT_NAME) == {TILL: expected}
            measured.clock.advance("1s")
        client.push(payload(total(SENT, point(20), temporality=CUMULATIVE)))
        assert samples(scrape(measured), SENT_NAME) == {TILL: 20}


def test_a_push_replaces_the_gauges_of_the_one_before(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, interval_ms="1000")
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        lag = "org.apache.kafka.consumer.records.lag"
        both = [point(number, {"partition": number}) for number in (1, 2)]
        client.push(payload(gauge(lag, *both), total(SENT, point(1))))
        measured.clock.advance("1s")
        client.push(payload(gauge(lag, point(7, {"partition": 2}))))
        page = scrape(measured)
        assert samples(page, "kafka_client_consumer_records_lag") == {
            (*TILL, ("partition", "2")): 7
        }
        assert samples(page, SENT_NAME) == {TILL: 1}
        assert samples(page, "ottla_client_metrics_series") == {(): 2}


def test_attributes_of_points_and_resources_are_labels(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers) as client:
        client.introduce("some-client", "1.2.3")
        ready(client)
        pushed = gauge(LATENCY, point(2, {"node-id": 1, "client_id": "another", "__name__": "x"}))
        client.push(payload(pushed, resource={"group_id": "g"}))
        page = scrape(measured)
    labels = (("client_id", "till"), ("group_id", "g"), ("name", "x"), ("node_id", "1"))
    assert samples(page, LATENCY_NAME) == {labels: 2}
    (about,) = samples(page, "ottla_client_info")
    assert dict(about) == {
        "client_id": "till",
        "software_name": "some-client",
        "software_version": "1.2.3",
        "host": "127.0.0.1",
    }


def test_no_name_or_label_can_break_the_page(measured: Broker) -> None:
    hostile = '"} 1\nottla_topics{x="'
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers, f"id{hostile}\x00") as client:
        ready(client)
        pushed = [gauge(f"n{hostile}", point(1, {f"l{hostile}": f"v{hostile}\\\x00\r"}))]
        pushed += [gauge(name, point(1)) for name in ("", "9", "ottla_topics", "a.b", "a_b")]
        pushed += [total("same", point(1)), gauge("same.total", point(2)), gauge("same", point(3))]
        assert client.push(payload(*pushed)) is ErrorCode.NONE
        page = scrape(measured)  # which is read strictly
    assert sum(samples(page, "ottla_topics").values()) == 0
    assert page["kafka_client_same_total"].kind == "counter"
    assert list(samples(page, "kafka_client_same_total").values()) == [1]
    assert list(samples(page, "kafka_client_same").values()) == [3]


def test_a_series_that_is_too_long_is_dropped_and_counted(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers, "c" * 30_000) as client:
        ready(client)
        client.push(
            payload(
                gauge("a", point(1, {"b": "v" * 900})),
                gauge("n" * 2000, point(1)),
                gauge("k", point(1)),
            )
        )
        page = scrape(measured)
    assert dropped(page)["too_long"] == 2
    assert len(samples(page, "kafka_client_k")) == 1


def dropped(page: dict[str, Family]) -> dict[str, float]:
    found = samples(page, "ottla_client_metrics_dropped_total")
    return {dict(labels)["reason"]: value for labels, value in found.items()}


def test_what_is_no_number_for_prometheus_is_counted(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        client.push(
            payload(
                histogram("h"),
                total("down", point(-1)),
                total("endless", point(float("inf"))),
                gauge("nothing", point(float("nan"))),
                gauge("most", point(float("inf"))),
            )
        )
        page = scrape(measured)
    assert dropped(page)["unsupported"] == 3
    assert samples(page, "kafka_client_most") == {TILL: float("inf")}
    assert "kafka_client_nothing" not in page


def test_one_client_has_so_many_series_and_no_more(
    measured: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_series, "MAX_SERIES_PER_CLIENT", 10)
    subscribe(measured.bootstrap_servers, interval_ms="1000")
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client)
        data = payload(*(total(f"t{number}", point(1)) for number in range(8)))
        assert client.push(data) is ErrorCode.NONE
        measured.clock.advance("1s")
        assert client.push(many_gauges(f"g{number}" for number in range(5))) is ErrorCode.NONE
        page = scrape(measured)
    assert samples(page, "ottla_client_metrics_series") == {(): 10}
    assert dropped(page)["client_limit"] == 3


def test_all_clients_together_have_so_many_series_and_no_more(
    measured: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_series, "MAX_SERIES", 10)
    subscribe(measured.bootstrap_servers, interval_ms="1000")
    names = [f"g{number}" for number in range(6)]
    with (
        PushingClient(measured.bootstrap_servers, "a") as first,
        PushingClient(measured.bootstrap_servers, "b") as second,
    ):
        ready(first).push(many_gauges(names))
        ready(second).push(many_gauges(names))
        page = scrape(measured)
        assert samples(page, "ottla_client_metrics_series") == {(): 10}
        assert dropped(page)["total_limit"] == 2
        # What replaces its own series needs no room.
        measured.clock.advance("1s")
        assert first.push(many_gauges(names)) is ErrorCode.NONE
        assert dropped(scrape(measured))["total_limit"] == 2
        assert len(samples(scrape(measured), "kafka_client_g5")) == 1
    # Both have gone: they make room for the next one.
    with PushingClient(measured.bootstrap_servers, "c") as third:
        eventually(lambda: instance_count(measured) == 0)
        ready(third).push(many_gauges(f"h{number}" for number in range(10)))
        page = scrape(measured)
    assert samples(page, "ottla_client_metrics_series") == {(): 10}
    assert {dict(labels)["client_id"] for labels in samples(page, "ottla_client_info")} == {"c"}


def test_a_connection_has_one_client(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers) as client:
        for _ in range(5):
            client.instance_id = uuid.uuid4()
            ready(client)
            assert client.push(ONE) is ErrorCode.NONE
        assert len(samples(scrape(measured), LATENCY_NAME)) == 1


def test_the_last_values_of_a_client_stay_for_a_while_and_then_go(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, interval_ms="30000")
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client).push(ONE)
    measured.clock.advance("80s")
    assert samples(scrape(measured), LATENCY_NAME) == {TILL: 1.5}
    measured.clock.advance("10s")
    eventually(lambda: samples(scrape(measured), LATENCY_NAME) == {})
    assert samples(scrape(measured), "ottla_client_metrics_series") == {(): 0}


def test_a_client_that_goes_on_on_another_connection_goes_on_counting(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers) as client:
        ready(client).push(payload(total(SENT, point(3))))
    with PushingClient(measured.bootstrap_servers) as again:
        again.instance_id, again.subscription_id = client.instance_id, client.subscription_id
        eventually(lambda: instance_count(measured) == 0)
        assert again.push(payload(total(SENT, point(4)))) is ErrorCode.NONE
        assert samples(scrape(measured), SENT_NAME) == {TILL: 7}
