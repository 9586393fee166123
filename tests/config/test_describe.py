from __future__ import annotations

from ottla.config.broker import BrokerConfig, DynamicOptions
from ottla.config.describe import DescribedOption, describe_broker, describe_topic
from ottla.config.options import ConfigSource, OptionType, options_of
from ottla.config.topic import TopicConfig

STATIC = BrokerConfig.read(
    {"log.retention.hours": "168", "log.segment.bytes": "100", "log.roll.hours": "2"}
)
DYNAMIC = DynamicOptions(
    of_cluster={"log.segment.bytes": "200"}, of_node={"log.segment.bytes": "300"}
)


def by_name(described: list[DescribedOption]) -> dict[str, DescribedOption]:
    return {one.name: one for one in described}


def test_all_options_are_described_once() -> None:
    assert [one.name for one in describe_topic(STATIC, {})] == list(options_of(TopicConfig))
    assert [one.name for one in describe_broker(STATIC)] == list(options_of(BrokerConfig))


def test_an_option_of_the_topic_shows_what_it_overrides() -> None:
    one = by_name(describe_topic(STATIC, {"segment.bytes": " 400"}, DYNAMIC))["segment.bytes"]
    assert (one.value, one.source) == ("400", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert one.synonyms == (
        ("segment.bytes", "400", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("log.segment.bytes", "300", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("log.segment.bytes", "200", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.segment.bytes", "100", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),
    )
    assert not one.is_default
    assert not one.read_only
    assert one.type is OptionType.INT
    assert one.documentation == options_of(TopicConfig)["segment.bytes"].doc


def test_a_value_given_at_its_default_is_still_given() -> None:
    one = by_name(describe_topic(STATIC, {}))["retention.ms"]
    assert (one.value, one.source) == ("604800000", ConfigSource.STATIC_BROKER_CONFIG)
    assert one.synonyms[0] == ("log.retention.hours", "168", ConfigSource.STATIC_BROKER_CONFIG)


def test_an_untouched_option_is_a_default() -> None:
    one = by_name(describe_topic(BrokerConfig(), {}))["retention.ms"]
    assert (one.value, one.source, one.is_default) == (
        "604800000",
        ConfigSource.DEFAULT_CONFIG,
        True,
    )
    assert one.synonyms == (("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),)


def test_an_option_without_effect_shows_kafkas_default_and_what_was_set() -> None:
    plain = by_name(describe_topic(STATIC, {}, DYNAMIC))["preallocate"]
    default = ("log.preallocate", "false", ConfigSource.DEFAULT_CONFIG)
    assert (plain.value, plain.source, plain.synonyms) == ("false", default[2], (default,))
    given = by_name(describe_topic(STATIC, {"preallocate": "true"}, DYNAMIC))["preallocate"]
    own = ("preallocate", "true", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert (given.value, given.source, given.synonyms) == ("true", own[2], (own, default))
    assert "It has no effect in Ottla: " in given.documentation
    # Where Kafka has no broker option for it either, there is nothing to list.
    assert by_name(describe_topic(STATIC, {}))["remote.storage.enable"].synonyms == ()


def test_the_source_is_where_the_value_came_from_when_units_compete() -> None:
    # A stronger unit wins over a weaker one even if the weaker one was altered later.
    static = BrokerConfig.read({"log.flush.interval.ms": "5"})
    one = by_name(describe_topic(static, {}))["flush.ms"]
    assert (one.value, one.synonyms[0].name) == ("5", "log.flush.interval.ms")
    assert one.source is ConfigSource.STATIC_BROKER_CONFIG


def test_broker_options_say_whether_they_can_be_altered() -> None:
    described = by_name(describe_broker(STATIC, DYNAMIC))
    assert described["node.id"].read_only
    assert described["node.id"].source is ConfigSource.DEFAULT_CONFIG
    assert not described["log.segment.bytes"].read_only
    assert described["log.segment.bytes"].value == "300"
    assert described["log.segment.bytes"].source is ConfigSource.DYNAMIC_BROKER_CONFIG


def test_an_unset_broker_option_has_no_value() -> None:
    described = by_name(describe_broker(STATIC))
    assert described["log.roll.ms"].value is None
    assert described["log.roll.ms"].synonyms == ()
    assert described["log.roll.ms"].is_default
    assert described["log.roll.hours"].source is ConfigSource.STATIC_BROKER_CONFIG
