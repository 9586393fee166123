"""Rows of `ottla groups describe --members` and `--state`: members, epochs and assignments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.terminal.output import Column, columns

if TYPE_CHECKING:
    from ottla.client.admin_model.groups import GroupDescription, MemberDescription
    from ottla.model import TopicPartition

STATE: Final = columns(
    group="GROUP",
    coordinator_text="COORDINATOR (ID)",
    assignment_strategy="ASSIGNMENT-STRATEGY",
    type="TYPE",
    state="STATE",
    member_count="#MEMBERS",
)
VERBOSE_STATE: Final = (
    *STATE[:-1],
    *columns(group_epoch="GROUP-EPOCH", target_assignment_epoch="TARGET-ASSIGNMENT-EPOCH"),
    STATE[-1],
)
_MEMBERS: Final = columns(
    group="GROUP",
    consumer_id="CONSUMER-ID",
    group_instance_id="GROUP-INSTANCE-ID",
    host="HOST",
    client_id="CLIENT-ID",
    partition_count="#PARTITIONS",
)
_VERBOSE: Final = columns(
    type="TYPE",
    rack="RACK",
    member_epoch="CURRENT-EPOCH",
    assignment_text="CURRENT-ASSIGNMENT",
    target_epoch="TARGET-EPOCH",
    target_assignment_text="TARGET-ASSIGNMENT",
    subscription_text="SUBSCRIPTION",
)
# Columns that are shown only if a member has such a value.
_RARE: Final = ("group_instance_id", "rack")
# The keys of values that tables show in another way than JSON.
_TEXT: Final = "_text"


def member_columns(rows: Iterable[dict[str, Any]], *, is_verbose: bool) -> Sequence[Column]:
    """The columns of these members."""
    found = list(rows)
    shape = (*_MEMBERS, *_VERBOSE) if is_verbose else _MEMBERS
    return [
        column
        for column in shape
        if column.key not in _RARE or any(row[column.key] is not None for row in found)
    ]


def without_texts(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON shows it."""
    return {key: value for key, value in row.items() if not key.endswith(_TEXT)}


def member_row(group: GroupDescription, member: MemberDescription) -> dict[str, Any]:
    """A member, its epoch, and its current and target assignment."""
    return {
        "group": group.group_id,
        "consumer_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "partition_count": len(member.assignment),
        "type": member.type,
        "rack": member.rack_id,
        "member_epoch": member.member_epoch,
        "assignment": _by_topic(member.assignment),
        "assignment_text": _text(member.assignment),
        # All members have the same, as in Kafka's tool: the epoch of the group's assignment.
        "target_epoch": group.target_assignment_epoch,
        "target_assignment": (
            None if member.target_assignment is None else _by_topic(member.target_assignment)
        ),
        "target_assignment_text": _text(member.target_assignment or ()),
        "subscribed_topics": list(member.subscribed_topics),
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "subscription_text": _subscription(member),
    }


def state_row(group: GroupDescription) -> dict[str, Any]:
    """A group, its coordinator and its epochs."""
    node = group.coordinator
    return {
        "group": group.group_id,
        "coordinator": {"id": node.id, "host": node.host, "port": node.port},
        "coordinator_text": f"{node.host}:{node.port} ({node.id})",
        "assignment_strategy": group.partition_assignor or None,
        "type": group.type,
        "state": group.state,
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.target_assignment_epoch,
        "member_count": len(group.members),
    }


def _numbers(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics


def _by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partitions": numbers} for topic, numbers in _numbers(partitions).items()
    ]


def _text(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as Kafka's tool writes them: `orders:0,1;payments:0`."""
    return ";".join(
        f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in _numbers(partitions).items()
    )


def _subscription(member: MemberDescription) -> str:
    """The topics, and the pattern between slashes."""
    words = sorted(member.subscribed_topics)
    if member.subscribed_topic_regex is not None:
        words.append(f"/{member.subscribed_topic_regex}/")
    return ",".join(words)
