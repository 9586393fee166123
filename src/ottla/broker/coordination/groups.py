"""Group coordinators: their state machine, their topic, and how a handler asks one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.broker.coordination.coordinator import Coordinator, Parked, When, unchanged
from ottla.broker.coordination.coordinators import Coordinators, Kind
from ottla.broker.coordination.machine_log import ColumnsEncoding, EventCodec
from ottla.broker.crashpoints import CrashPoint
from ottla.broker.options import NodeOptions
from ottla.broker.requests.delivered_response import PlacedRequest
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.topic_deletion import forget_topic
from ottla.core.catalog import GROUPS_TOPIC, Catalog, NewTopic
from ottla.core.group import records
from ottla.core.group.events import OffsetsCommitted
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import GroupConfig
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket, Turn
from ottla.errors import ErrorCode
from ottla.records.compression import Codec

T = TypeVar("T")
R = TypeVar("R")

MINUTE_MS = 60_000
CRASH_POINTS = (CrashPoint.BEFORE_GROUP_APPEND, CrashPoint.AFTER_GROUP_APPEND)
OFFSET_COLUMNS = ColumnsEncoding(OffsetsCommitted, records.encode_offsets)


def group_kind(
    options: NodeOptions, catalog: Catalog, check_pattern: Callable[[str], str | None]
) -> Kind[GroupMachine]:
    """The group coordinators of a broker with these options; `check_pattern` returns the problem of a pattern."""
    config = options.config
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
        lambda: GroupMachine(groups, catalog, options.consumer_group_config, check_pattern),
        EventCodec(
            records.encode,
            records.decode,
            Codec(config.offsets_topic_compression_codec),
            lambda event: CRASH_POINTS,
            OFFSET_COLUMNS,
        ),
        config.offsets_load_buffer_size,
        config.offsets_commit_timeout_ms,
    )


def forget_deleted_topics(catalog: Catalog, coordinator: Coordinator[GroupMachine]) -> None:
    """Makes a coordinator that was just loaded forget topics whose deletion is not complete."""
    deleting = list(catalog.deleting.values())
    if deleting:
        coordinator.ask(
            lambda groups, turn, _: [forget_topic(groups, turn, deleted) for deleted in deleting],
            unchanged,
            When.LOADED,
        )


def find_group(
    groups: Coordinators[GroupMachine], group_id: str
) -> Coordinator[GroupMachine] | Refused:
    """The coordinator of a group with members; without a name there can be none."""
    return groups.find(group_id) if group_id else Refused(ErrorCode.INVALID_GROUP_ID)


def ask_group(
    groups: Coordinators[GroupMachine],
    group_id: str,
    decide: Callable[[GroupMachine, Turn, Ticket], T | Refused | Parked],
    respond: Callable[[T | Refused], R],
) -> NowOrLater[R]:
    """Lets the coordinator of a group with members decide, if it is on this node (`Coordinator.ask`)."""
    coordinator = find_group(groups, group_id)
    if isinstance(coordinator, Refused):
        return respond(coordinator)
    return coordinator.ask(decide, respond)


def ask_group_placed(
    groups: Coordinators[GroupMachine],
    group_id: str,
    decide: Callable[[GroupMachine, Turn, Ticket], Any],
    place: PlacedRequest,
) -> None:
    """As `ask_group`, for a plain request."""
    coordinator = find_group(groups, group_id)
    if isinstance(coordinator, Refused):
        place.answer(coordinator)
    else:
        coordinator.ask_placed(decide, place)
