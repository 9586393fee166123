from __future__ import annotations

import pytest

from ottla.config.options import OptionType, options_of, value_text
from ottla.config.topic import TopicConfig
from ottla.errors import ConfigError

LONG_MAX = "9223372036854775807"

# Every topic option of Kafka 4.4 with its default, typed as DescribeConfigs answers them.
KAFKA_DEFAULTS = {
    "cleanup.policy": (OptionType.LIST, "delete"),
    "compression.gzip.level": (OptionType.INT, "-1"),
    "compression.lz4.level": (OptionType.INT, "9"),
    "compression.type": (OptionType.STRING, "producer"),
    "compression.zstd.level": (OptionType.INT, "3"),
    "delete.retention.ms": (OptionType.LONG, "86400000"),
    "errors.deadletterqueue.group.enable": (OptionType.BOOLEAN, "false"),
    "file.delete.delay.ms": (OptionType.LONG, "60000"),
    "flush.messages": (OptionType.LONG, LONG_MAX),
    "flush.ms": (OptionType.LONG, LONG_MAX),
    "follower.replication.throttled.replicas": (OptionType.LIST, ""),
    "index.interval.bytes": (OptionType.INT, "4096"),
    "leader.replication.throttled.replicas": (OptionType.LIST, ""),
    "local.retention.bytes": (OptionType.LONG, "-2"),
    "local.retention.ms": (OptionType.LONG, "-2"),
    "max.compaction.lag.ms": (OptionType.LONG, LONG_MAX),
    "max.decompressed.message.bytes": (OptionType.INT, "2147483639"),
    "max.message.bytes": (OptionType.INT, "1048588"),
    "message.timestamp.after.max.ms": (OptionType.LONG, "3600000"),
    "message.timestamp.before.max.ms": (OptionType.LONG, LONG_MAX),
    "message.timestamp.type": (OptionType.STRING, "CreateTime"),
    "min.cleanable.dirty.ratio": (OptionType.DOUBLE, "0.5"),
    "min.compaction.lag.ms": (OptionType.LONG, "0"),
    "min.insync.replicas": (OptionType.INT, "1"),
    "preallocate": (OptionType.BOOLEAN, "false"),
    "remote.copy.lag.bytes": (OptionType.LONG, "-1"),
    "remote.copy.lag.ms": (OptionType.LONG, "0"),
    "remote.log.copy.disable": (OptionType.BOOLEAN, "false"),
    "remote.log.delete.on.disable": (OptionType.BOOLEAN, "false"),
    "remote.storage.enable": (OptionType.BOOLEAN, "false"),
    "retention.bytes": (OptionType.LONG, "-1"),
    "retention.ms": (OptionType.LONG, "604800000"),
    "segment.bytes": (OptionType.INT, "1073741824"),
    "segment.index.bytes": (OptionType.INT, "10485760"),
    "segment.jitter.ms": (OptionType.LONG, "0"),
    "segment.ms": (OptionType.LONG, "604800000"),
    "unclean.leader.election.enable": (OptionType.BOOLEAN, "false"),
}
# Options that are accepted although no value of theirs changes anything, with values that Kafka has for them:
# an addition to this table is a decision (docs/adr/0028).
CHANGE_NOTHING = {
    "errors.deadletterqueue.group.enable": ("false", "true"),
    "follower.replication.throttled.replicas": ("", "*", "0:1", "0:1,17:2"),
    "leader.replication.throttled.replicas": ("", "*", "0:1", "0:1,17:2"),
    "local.retention.bytes": ("-2", "-1", "0", "1073741824"),
    "local.retention.ms": ("-2", "-1", "0", "86400000"),
    "preallocate": ("false", "true"),
    "remote.copy.lag.bytes": ("-1", "0", "1073741824"),
    "remote.copy.lag.ms": ("-1", "0", "86400000"),
    "remote.log.copy.disable": ("false", "true"),
    "remote.log.delete.on.disable": ("false", "true"),
    "unclean.leader.election.enable": ("false", "true"),
}
# Options whose other values would promise what is not done: the default, and a value that is refused.
ONLY_DEFAULT = {
    "max.decompressed.message.bytes": ("2147483639", "1048588"),
    "remote.storage.enable": ("false", "true"),
}


