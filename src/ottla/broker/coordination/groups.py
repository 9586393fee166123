"""Consumer groups: what their coordinators are made of, and where a handler finds one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.coordination.coordinator import Coordinator
from ottla.broker.coordination.coordinators import Kind
from ottla.broker.coordination.event_batches import EventCodec
from ottla.broker.crashpoints import CrashPoint
from ottla.config.broker import BrokerConfig
from ottla.core.catalog import GROUPS_TOPIC, Catalog, Deleted, NewTopic
from ottla.core.group import records
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import GroupConfig
from ottla.core.outcomes import Refused
from ottla.core.turn import Turn
from ottla.errors import ErrorCode
from ottla.records.compression import Codec

if TYPE_CHECKING:
    from ottla.broker.node import Node

MINUTE_MS = 60_000
CRASH_POINTS = (CrashPoint.BEFORE_GROUP_APPEND, CrashPoint.AFTER_GROUP_APPEND)


def group_kind(config: BrokerConfig, catalog: Catalog) -> Kind[GroupMachine]:
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
        lambda: GroupMachine(groups, catalog.topics_by_id.__contains__),
        EventCodec(
            records.encode,
            records.decode,
            Codec(config.offsets_topic_compression_codec),
            lambda event: CRASH_POINTS,
        ),
        config.offsets_load_buffer_size,
        config.offsets_commit_timeout_ms,
    )


def forget_deleted(node: Node, coordinator: Coordinator[GroupMachine]) -> None:
    """Has a coordinator that was just loaded forget topics whose deletion is not finished."""
    for deleted in node.cluster.catalog.deleting.values():
        coordinator.ask_when_loaded(partial(_forget, deleted=deleted))


def _forget(groups: GroupMachine, turn: Turn, deleted: Deleted) -> Refused | None:
    return groups.forget_topic(turn, deleted.name, deleted.deleted_at_ms)


def find_group(node: Node, group_id: str) -> Coordinator[GroupMachine] | Refused:
    """The coordinator of a group with members; without a name there can be none."""
    return node.groups.find(group_id) if group_id else Refused(ErrorCode.INVALID_GROUP_ID)
