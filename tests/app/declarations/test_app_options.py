"""Options of an app: shared out among its clients, from keywords, dicts and properties files."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.app import App, every
from ottla.app.declarations.listener_spec import Ack, AckMode, RetryPlan
from ottla.app.declarations.spring_properties import read_properties
from ottla.client.plugins.serializers import IntegerDeserializer, StringDeserializer
from ottla.errors import ConfigError


def from_text(tmp_path: Path, text: str, name: str = "application.properties", **more: Any) -> App:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return App.from_properties(path, **more)


def test_an_option_goes_to_the_clients_that_know_it() -> None:
    app = App(
        "billing",
        {"bootstrap.servers": "a:1", "linger.ms": "5"},
        max_poll_records=10,
        retries=3,
        security_protocol="SSL",
    )
    options = app.options
    assert options.consumer["max.poll.records"] == 10
    assert "max.poll.records" not in options.producer
    assert options.producer["linger.ms"] == "5"
    assert options.producer["retries"] == options.admin["retries"] == 3
    assert "retries" not in options.consumer
    for side in (options.consumer, options.producer, options.admin):
        assert side["bootstrap.servers"] == "a:1"
        assert side["security.protocol"] == "SSL"
        assert side["client.id"] == "billing"


def test_options_of_one_side_count_more() -> None:
    app = App("billing", client_id="c", consumer={"client_id": "d"}, producer={"acks": 1})
    assert app.options.consumer["client.id"] == "d"
    assert app.options.producer["client.id"] == "c"
    assert app.options.producer["acks"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"linger_m": 5}, "did you mean linger.ms"),
        ({"max_poll_record": 5}, "did you mean max.poll.records"),
        ({"linger_ms": "soon"}, "linger.ms='soon' is not valid"),
        ({"metric_reporters": "x"}, "Ottla does not have"),
        ({"consumer": {"linger_ms": 5}}, "it is an option of producers"),
        ({"missing_topics": "ignore"}, 'write "fail", "create" or "wait"'),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_to_change(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        App("billing", **options)


class Sent:
    def on_send(self, record: Any) -> Any:
        return record


class Read:
    def on_consume(self, records: Any) -> Any:
        return records


def test_interceptors_go_to_the_clients_whose_calls_they_know() -> None:
    options = App("billing", interceptor_classes=[Sent, Read]).options
    assert options.producer["interceptor.classes"] == [Sent]
    assert options.consumer["interceptor.classes"] == [Read]
    only = App("billing", interceptor_classes=f"{__name__}.Sent").options
    assert only.producer["interceptor.classes"] == [Sent]
    assert "interceptor.classes" not in only.consumer
    with pytest.raises(ConfigError, match="none of the methods of interceptors"):
        App("billing", interceptor_classes=[object()])


def test_listeners_are_static_members_each_by_its_name() -> None:
    app = App("billing", group_instance_id="host-1")
    a = app.listener("orders", name="a")(_load_one)
    b = app.listener("orders", name="b")(_load_one)
    assert a.spec.consumer_options["group.instance.id"] == "host-1-a"
    assert b.spec.consumer_options["group.instance.id"] == "host-1-b"
    # A consumer without a group, such as that of replies, is no member.
    assert "group.instance.id" not in app.options.consumer


async def _load_one(order: str) -> None: ...


def test_an_option_is_given_once() -> None:
    with pytest.raises(ConfigError, match="in the dict and as a keyword"):
        App("billing", {"linger.ms": 5}, linger_ms=6)


def test_kafkas_own_properties(tmp_path: Path) -> None:
    text = "bootstrap.servers=a:1,b:2\ngroup.id=accounts\nacks=all\nenable.auto.commit=true\n"
    app = from_text(tmp_path, text + "auto.commit.interval.ms=250\n")
    assert app.name == app.options.group == "accounts"
    assert app.options.ack == every(interval=0.25)
    assert app.options.producer["acks"] == "all"
    # The consumers of listeners commit by themselves.
    assert "enable.auto.commit" not in app.options.consumer
    with pytest.raises(ConfigError, match=r"did you mean group\.id"):
        from_text(tmp_path, "group.i=accounts")


SPRING = """
spring.application.name=shop
server.port=8080
spring.kafka.bootstrap-servers=${KAFKA:a:1},b:2
spring.kafka.producer.retries=0
spring.kafka.producer.acks=1
spring.kafka.producer.batch-size=16KB
spring.kafka.producer.properties.linger.ms=0
spring.kafka.producer.bufferMemory = 33554432
spring.kafka.producer.key-serializer=org.apache.kafka.common.serialization.StringSerializer
spring.kafka.producer.value-serializer=org.springframework.kafka.support.serializer.JsonSerializer
spring.kafka.consumer.group-id=group
spring.kafka.consumer.enable-auto-commit=true
spring.kafka.consumer.auto-commit-interval=1s
spring.kafka.consumer.auto_offset_reset=earliest
spring.kafka.consumer.properties[session.timeout.ms]=120000
spring.kafka.consumer.key-deserializer=org.apache.kafka.common.serialization.IntegerDeserializer
spring.kafka.consumer.value-deserializer=org.springframework.kafka.support.serializer.ErrorHandlingDeserializer
spring.kafka.consumer.properties.spring.deserializer.value.delegate.class=org.apache.kafka.common.serialization.StringDeserializer
spring.kafka.properties.request.timeout.ms=20000
spring.kafka.security.protocol=SSL
spring.kafka.ssl.trust-store-location=file:/etc/ca.pem
spring.kafka.template.default-topic=orders
spring.kafka.listener.concurrency=3
spring.kafka.listener.type=batch
spring.kafka.listener.idle-event-interval=30s
spring.kafka.listener.missing-topics-fatal=false
spring.kafka.retry.topic.enabled=true
spring.kafka.retry.topic.attempts=4
spring.kafka.retry.topic.delay=1s
spring.kafka.retry.topic.multiplier=2
spring.kafka.retry.topic.max-delay=3s
"""


def test_springs_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA", raising=False)
    app = from_text(tmp_path, SPRING)
    options = app.options
    assert (app.name, options.group) == ("shop", "group")
    assert options.bootstrap_servers == "a:1,b:2"
    assert options.producer["retries"] == "0"
    assert options.producer["acks"] == "1"
    assert options.producer["batch.size"] == "16384"
    assert options.producer["linger.ms"] == "0"
    assert options.producer["buffer.memory"] == "33554432"
    assert options.consumer["auto.offset.reset"] == "earliest"
    assert options.consumer["session.timeout.ms"] == "120000"
    assert options.admin["request.timeout.ms"] == "20000"
    assert options.admin["ssl.truststore.location"] == "/etc/ca.pem"
    assert options.ack == every(interval=1)
    assert isinstance(options.key_deserializer, IntegerDeserializer)
    assert isinstance(options.value_deserializer, StringDeserializer)
    assert options.default_topic == "orders"
    assert (options.workers, options.is_batch) == (3, True)
    assert options.retry == RetryPlan((1.0, 2.0, 3.0))
    listener = app.listener("orders")(_load)
    assert (listener.spec.workers, listener.spec.handler.is_batch) == (3, True)


async def _load(orders: list[str]) -> None: ...


def test_the_environment_and_keywords_count_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA", "env:9")
    app = from_text(tmp_path, SPRING)
    assert app.options.bootstrap_servers == "env:9,b:2"
    app = from_text(tmp_path, SPRING, bootstrap_servers="own:1", group_id="own", acks="all")
    assert app.options.bootstrap_servers == "own:1"
    assert app.options.group == "own"
    assert app.options.producer["acks"] == "all"


def test_yaml(tmp_path: Path) -> None:
    text = """
