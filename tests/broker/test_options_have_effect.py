"""Every option can be set, is shown with its source and default, and does something."""

from __future__ import annotations

import pytest
from tests.broker import option_probes
from tests.broker.conftest import Starter
from tests.broker.group_option_probes import GROUP_PROBES
from tests.broker.option_probes import (
    TOPIC_PROBES,
    Bench,
    alter_broker,
    takes_in_memory,
)
from tests.broker.requests import BROKER, TOPIC, WAIT_SECONDS, create, session_with, set_options
from tests.broker.test_describe_configs import DEFAULT, OF_BROKER, OF_TOPIC, STATIC
from tests.broker.test_describe_configs import options_of as described_options
from tests.broker.txn_option_probes import TRANSACTION_PROBES

from ottla.config.authorization import STANDARD_AUTHORIZER
from ottla.config.broker import BrokerConfig, inherited
from ottla.config.listeners import ListenerConfig
from ottla.config.options import options_of
from ottla.config.topic import TopicConfig
from ottla.errors import ErrorCode

BROKER_PROBES = {**option_probes.BROKER_PROBES, **GROUP_PROBES, **TRANSACTION_PROBES}
TOPIC_OPTIONS = options_of(TopicConfig)
BROKER_OPTIONS = options_of(BrokerConfig)
BROKER_TO_TOPIC = {
    broker_option: topic_option
    for topic_option, known in TOPIC_OPTIONS.items()
    if known.has_effect
    for broker_option in known.synonyms
}
# What Kafka's topics have and what changes nothing here; tests/config/test_topic.py says which these are.
WITHOUT_EFFECT = {name for name, known in TOPIC_OPTIONS.items() if not known.has_effect}
# Compaction has tests of its own, which see what these do to a log that is cleaned.
PROBED_ELSEWHERE = {
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
}
# Options of the cleaner itself, with a value of each that is not its default; its tests see what they do.
CLEANER_OPTIONS = {
    "log.cleaner.backoff.ms": "20000",
    "log.cleaner.dedupe.buffer.size": "1048576",
    "log.cleaner.enable": "false",
    "log.cleaner.io.max.bytes.per.second": "1000000.0",
}
# Options of the consumer protocol, with a value of each that is not its default; test_consumer_group_options.py sees
# what they do.
CONSUMER_GROUP_OPTIONS = {
    "group.consumer.assignment.interval.ms": "2000",
    "group.consumer.assignors": "range",
    "group.consumer.heartbeat.interval.ms": "6000",
    "group.consumer.max.assignment.interval.ms": "2000",
    "group.consumer.max.heartbeat.interval.ms": "6000",
    "group.consumer.max.session.timeout.ms": "50000",
    "group.consumer.max.size": "1",
    "group.consumer.migration.policy": "disabled",
    "group.consumer.min.assignment.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.regex.refresh.interval.ms": "10000",
    "group.consumer.session.timeout.ms": "50000",
    "group.coordinator.rebalance.protocols": "classic",
}
# tests/broker/security sees what these do: options of listeners, and what has an effect with those only.
LISTENER_OPTIONS = {
    "advertised.listeners",
    "listener.security.protocol.map",
    "listeners",
    *(name for name in options_of(ListenerConfig) if not name.startswith("max.connection")),
}
# Options of authorization, with values that go together; security/test_acl_requests.py sees what they do.
AUTHORIZATION_OPTIONS = {
    "allow.everyone.if.no.acl.found": "true",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}
# Options of logins; security/test_logins.py sees what they do.
LOGIN_OPTIONS = {"connection.failed.authentication.delay.ms": "250"}
# Not with a data folder, and so not with the bench of the others.
PROBED_BY_ITSELF = {"ottla.ephemeral.max.bytes"}
# Only with a storage that brokers share; tests/shared_brokers sees what they do.
SHARED_OPTIONS = {"broker.rack", "ottla.peer.advertised.listener", "ottla.peer.listener"}
# What an embedded broker sets by itself.
SET_BY_EMBEDDED = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "listeners": "PLAINTEXT://127.0.0.1:0",
}
# A value of each option that is not its default.
OTHER_VALUES = {
    **{name: probe.value for name, probe in TOPIC_PROBES.items()},
    "delete.retention.ms": "1000",
    "max.compaction.lag.ms": "1000",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "1000",
}


def broker_value(name: str) -> str:
    """A value of a broker option that is not its default."""
    if name in BROKER_PROBES:
        return BROKER_PROBES[name].value
    if name in CLEANER_OPTIONS:
        return CLEANER_OPTIONS[name]
    if name in CONSUMER_GROUP_OPTIONS:
        return CONSUMER_GROUP_OPTIONS[name]
    if name in AUTHORIZATION_OPTIONS:
        return AUTHORIZATION_OPTIONS[name]
    if name in LOGIN_OPTIONS:
        return LOGIN_OPTIONS[name]
    if name in PROBED_BY_ITSELF:
        return "1000000"
    topic_option = BROKER_TO_TOPIC[name]
    if topic_option in TOPIC_PROBES and name in TOPIC_PROBES[topic_option].broker_values:
        return TOPIC_PROBES[topic_option].broker_values[name]
    return OTHER_VALUES[topic_option]


def patience(way: str) -> float:
    return option_probes.PATIENCE_SECONDS if way == "not set" else WAIT_SECONDS