def test_defaults_and_types_are_kafkas() -> None:
    config = TopicConfig()
    ours = {
        name: (known.type, value_text(config, name))
        for name, known in options_of(TopicConfig).items()
    }
    assert ours == KAFKA_DEFAULTS


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("cleanup.policy", "compact, delete", "compact,keep"),
        ("cleanup.policy", "", "delete,delete"),
        ("compression.gzip.level", "-1", "0"),
        ("compression.gzip.level", "9", "10"),
        ("compression.lz4.level", "1", "0"),
        ("compression.lz4.level", "17", "18"),
        ("compression.type", "uncompressed", "none"),
        ("compression.zstd.level", "22", "23"),
        ("compression.zstd.level", "-131072", "-131073"),
        ("flush.messages", "1", "0"),
        ("flush.ms", "0", "-1"),
        ("max.compaction.lag.ms", "1", "0"),
        ("max.message.bytes", "0", "-1"),
        ("message.timestamp.type", "LogAppendTime", "logappendtime"),
        ("min.cleanable.dirty.ratio", "1", "1.1"),
        ("min.insync.replicas", "1", "0"),
        ("retention.bytes", "-5", "9223372036854775808"),
        ("retention.ms", "-1", "-2"),
        ("segment.bytes", "14", "13"),
        ("segment.bytes", "2147483647", "2147483648"),
        ("segment.index.bytes", "4", "3"),
        ("segment.ms", "1", "0"),
    ],
)
def test_ranges_are_kafkas(name: str, accepted: str, refused: str) -> None:
    TopicConfig.read({name: accepted})
    with pytest.raises(ConfigError, match=name):
        TopicConfig.read({name: refused})


def test_the_options_without_effect_are_known_by_name() -> None:
    without = {name for name, known in options_of(TopicConfig).items() if not known.has_effect}
    assert without == {*CHANGE_NOTHING, *ONLY_DEFAULT}


@pytest.mark.parametrize("name", CHANGE_NOTHING)
def test_an_option_that_changes_nothing_takes_every_value_of_kafkas(name: str) -> None:
    for value in CHANGE_NOTHING[name]:
        assert value_text(TopicConfig.read({name: value}), name) == value
    assert "has no effect in Ottla: " in options_of(TopicConfig)[name].documentation


@pytest.mark.parametrize("name", ONLY_DEFAULT)
def test_an_option_that_would_promise_too_much_is_refused_with_the_reason(name: str) -> None:
    accepted, refused = ONLY_DEFAULT[name]
    assert value_text(TopicConfig.read({name: accepted}), name) == accepted
    reason = options_of(TopicConfig)[name].only_default
    with pytest.raises(ConfigError, match=f"^{name}={refused} is refused: {reason}$"):
        TopicConfig.read({name: refused})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("errors.deadletterqueue.group.enable", "yes"),
        ("follower.replication.throttled.replicas", "0"),
        ("leader.replication.throttled.replicas", "*,0:1"),
        ("leader.replication.throttled.replicas", "0:1,x"),
        ("local.retention.bytes", "-3"),
        ("local.retention.ms", "-3"),
        ("max.decompressed.message.bytes", "-1"),
        ("preallocate", "1"),
        ("remote.copy.lag.bytes", "-2"),
        ("remote.copy.lag.ms", "-2"),
        ("remote.storage.enable", "maybe"),
        ("unclean.leader.election.enable", ""),
    ],
)
def test_values_that_kafka_refuses_are_refused_also_where_they_change_nothing(
    name: str, value: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{name}=.* is not valid: it must be "):
        TopicConfig.read({name: value})


@pytest.mark.parametrize(
    "name", ["message.format.version", "message.downconversion.enable", "internal.segment.bytes"]
)
def test_an_option_of_kafka_that_is_not_served_is_refused_as_such(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is a topic option of Kafka that Ottla does not"):
        TopicConfig.read({name: "1"})


def test_compaction_lags_must_not_cross() -> None:
    TopicConfig.read({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(ConfigError, match="lower it or raise the other"):
        TopicConfig.read({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


def test_cleanup_policies_can_be_combined() -> None:
    both = TopicConfig.read({"cleanup.policy": "compact,delete"})
    assert (both.compacts, both.deletes) == (True, True)
    assert (TopicConfig().compacts, TopicConfig().deletes) == (False, True)
