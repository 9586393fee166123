"""The options of a group: Kafka's names and defaults, the broker's limits, and what is refused."""

from __future__ import annotations

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.describe import describe_group
from ottla.config.group import GroupOptions, check_group_options, group_options, within_limits
from ottla.config.options import ConfigSource, options_of, value_text
from ottla.errors import ConfigError

# Kafka 4.3's, with the option of the broker that sets the default.
KAFKA_OPTIONS = {
    "consumer.assignment.interval.ms": ("1000", "group.consumer.assignment.interval.ms"),
    "consumer.heartbeat.interval.ms": ("5000", "group.consumer.heartbeat.interval.ms"),
    "consumer.session.timeout.ms": ("45000", "group.consumer.session.timeout.ms"),
    "share.assignment.interval.ms": ("1000", "group.share.assignment.interval.ms"),
    "share.auto.offset.reset": ("latest", "share.auto.offset.reset"),
    "share.delivery.count.limit": ("5", "group.share.delivery.count.limit"),
    "share.heartbeat.interval.ms": ("5000", "group.share.heartbeat.interval.ms"),
    "share.isolation.level": ("read_uncommitted", "share.isolation.level"),
    "share.partition.max.record.locks": ("2000", "group.share.partition.max.record.locks"),
    "share.record.lock.duration.ms": ("30000", "group.share.record.lock.duration.ms"),
    "share.renew.acknowledge.enable": ("true", "share.renew.acknowledge.enable"),
    "share.session.timeout.ms": ("45000", "group.share.session.timeout.ms"),
    "streams.assignment.interval.ms": ("1000", "group.streams.assignment.interval.ms"),
    "streams.heartbeat.interval.ms": ("5000", "group.streams.heartbeat.interval.ms"),
    "streams.initial.rebalance.delay.ms": ("3000", "group.streams.initial.rebalance.delay.ms"),
    "streams.num.standby.replicas": ("0", "group.streams.num.standby.replicas"),
    "streams.session.timeout.ms": ("45000", "group.streams.session.timeout.ms"),
}


def test_a_group_is_described_as_by_kafka() -> None:
    described = describe_group(BrokerConfig(), {})
    assert {
        option.name: (option.value, option.synonyms[0].name) for option in described
    } == KAFKA_OPTIONS
    assert {option.source for option in described} == {ConfigSource.DEFAULT_CONFIG}
    assert not any(option.read_only for option in described)


def test_the_sources_of_an_option_are_the_group_and_then_the_broker() -> None:
    broker = BrokerConfig.read({"group.consumer.session.timeout.ms": "50000"})
    described = describe_group(broker, {"consumer.session.timeout.ms": "55000"})
    (option,) = [option for option in described if option.name == "consumer.session.timeout.ms"]
    assert (option.value, option.source) == ("55000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert [tuple(synonym) for synonym in option.synonyms] == [
        ("consumer.session.timeout.ms", "55000", ConfigSource.DYNAMIC_GROUP_CONFIG),
        ("group.consumer.session.timeout.ms", "50000", ConfigSource.STATIC_BROKER_CONFIG),
        ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT_CONFIG),
    ]


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"consumer.heartbeat.interval.ms": "4999"},
         r"consumer.heartbeat.interval.ms \(4999\) must be greater than or equal to "
         r"group.consumer.min.heartbeat.interval.ms \(5000\)"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "must be less than or equal to"),
        ({"consumer.session.timeout.ms": "44999"}, "group.consumer.min.session.timeout.ms"),
        ({"consumer.session.timeout.ms": "60001"}, "group.consumer.max.session.timeout.ms"),
        ({"consumer.assignment.interval.ms": "15001"}, "group.consumer.max.assignment.interval.ms"),
        ({"consumer.assignment.interval.ms": "-1"}, "at least 0"),
        ({"consumer.session.timeout.ms": "soon"}, "a whole number"),
        ({"consumer.session.timeout": "50000"}, r"did you mean consumer.session.timeout.ms\?"),
        ({"share.session.timeout.ms": "50000"}, "there are no share groups"),
        ({"streams.num.standby.replicas": "1"}, "there are no streams groups"),
    ],
)  # fmt: skip
def test_options_that_a_group_may_not_have(own: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_group_options(BrokerConfig(), own)


def test_a_session_is_longer_than_a_heartbeat_interval() -> None:
    broker = BrokerConfig.read(
        {
            "group.consumer.min.session.timeout.ms": "6000",
            "group.consumer.session.timeout.ms": "20000",
        }
    )
    check_group_options(broker, {"consumer.session.timeout.ms": "6000"})
    with pytest.raises(ConfigError, match=r"must be greater than consumer\.heartbeat"):
        check_group_options(
            broker,
            {"consumer.session.timeout.ms": "15000", "consumer.heartbeat.interval.ms": "15000"},
        )


def test_limits_that_the_broker_got_later_hold_for_what_was_set_before() -> None:
    set_before = {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "5000"}
    broker = BrokerConfig.read(
        {
            "group.consumer.max.session.timeout.ms": "50000",
            "group.consumer.min.heartbeat.interval.ms": "6000",
            "group.consumer.heartbeat.interval.ms": "7000",
        }
    )
    effective = within_limits(broker, group_options(broker, set_before))
    assert effective.consumer_session_timeout_ms == 50000
    assert effective.consumer_heartbeat_interval_ms == 6000


def test_what_changes_nothing_keeps_its_default() -> None:
    for name, known in options_of(GroupOptions).items():
        assert known.has_effect == name.startswith("consumer.")
        default = value_text(GroupOptions(), name)
        assert default is not None
        check_group_options(BrokerConfig(), {name: default})
