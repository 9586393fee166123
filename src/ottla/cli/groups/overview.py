"""`ottla groups list`, `describe` and `delete`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import UsageError, attempt
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.groups.lag import LagCounter, Span
from ottla.cli.groups.selection import describe_existing_groups, groups_of, tell
from ottla.cli.terminal.output import Column, Output, columns, repeat, say
from ottla.client.admin_model.groups import GroupState, GroupType
from ottla.client.admin_model.offsets import IsolationLevel, OffsetSpec
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin_model.groups import GroupDescription, MemberDescription
    from ottla.client.blocking.admin import Admin

Word = TypeVar("Word", GroupState, GroupType)

LISTED: Final = columns(group="GROUP", type="TYPE", protocol_type="PROTOCOL", state="STATE")
OFFSETS: Final = columns(
    group="GROUP",
    topic="TOPIC",
    partition="PARTITION",
    current_offset="CURRENT-OFFSET",
    log_end_offset="LOG-END-OFFSET",
    lag="LAG",
    consumer_id="CONSUMER-ID",
    host="HOST",
    client_id="CLIENT-ID",
)
MEMBERS: Final = columns(
    group="GROUP",
    consumer_id="CONSUMER-ID",
    host="HOST",
    client_id="CLIENT-ID",
    partition_count="#PARTITIONS",
)
STATIC: Final = columns(group_instance_id="GROUP-INSTANCE-ID")
ASSIGNMENT: Final = columns(assignment_text="ASSIGNMENT")
STATE: Final = columns(
    group="GROUP",
    coordinator_text="COORDINATOR (ID)",
    assignment_strategy="ASSIGNMENT-STRATEGY",
    state="STATE",
    member_count="#MEMBERS",
)
_GONE: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_REBALANCING: Final = (
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
)


def list_groups(arguments: Arguments) -> int:
    """List the groups by name."""
    output = Output(arguments.form)
    states = [_word(GroupState, text, "state") for text in arguments.state]
    types = [_word(GroupType, text, "type") for text in arguments.type]
    with admin_of(arguments) as admin:

        def show() -> int:
            found = admin.list_groups(states=states, types=types)
            rows = [
                {
                    "group": name,
                    "type": found[name].type,
                    "protocol_type": found[name].protocol_type or None,
                    "state": found[name].state,
                }
                for name in sorted(found)
            ]
            output.rows(LISTED, rows)
            if not rows and output.is_table:
                say("there are no such groups" if states or types else "there are no groups")
            return DONE

        return repeat(arguments.watch, show)


def _word(words: type[Word], text: str, what: str) -> Word:
    """The name of a state or type, in any case."""
    for word in words:
        if str(word.value).lower() == text.lower():
            return word
    raise UsageError(
        f"{text} is not a {what} of groups",
        f"there are {', '.join(str(word.value) for word in words)}",
    )


def describe_groups(arguments: Arguments) -> int:
    """Show the lag, the members or the state of groups."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            found, errors = describe_existing_groups(admin, groups_of(admin, arguments))
            tell(errors)
            for group in found.values():
                _remark(group)
            if arguments.what == "members":
                _show_members(output, found.values(), arguments.verbose)
            elif arguments.what == "state":
                _show(output, STATE, [_state_row(group) for group in found.values()])
            else:
                rows = _offset_rows(admin, found, arguments)
                output.rows(OFFSETS, rows)
                if found and not rows and output.is_table:
                    say("Nothing is committed or assigned.")
            return FAILED if errors else DONE

        return repeat(arguments.watch, show)


def _remark(group: GroupDescription) -> None:
    """The remark of Kafka's tool beside the table."""
    if group.state is GroupState.EMPTY:
        say(f"Consumer group '{group.group_id}' has no active members.")
    elif group.state in _REBALANCING:
        say(f"Warning: Consumer group '{group.group_id}' is rebalancing.")


# Offsets


def _offset_rows(
    admin: Admin, groups: Mapping[str, GroupDescription], arguments: Arguments
) -> list[dict[str, Any]]:
    committed = admin.list_consumer_group_offsets(list(groups)) if groups else {}
    level = IsolationLevel[arguments.isolation.upper()]
    rows = [
        row
        for name, group in groups.items()
        for row in _rows_of(
            group, {each: at.offset for each, at in committed[name].items() if at is not None}
        )
    ]
    ends = _end_offsets(admin, rows, level)
    with LagCounter(arguments) as counter:
        for name in groups:
            _fill_in([row for row in rows if row["group"] == name], ends, counter)
    return rows


def _rows_of(
    group: GroupDescription, committed: Mapping[TopicPartition, int]
) -> list[dict[str, Any]]:
    """A row for each partition that a member has or that has a committed offset."""
    readers: dict[TopicPartition, MemberDescription | None] = dict.fromkeys(committed)
    readers |= {partition: member for member in group.members for partition in member.assignment}
    return [
        {
            "group": group.group_id,
            "topic": partition.topic,
            "partition": partition.partition,
            "current_offset": committed.get(partition),
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


# Members and states


def _show_members(
    output: Output, groups: Iterable[GroupDescription], shows_assignment: bool
) -> None:
    found = list(groups)
    rows = [_member_row(group, member) for group in found for member in group.members]
    shape: tuple[Column, ...] = MEMBERS
    if any(row["group_instance_id"] for row in rows):
        shape = (*shape[:2], *STATIC, *shape[2:])
    if shows_assignment:
        shape += ASSIGNMENT
    _show(output, shape, rows)
    if found and not rows and output.is_table:
        say("There are no members.")


def _show(output: Output, shape: Sequence[Column], rows: Sequence[dict[str, Any]]) -> None:
    """Print rows in which some values have another text in tables."""
    if not output.is_table:
        rows = [
            {key: value for key, value in row.items() if not key.endswith("_text")} for row in rows
        ]
    output.rows(shape, rows)


def _member_row(group: GroupDescription, member: MemberDescription) -> dict[str, Any]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(member.assignment):
        by_topic.setdefault(topic, []).append(number)
    return {
        "group": group.group_id,
        "consumer_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "partition_count": len(member.assignment),
        "assignment": [
            {"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()
        ],
        "assignment_text": ", ".join(
            f"{topic}({','.join(map(str, numbers))})" for topic, numbers in by_topic.items()
        ),
    }


def _state_row(group: GroupDescription) -> dict[str, Any]:
    node = group.coordinator
    return {
        "group": group.group_id,
        "coordinator": {"id": node.id, "host": node.host, "port": node.port},
        "coordinator_text": f"{node.host}:{node.port} ({node.id})",
        "assignment_strategy": group.partition_assignor or None,
        "type": group.type,
        "state": group.state,
        "member_count": len(group.members),
    }


# Deletion


def delete_groups(arguments: Arguments) -> int:
    """Delete groups and their committed offsets."""
    output = Output("table")
    with admin_of(arguments) as admin:
        groups = groups_of(admin, arguments)
        deleted, errors = attempt(groups, lambda: admin.delete_consumer_groups(groups))
        output.lines(f"group {group} deleted" for group in groups if group in deleted)
        tell(errors)
    return FAILED if errors else DONE