def test_every_option_is_in_the_tables() -> None:
    assert {*TOPIC_PROBES, *PROBED_ELSEWHERE} == set(TOPIC_OPTIONS) - WITHOUT_EFFECT
    in_tables = {*BROKER_PROBES, *PROBED_BY_ITSELF, *BROKER_TO_TOPIC}
    elsewhere = {
        *CLEANER_OPTIONS,
        *CONSUMER_GROUP_OPTIONS,
        *AUTHORIZATION_OPTIONS,
        *LISTENER_OPTIONS,
        *LOGIN_OPTIONS,
        *SHARED_OPTIONS,
    }
    assert set(BROKER_OPTIONS) == in_tables | elsewhere


@pytest.mark.parametrize("name", TOPIC_PROBES)
@pytest.mark.parametrize("way", ["not set", "created with it", "altered"])
def test_a_topic_option_has_effect(start: Starter, topic: str, name: str, way: str) -> None:
    probe = TOPIC_PROBES[name]
    broker = start()
    with session_with(broker) as connection:
        own = {name: probe.value} if way == "created with it" else {}
        create(connection, topic, config={**probe.also, **own})
        if way == "altered":
            assert set_options(connection, topic, {name: probe.value}) == ErrorCode.NONE
        seen = probe.probe(Bench(broker, connection, topic, patience(way)))
    assert seen == (probe.without if way == "not set" else probe.seen)


@pytest.mark.parametrize(
    "name", [name for name, topic in BROKER_TO_TOPIC.items() if topic not in PROBED_ELSEWHERE]
)
@pytest.mark.parametrize("way", ["started with it", "altered"])
def test_a_broker_option_is_the_default_of_its_topic_option(
    start: Starter, topic: str, name: str, way: str
) -> None:
    probe = TOPIC_PROBES[BROKER_TO_TOPIC[name]]
    options = {name: broker_value(name)}
    if way == "altered" and not BROKER_OPTIONS[name].dynamic:
        with session_with(start()) as connection:
            assert alter_broker(connection, options) is not ErrorCode.NONE
        return
    broker = start(options=options if way == "started with it" else {})
    with session_with(broker) as connection:
        if way == "altered":
            assert alter_broker(connection, options) is ErrorCode.NONE
        create(connection, topic, config=probe.also)
        assert probe.probe(Bench(broker, connection, topic)) == probe.seen


@pytest.mark.parametrize("name", BROKER_PROBES)
@pytest.mark.parametrize("way", ["not set", "started with it", "altered"])
def test_a_broker_option_has_effect(start: Starter, topic: str, name: str, way: str) -> None:
    probe = BROKER_PROBES[name]
    own = {name: probe.value}
    if way == "altered" and not BROKER_OPTIONS[name].dynamic:
        with session_with(start()) as connection:
            assert alter_broker(connection, own) is not ErrorCode.NONE
        return
    broker = start(options={**probe.also, **(own if way == "started with it" else {})})
    with session_with(broker) as connection:
        if name != "default.replication.factor":
            create(connection, topic, config=probe.topic_options)
        if way == "altered":
            assert alter_broker(connection, own) is ErrorCode.NONE
        seen = probe.probe(Bench(broker, connection, topic, patience(way)))
    assert seen == (probe.without if way == "not set" else probe.seen)


def test_the_memory_engine_has_a_limit() -> None:
    assert takes_in_memory(1_000_000)
    assert not takes_in_memory(500)


def test_every_topic_option_is_shown_with_source_and_default(start: Starter, topic: str) -> None:
    defaults = BrokerConfig()
    with session_with(start()) as connection:
        create(connection, topic)
        shown = described_options(connection, TOPIC, topic)
        assert set(shown) == set(TOPIC_OPTIONS)
        for name, known in TOPIC_OPTIONS.items():
            expected = known.render(inherited(defaults, name).value)
            assert (shown[name].value, shown[name].config_source) == (expected, DEFAULT), name
        for name, value in OTHER_VALUES.items():
            if name == "max.compaction.lag.ms":
                value = "2000"  # not below min.compaction.lag.ms
            assert set_options(connection, topic, {name: value}) == ErrorCode.NONE, name
            option = described_options(connection, TOPIC, topic)[name]
            assert (option.value, option.config_source) == (value, OF_TOPIC)


def test_every_broker_option_is_shown_with_source_and_default(start: Starter) -> None:
    with session_with(start()) as connection:
        shown = described_options(connection, BROKER, "1")
        assert set(shown) == set(BROKER_OPTIONS)
        for name, known in BROKER_OPTIONS.items():
            default = (known.render(known.default), DEFAULT)
            value = (SET_BY_EMBEDDED[name], STATIC) if name in SET_BY_EMBEDDED else default
            option = shown[name]
            shown_value = (option.value, option.config_source)
            assert (shown_value, option.read_only) == (value, not known.dynamic), name


@pytest.mark.parametrize(
    "name", [name for name in BROKER_OPTIONS if name not in {*LISTENER_OPTIONS, *SHARED_OPTIONS}]
)
def test_a_broker_option_that_is_set_is_shown_with_its_source(start: Starter, name: str) -> None:
    value = broker_value(name)
    node = value if name == "node.id" else "1"
    options = AUTHORIZATION_OPTIONS if name in AUTHORIZATION_OPTIONS else {name: value}
    broker = start(options=options)
    with session_with(broker) as connection:
        option = described_options(connection, BROKER, node)[name]
        assert (option.value, option.config_source) == (value, STATIC)
        if BROKER_OPTIONS[name].dynamic:
            assert alter_broker(connection, {name: value}) is ErrorCode.NONE
            option = described_options(connection, BROKER, node)[name]
            assert (option.value, option.config_source) == (value, OF_BROKER)
