"""Rows of `ottla groups describe --offsets`: committed offsets, ends of logs and lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import consumer_of
from ottla.cli.errors import line_of
from ottla.cli.terminal.output import columns, say
from ottla.client.admin_model.offsets import IsolationLevel, OffsetSpec
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.inspection.lag import READER_OPTIONS, LagCounter, Span
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin_model.groups import GroupDescription, MemberDescription
    from ottla.client.blocking.admin import Admin
    from ottla.client.model import OffsetAndMetadata

_PARTITION: Final = columns(group="GROUP", topic="TOPIC", partition="PARTITION")
_REST: Final = columns(
    current_offset="CURRENT-OFFSET",
    log_end_offset="LOG-END-OFFSET",
    lag="LAG",
    consumer_id="CONSUMER-ID",
    host="HOST",
    client_id="CLIENT-ID",
)
OFFSETS: Final = (*_PARTITION, *_REST)
VERBOSE_OFFSETS: Final = (*_PARTITION, *columns(leader_epoch="LEADER-EPOCH"), *_REST)
_GONE: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def offset_rows(
    admin: Admin, groups: Mapping[str, GroupDescription], arguments: Arguments
) -> list[dict[str, Any]]:
    """A row for each partition that a member has or that has a committed offset."""
    committed = admin.list_consumer_group_offsets(list(groups)) if groups else {}
    level = IsolationLevel[arguments.isolation.upper()]
    rows = [
        row
        for name, group in groups.items()
        for row in _rows_of(
            group, {each: at for each, at in committed[name].items() if at is not None}
        )
    ]
    ends = _end_offsets(admin, rows, level)
    reader = partial(consumer_of, arguments, isolation_level=arguments.isolation, **READER_OPTIONS)
    with LagCounter(reader) as counter:
        for name in groups:
            _fill_in([row for row in rows if row["group"] == name], ends, counter)
    if counter.refusal is not None:
        say(f"ottla: records could not be read, LAG counts offsets: {line_of(counter.refusal)}")
    return rows


def _rows_of(
    group: GroupDescription, committed: Mapping[TopicPartition, OffsetAndMetadata]
) -> list[dict[str, Any]]:
    readers: dict[TopicPartition, MemberDescription | None] = dict.fromkeys(committed)
    readers |= {partition: member for member in group.members for partition in member.assignment}
    return [
        {
            "group": group.group_id,
            "topic": partition.topic,
            "partition": partition.partition,
            "current_offset": committed[partition].offset if partition in committed else None,
            "leader_epoch": committed[partition].leader_epoch if partition in committed else None,
            "log_end_offset": None,
            "lag": None,
            "offset_lag": None,
            "consumer_id": member.member_id if member else None,
            "host": member.host if member else None,
            "client_id": member.client_id if member else None,
        }
        for partition, member in sorted(readers.items(), key=lambda item: item[0])
    ]


def _end_offsets(
    admin: Admin, rows: Iterable[Mapping[str, Any]], level: IsolationLevel
) -> Mapping[TopicPartition, int]:
    """The end offsets of partitions; None for topics that were deleted."""
    partitions = {TopicPartition(row["topic"], row["partition"]): None for row in rows}
    if not partitions:
        return {}
    try:
        found = admin.list_offsets(
            dict.fromkeys(partitions, OffsetSpec.LATEST), isolation_level=level
        )
    except PartialFailureError as error:
        found = error.results
        if any(each.code is not _GONE for each in error.errors.values()):
            raise
    except KafkaError as error:
        if error.code is not _GONE:
            raise
        found = {}
    return {partition: listed.offset for partition, listed in found.items()}


def _fill_in(
    rows: list[dict[str, Any]], ends: Mapping[TopicPartition, int], counter: LagCounter
) -> None:
    """Add the end offsets and the lag to the rows."""
    spans: dict[TopicPartition, Span] = {}
    for row in rows:
        partition = TopicPartition(row["topic"], row["partition"])
        row["log_end_offset"] = ends.get(partition)
        if row["current_offset"] is not None and partition in ends:
            spans[partition] = Span(row["current_offset"], ends[partition])
            row["offset_lag"] = ends[partition] - row["current_offset"]
    lags = counter.lags(spans)
    for row in rows:
        row["lag"] = lags.get(TopicPartition(row["topic"], row["partition"]))
