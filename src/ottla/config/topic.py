"""The options of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ottla.config.options import Config, OptionType, option
from ottla.errors import ConfigError

LONG_MAX = (1 << 63) - 1
DAY_MS = 24 * 60 * 60 * 1000

_NO_TIERED_STORAGE = (
    "there is no tiered storage, and without it the option has no effect in Kafka either"
)
_NO_REPLICA_TRAFFIC = "the storage engine replicates, brokers copy nothing"
_THROTTLED_REPLICAS: dict[str, Any] = {
    "type": OptionType.LIST,
    "default": (),
    "pattern": r"(\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?",
    "pattern_text": "* or a list of PARTITION:BROKER",
    "dynamic": True,
    "changes_nothing": _NO_REPLICA_TRAFFIC,
}

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


@dataclass(frozen=True)
class TopicConfig(Config):
    """The effective options of one topic."""

    kind: ClassVar[str] = "topic option"
    unsupported: ClassVar[Mapping[str, str]] = {
        "internal.segment.bytes": "use segment.bytes, which may be small here",
        "message.downconversion.enable": "remove it, only record batches v2 are kept and served",
        "message.format.version": "remove it, the format is always record batches v2",
        "message.timestamp.difference.max.ms": (
            "use message.timestamp.before.max.ms and message.timestamp.after.max.ms"
        ),
    }

    cleanup_policy: tuple[str, ...] = option(
        OptionType.LIST,
        ("delete",),
        choices=("compact", "delete"),
        doc="What happens to old segments: delete drops them by age and size, "
        "compact keeps the last value of each key; both can be given.",
        dynamic=True,
        synonyms=("log.cleanup.policy",),
    )
    compression_gzip_level: int = option(
        OptionType.INT,
        -1,
        at_least=1,
        at_most=9,
        also=-1,
        doc="The level of gzip when compression.type is gzip; -1 is gzip's own default.",
        dynamic=True,
        synonyms=("compression.gzip.level",),
    )
    compression_lz4_level: int = option(
        OptionType.INT,
        9,
        at_least=1,
        at_most=17,
        doc="The level of lz4 when compression.type is lz4.",
        dynamic=True,
        synonyms=("compression.lz4.level",),
    )
    compression_type: str = option(
        OptionType.STRING,
        "producer",
        choices=COMPRESSION_TYPES,
        doc="How record batches are compressed in the log; producer keeps the codec of the producer.",
        dynamic=True,
        synonyms=("compression.type",),
    )
    compression_zstd_level: int = option(
        OptionType.INT,
        3,
        at_least=-131072,
        at_most=22,
        doc="The level of zstd when compression.type is zstd.",
        dynamic=True,
        synonyms=("compression.zstd.level",),
    )
    delete_retention_ms: int = option(
        OptionType.LONG,
        DAY_MS,
        at_least=0,
        doc="How long compaction keeps a tombstone: a consumer that reads from the beginning "
        "within this time sees every deletion.",
        dynamic=True,
        synonyms=("log.cleaner.delete.retention.ms",),
    )
    errors_deadletterqueue_group_enable: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether share groups may use the topic for their dead letters.",
        dynamic=True,
        changes_nothing="there are no share groups",
    )
    file_delete_delay_ms: int = option(
        OptionType.LONG,
        60_000,
        at_least=0,
        doc="How long the file of a deleted segment stays on disk.",
        dynamic=True,
        synonyms=("log.segment.delete.delay.ms",),
    )
    flush_messages: int = option(
        OptionType.LONG,
        LONG_MAX,
        at_least=1,
        doc="After how many records the log is synced to disk; with 1 an acknowledgement waits "
        "for the sync.",
        dynamic=True,
        synonyms=("log.flush.interval.messages",),
    )
    flush_ms: int = option(
        OptionType.LONG,
        LONG_MAX,
        at_least=0,
        doc="How long a record may stay in memory before the log is synced to disk.",
        dynamic=True,
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = option(
        **_THROTTLED_REPLICAS,
        doc="The replicas whose copying is throttled on the follower's side.",
    )
    index_interval_bytes: int = option(
        OptionType.INT,
        4096,
        at_least=0,
        doc="About how many bytes of records there are per entry of the offset index.",
        dynamic=True,
        synonyms=("log.index.interval.bytes",),
    )
    leader_replication_throttled_replicas: tuple[str, ...] = option(
        **_THROTTLED_REPLICAS,
        doc="The replicas whose copying is throttled on the leader's side.",
    )
    local_retention_bytes: int = option(
        OptionType.LONG,
        -2,
        at_least=-2,
        doc="How large the local part of a partition in tiered storage may grow; "
        "-2 stands for retention.bytes.",
        dynamic=True,
        synonyms=("log.local.retention.bytes",),
        changes_nothing=_NO_TIERED_STORAGE,
    )
    local_retention_ms: int = option(
        OptionType.LONG,
        -2,
        at_least=-2,
        doc="How long the local part of a partition in tiered storage is kept; "
        "-2 stands for retention.ms.",
        dynamic=True,
        synonyms=("log.local.retention.ms",),
        changes_nothing=_NO_TIERED_STORAGE,
    )
    max_compaction_lag_ms: int = option(
        OptionType.LONG,
        LONG_MAX,
        at_least=1,
        doc="How long a record may stay uncompacted in a compacted topic.",
        dynamic=True,
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    )
    max_decompressed_message_bytes: int = option(
        OptionType.INT,
        # The longest array that Kafka makes: no limit at all.
        (1 << 31) - 9,
        at_least=0,
        doc="The largest record that a compressed batch may hold, as it is decompressed.",
        dynamic=True,
        synonyms=("max.decompressed.message.bytes",),
        only_default="there is no limit for a single record, "
        "only one for what a whole batch is decompressed to, which follows max.message.bytes",
    )
    max_message_bytes: int = option(
        OptionType.INT,
        1024 * 1024 + 12,
        at_least=0,
        doc="The largest record batch that is accepted, as it is compressed.",
        dynamic=True,
        synonyms=("message.max.bytes",),
    )
    message_timestamp_after_max_ms: int = option(
        OptionType.LONG,
        # Kafka before 4.0 had no limit here (KIP-1030).
        60 * 60 * 1000,
        at_least=0,
        doc="How far a record's CreateTime may lie after the broker's clock.",
        dynamic=True,
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    message_timestamp_before_max_ms: int = option(
        OptionType.LONG,
        LONG_MAX,
        at_least=0,
        doc="How far a record's CreateTime may lie before the broker's clock.",
        dynamic=True,
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_type: str = option(
        OptionType.STRING,
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        doc="Whether a record keeps its producer's timestamp or gets the time of the append.",
        dynamic=True,
        synonyms=("log.message.timestamp.type",),
    )
    min_cleanable_dirty_ratio: float = option(
        OptionType.DOUBLE,
        0.5,
        at_least=0,
        at_most=1,
        doc="The share of the log that must be uncompacted before compaction starts.",
        dynamic=True,
        synonyms=("log.cleaner.min.cleanable.ratio",),
    )
    min_compaction_lag_ms: int = option(
        OptionType.LONG,
        0,
        at_least=0,
        doc="How long a record stays uncompacted at least.",
        dynamic=True,
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    )
    min_insync_replicas: int = option(
        OptionType.INT,
        1,
        at_least=1,
        doc="How many in-sync replicas a produce request with acks=all needs.",
        dynamic=True,
        synonyms=("min.insync.replicas",),
    )
    preallocate: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether the file of a new segment is given its full size at once.",
        dynamic=True,
        synonyms=("log.preallocate",),
        changes_nothing="files grow with what is written to them",
    )
    remote_copy_lag_bytes: int = option(
        OptionType.LONG,
        -1,
        at_least=-1,
        doc="How many bytes of a partition wait before they are copied into tiered storage.",
        dynamic=True,
        synonyms=("log.remote.copy.lag.bytes",),
        changes_nothing=_NO_TIERED_STORAGE,
    )
    remote_copy_lag_ms: int = option(
        OptionType.LONG,
        0,
        at_least=-1,
        doc="How long segments wait before they are copied into tiered storage.",
        dynamic=True,
        synonyms=("log.remote.copy.lag.ms",),
        changes_nothing=_NO_TIERED_STORAGE,
    )
    remote_log_copy_disable: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether copying into tiered storage is stopped.",
        dynamic=True,
        changes_nothing=_NO_TIERED_STORAGE,
    )
    remote_log_delete_on_disable: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether what is in tiered storage is deleted when that is switched off.",
        dynamic=True,
        changes_nothing=_NO_TIERED_STORAGE,
    )
    remote_storage_enable: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether closed segments move into tiered storage.",
        dynamic=True,
        only_default="there is no tiered storage, records stay in the data folder, "
        "which would grow beyond what local.retention.ms and local.retention.bytes promise",
    )
    retention_bytes: int = option(
        OptionType.LONG,
        -1,
        doc="How large a partition may grow before its oldest segments are deleted; "
        "-1 sets no limit.",
        dynamic=True,
        synonyms=("log.retention.bytes",),
    )
    retention_ms: int = option(
        OptionType.LONG,
        7 * DAY_MS,
        at_least=-1,
        doc="How long records are kept before their segment is deleted; -1 keeps them for ever.",
        dynamic=True,
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    segment_bytes: int = option(
        OptionType.INT,
        1 << 30,
        # Kafka's limit until 4.0, which wants 1 MiB (KIP-1030): small segments are handy in tests.
        at_least=14,
        doc="The size at which a segment file is full and the next one begins.",
        dynamic=True,
        synonyms=("log.segment.bytes",),
    )
    segment_index_bytes: int = option(
        OptionType.INT,
        10 * 1024 * 1024,
        at_least=4,
        doc="The size of the offset index at which the next segment begins.",
        dynamic=True,
        synonyms=("log.index.size.max.bytes",),
    )
    segment_jitter_ms: int = option(
        OptionType.LONG,
        0,
        at_least=0,
        doc="The largest random time by which segment.ms is shortened, "
        "so that partitions do not all begin segments at once.",
        dynamic=True,
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_ms: int = option(
        OptionType.LONG,
        7 * DAY_MS,
        at_least=1,
        doc="The age at which a segment is closed and the next one begins, even if it is not full.",
        dynamic=True,
        synonyms=("log.roll.ms", "log.roll.hours"),
    )
    unclean_leader_election_enable: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether a replica that lacks records may become the leader when no other is left.",
        dynamic=True,
        synonyms=("unclean.leader.election.enable",),
        changes_nothing="no replica lacks records, so a permission to lose them is never used",
    )

    def validate(self) -> None:
        """Check the rules between options."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms ({self.min_compaction_lag_ms}) is above "
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms}): lower it or raise the other"
            )

    @property
    def compacts(self) -> bool:
        """Whether compaction removes old values of a key."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether retention removes old segments."""
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The age at which the active segment is closed: compaction, which has a lag limit, never touches it."""
        return (
            min(self.max_compaction_lag_ms, self.segment_ms) if self.compacts else self.segment_ms
        )
