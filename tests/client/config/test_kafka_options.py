"""Every option of Kafka's clients is served as Kafka has it, or refused with what to do instead."""

from __future__ import annotations

import pytest
from tests.client.java_facts.cases import KafkaOption, kafka_options

from ottla.config.admin import AdminConfig
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import OptionType, find_option, options_of
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigError

CLIENTS: dict[str, type[ClientConfig]] = {
    "producer": ProducerConfig,
    "consumer": ConsumerConfig,
    "admin": AdminConfig,
}
OPTIONS = kafka_options()
IDS = [f"{option.client}-{option.name}" for option in OPTIONS]

OTHER_DEFAULTS = {
    "bootstrap.servers": "Kafka's producers and consumers have no default; here they tell when they start",
    "enable.metrics.push": "only false is available",
    "key.deserializer": "Kafka has no default; here it is bytes",
    "key.serializer": "Kafka has no default; here it is bytes",
    "partition.assignment.strategy": "the same assignors by their short names",
    "receive.buffer.bytes": "the operating system sizes the buffers of consumers: ADR 0075",
    "ssl.keystore.type": "only PEM is available",
    "ssl.truststore.type": "only PEM is available",
    "value.deserializer": "Kafka has no default; here it is bytes",
    "value.serializer": "Kafka has no default; here it is bytes",
}
NOT_KAFKAS = {
    "default.list.key.serde.inner": "an option of Kafka's ListSerializer",
    "default.list.key.serde.type": "an option of Kafka's ListDeserializer",
    "default.list.value.serde.inner": "an option of Kafka's ListSerializer",
    "default.list.value.serde.type": "an option of Kafka's ListDeserializer",
    "deserializer.encoding": "an option of Kafka's StringDeserializer",
    "key.deserializer.encoding": "an option of Kafka's StringDeserializer",
    "key.serializer.encoding": "an option of Kafka's StringSerializer",
    "sasl.password": "librdkafka has it",
    "sasl.username": "librdkafka has it",
    "serializer.encoding": "an option of Kafka's StringSerializer",
    "stall.timeout.ms": "ours",
    "value.deserializer.encoding": "an option of Kafka's StringDeserializer",
    "value.serializer.encoding": "an option of Kafka's StringSerializer",
}


def refusal(option: KafkaOption) -> str | None:
    try:
        find_option(CLIENTS[option.client], option.name)
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize("option", OPTIONS, ids=IDS)
def test_an_option_of_kafka_is_served_or_refused_by_name(option: KafkaOption) -> None:
    reason = refusal(option)
    assert reason is None or "of Kafka that Ottla does not have: " in reason


@pytest.mark.parametrize("option", [o for o in OPTIONS if refusal(o) is None], ids=str)
def test_an_option_that_is_served_has_kafkas_type_and_default(option: KafkaOption) -> None:
    ours = options_of(CLIENTS[option.client])[option.name]
    assert ours.type.name.lower() == option.type or (
        ours.many and option.type == "list" and ours.type is OptionType.CLASS
    )
    if option.name not in OTHER_DEFAULTS:
        assert ours.render(ours.default) == (None if option.default == "null" else option.default)
    if option.name != "client.id":  # Kafka's consumers and producers differ in it
        assert ours.importance == option.importance


def test_exceptions_are_still_exceptions() -> None:
    differing = {
        option.name
        for option in OPTIONS
        if refusal(option) is None
        for ours in (options_of(CLIENTS[option.client])[option.name],)
        if ours.render(ours.default) != (None if option.default == "null" else option.default)
    }
    assert differing == set(OTHER_DEFAULTS)


@pytest.mark.parametrize("client", CLIENTS)
def test_no_other_options_are_invented(client: str) -> None:
    kafkas = {option.name for option in OPTIONS if option.client == client}
    assert {*options_of(CLIENTS[client])} - kafkas <= set(NOT_KAFKAS)


@pytest.mark.parametrize("client", CLIENTS)
def test_no_option_is_served_and_refused(client: str) -> None:
    config_class = CLIENTS[client]
    assert not set(options_of(config_class)) & set(config_class.unsupported)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_option_reads_its_own_default(client: str) -> None:
    for option in options_of(CLIENTS[client]).values():
        text = option.render(option.default)
        if text is not None:
            assert option.read(text) == option.default
        assert option.check(option.default) == option.default


@pytest.mark.parametrize("client", CLIENTS)
def test_every_option_is_documented_in_a_sentence(client: str) -> None:
    for option in options_of(CLIENTS[client]).values():
        assert option.doc[0].isupper() or option.doc.startswith("https"), option.name
        assert option.doc.endswith("."), option.name
