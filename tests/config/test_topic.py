from __future__ import annotations

import pytest

from ottla.config.options import OptionType, options_of, value_text
from ottla.config.topic import TopicConfig
from ottla.errors import ConfigError

LONG_MAX = "9223372036854775807"

# Kafka 4.0's documented defaults, typed as DescribeConfigs answers them.
KAFKA_DEFAULTS = {
    "cleanup.policy": (OptionType.LIST, "delete"),
    "compression.gzip.level": (OptionType.INT, "-1"),
    "compression.lz4.level": (OptionType.INT, "9"),
    "compression.type": (OptionType.STRING, "producer"),
    "compression.zstd.level": (OptionType.INT, "3"),
    "delete.retention.ms": (OptionType.LONG, "86400000"),
    "file.delete.delay.ms": (OptionType.LONG, "60000"),
    "flush.messages": (OptionType.LONG, LONG_MAX),
    "flush.ms": (OptionType.LONG, LONG_MAX),
    "index.interval.bytes": (OptionType.INT, "4096"),
    "max.compaction.lag.ms": (OptionType.LONG, LONG_MAX),
    "max.message.bytes": (OptionType.INT, "1048588"),
    "message.timestamp.after.max.ms": (OptionType.LONG, "3600000"),
    "message.timestamp.before.max.ms": (OptionType.LONG, LONG_MAX),
    "message.timestamp.type": (OptionType.STRING, "CreateTime"),
    "min.cleanable.dirty.ratio": (OptionType.DOUBLE, "0.5"),
    "min.compaction.lag.ms": (OptionType.LONG, "0"),
    "min.insync.replicas": (OptionType.INT, "1"),
    "retention.bytes": (OptionType.LONG, "-1"),
    "retention.ms": (OptionType.LONG, "604800000"),
    "segment.bytes": (OptionType.INT, "1073741824"),
    "segment.index.bytes": (OptionType.INT, "10485760"),
    "segment.jitter.ms": (OptionType.LONG, "0"),
    "segment.ms": (OptionType.LONG, "604800000"),
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


@pytest.mark.parametrize(
    "name",
    [
        "remote.storage.enable",
        "leader.replication.throttled.replicas",
        "preallocate",
        "unclean.leader.election.enable",
        "local.retention.ms",
    ],
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
