"""What a coordinator of consumer groups is made of."""

from __future__ import annotations

from ottla.broker.coordinator import EventCodec
from ottla.broker.coordinators import Kind
from ottla.config.broker import BrokerConfig
from ottla.core.catalog import GROUPS_TOPIC, NewTopic
from ottla.core.group import records
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import GroupConfig
from ottla.records.compression import Codec

MINUTE_MS = 60_000


def group_kind(config: BrokerConfig) -> Kind[GroupMachine]:
    """Groups as the options of a broker want them."""
    groups = GroupConfig(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * MINUTE_MS,
        retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )
    shape = NewTopic(
        GROUPS_TOPIC,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        {},
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )
    return Kind(
        shape,
        lambda: GroupMachine(groups),
        EventCodec(records.encode, records.decode, Codec(config.offsets_topic_compression_codec)),
        config.offsets_load_buffer_size,
        config.offsets_commit_timeout_ms,
    )