spring:
  kafka:
    bootstrap-servers: [a:1, b:2]
    consumer: {group-id: yaml, enable-auto-commit: false}
    producer: {transaction-id-prefix: tx}
    listener: {ack-mode: count-time, ack-count: 10, ack-time: 2s}
"""
    app = from_text(tmp_path, text, "application.yml")
    assert app.options.bootstrap_servers == "a:1,b:2"
    assert app.options.ack == Ack(AckMode.EVERY, records=10, seconds=2.0)
    assert app.options.transactional_id_prefix == "tx"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("spring.kafka.bootstrap-server=a", "did you mean spring.kafka.bootstrap-servers?"),
        ("spring.kafka.consumer.group=a", "did you mean spring.kafka.consumer.group-id?"),
        ("spring.kafka.listener.ack-mode=never", "write record, batch, time"),
        ("spring.kafka.listener.ack-mode=count", "needs listener.ack-count"),
        ("spring.kafka.listener.concurrency=many", "no number from 1 on"),
        ("spring.kafka.producer.batch-size=big", "'big' is no size"),
        ("spring.kafka.client-id=${NOWHERE}", "${NOWHERE} has no value"),
        ("spring.kafka.consumer.properties.linger.ms=1", "it is an option of producers"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        from_text(tmp_path, line)


def test_keys_without_meaning_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read_properties(
            {
                "spring.kafka.listener.poll-timeout": "1s",
                "spring.kafka.streams.application-id": "x",
                "spring.kafka.consumer.properties.spring.json.trusted.packages": "*",
                "bootstrap.servers": "a:1",
            }
        )
    assert "spring.kafka.listener.poll-timeout changes nothing" in caplog.text
    assert "spring.kafka.streams.application-id changes nothing" in caplog.text
    assert "spring.json.trusted.packages=* changes nothing" in caplog.text
    assert "bootstrap.servers is not read from a file with spring.* keys" in caplog.text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        App.from_properties(tmp_path / "none.properties")
