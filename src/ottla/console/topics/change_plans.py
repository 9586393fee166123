"""What changes of topics do: creating, deleting, more partitions, deleting records. Plans are made without IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from ottla.client.admin_model.topics import CreatedTopic, TopicDescription
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.http.errors import ApiError, bad_request
from ottla.console.topics.config_rows import ConfigRow, config_rows
from ottla.model import TopicPartition

MAX_GROUPS: Final = 50


def counted(number: int, thing: str) -> str:
    """1 record, 2 records."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def check_same(planned: str | int | None, given: str | int | None) -> None:
    """Raise ApiError if a change is not the one that was shown."""
    if planned != given:
        raise ApiError(
            HTTPStatus.CONFLICT,
            "the topic has changed since this was shown: nothing was done",
            "look at it again",
        )


# Create


@dataclass(frozen=True)
class CreatePlan:
    """The topic as the cluster would create it. What is None the cluster does not tell before."""

    name: str
    partition_count: int | None
    replication_factor: int | None
    configs: list[ConfigRow]
    """Those that are not the defaults."""
    steps: list[str]


def create_plan(created: CreatedTopic, given: Mapping[str, str]) -> CreatePlan:
    """The plan of what the cluster has validated."""
    rows = config_rows((created.configs or {}).values())
    steps = []
    if "compact" in given.get("cleanup.policy", ""):
        steps.append("Writes without a key are refused, because the topic is compacted.")
    return CreatePlan(
        name=created.name,
        partition_count=created.num_partitions,
        replication_factor=created.replication_factor,
        configs=[row for row in rows if row.is_set],
        steps=steps,
    )


# Delete


@dataclass(frozen=True)
class LosingGroup:
    """A group that has offsets in a topic."""

    group_id: str
    state: str | None
    lag: int


@dataclass(frozen=True)
class DeletePlan:
    """What goes when a topic is deleted. Counts are None if they are not known."""

    name: str
    topic_id: str | None
    """What the deletion has to bring, so that no other topic of the same name is deleted."""
    partition_count: int
    record_count: int | None
    size_bytes: int | None
    records_per_second: float | None
    groups: list[LosingGroup]
    """The first of the groups that have offsets there."""
    group_count: int
    open_transactions: list[str]
    steps: list[str]


def delete_plan(
    description: TopicDescription,
    record_count: int | None,
    snapshot: ClusterSnapshot,
    *,
    is_created_on_demand: bool,
) -> DeletePlan:
    """The plan."""
    name = description.name
    groups = losing_groups(snapshot, name)
    transactions = list(snapshot.transactions_of_topic.get(name, ()))
    known = snapshot.topics.get(name)
    steps = [
        f"{counted(len(description.partitions), 'partition')} with all records "
        f"{'is' if len(description.partitions) == 1 else 'are'} deleted. That cannot be undone.",
    ]
    if groups:
        steps.append(
            f"{counted(len(groups), 'group')} {'loses its' if len(groups) == 1 else 'lose their'} offsets there."
        )
    active = [each.group_id for each in groups if each.state not in (None, "Empty", "Dead")]
    if active:
        steps.append(
            f"{counted(len(active), 'group')} with members: consumers that read the topic get errors."
        )
    if known is not None and known.records_per_second:
        steps.append("Records are written to it now: its producers get errors.")
    if transactions:
        steps.append(
            f"{counted(len(transactions), 'transaction')} with this topic "
            f"{'is' if len(transactions) == 1 else 'are'} open now."
        )
    if is_created_on_demand:
        steps.append(
            "The cluster creates topics on demand (auto.create.topics.enable): a client that still uses it can bring "
            "it back, empty and with default configs."
        )
    return DeletePlan(
        name=name,
        topic_id=None if description.topic_id is None else str(description.topic_id),
        partition_count=len(description.partitions),
        record_count=record_count,
        size_bytes=None if known is None else known.size_bytes,
        records_per_second=None if known is None else known.records_per_second,
        groups=groups[:MAX_GROUPS],
        group_count=len(groups),
        open_transactions=transactions[:MAX_GROUPS],
        steps=steps,
    )


def losing_groups(snapshot: ClusterSnapshot, topic: str) -> list[LosingGroup]:
    """The groups with offsets in a topic, the one with the largest lag first."""
    found = []
    for group_id in snapshot.groups_of_topic.get(topic, ()):
        group = snapshot.groups.get(group_id)
        if group is not None:
            state = None if group.state is None else str(group.state)
            found.append(LosingGroup(group_id, state, group.lags.get(topic, 0)))
    return found


# More partitions


@dataclass(frozen=True)
class PartitionsPlan:
    """What more partitions change."""

    topic: str
    before_count: int
    """What the change has to bring: so that it is refused if partitions were added in between."""
    after_count: int
    steps: list[str]


def partitions_plan(
    topic: str, before: int, after: int, cleanup_policy: str | None, snapshot: ClusterSnapshot
) -> PartitionsPlan:
    """The plan; fewer partitions, or as many, are an error."""
    if after <= before:
        raise bad_request(
            f"{topic} has {counted(before, 'partition')}: give a larger number",
            "partitions cannot be taken away",
        )
    added = after - before
    steps = [
        f"{counted(added, 'partition')} {'is' if added == 1 else 'are'} added, and cannot be taken away again.",
        f"Keys move: producers choose the partition of a key by its hash and the number of partitions, so most keys "
        f"go to another of the {after:,} partitions from now on. Records that are there stay where they are.",
        "The records of a key are no longer in one partition: consumers may see new ones before old ones.",
    ]
    if cleanup_policy is not None and "compact" in cleanup_policy:
        steps.append(
            "The topic is compacted: the last record of a key in its former partition stays for ever beside the new "
            "ones."
        )
    groups = len(snapshot.groups_of_topic.get(topic, ()))
    if groups:
        steps.append(
            f"{counted(groups, 'group')} with offsets here: running consumers rebalance when they see the new "
            "partitions, and begin there by auto.offset.reset: with latest they skip what is written before."
        )
    return PartitionsPlan(topic, before, after, steps)


# Delete records


@dataclass(frozen=True)
class SkippingGroup:
    """A group that has not read some of the records that go."""

    group_id: str
    committed_offset: int
    unread_count: int


@dataclass(frozen=True)
class DeletedStretch:
    """What goes from a partition."""

    partition: int
    start_offset: int
    end_offset: int
    before_offset: int
    """The new start."""
    offset_count: int
    """The offsets that go; markers count, and compacted records."""
    groups: list[SkippingGroup]


@dataclass(frozen=True)
class DeleteRecordsPlan:
    """What goes when records are deleted."""

    topic: str
    partitions: list[DeletedStretch]
    offset_count: int
    steps: list[str]


def delete_records_plan(
    topic: str,
    wanted: Mapping[int, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    snapshot: ClusterSnapshot,
) -> DeleteRecordsPlan:
    """The plan; an offset behind the end is an error. -1 stands for the end."""
    stretches = []
    for partition, before_offset in sorted(wanted.items()):
        key = TopicPartition(topic, partition)
        start, end = starts[key], ends[key]
        to = end if before_offset == -1 else before_offset
        if not 0 <= to <= end:
            raise bad_request(
                f"partition {partition} of {topic} has offsets up to {end}, and {to} is not one of them",
                "give an offset from the start to the end, which is not deleted itself",
            )
        stretches.append(
            DeletedStretch(
                partition=partition,
                start_offset=start,
                end_offset=end,
                before_offset=max(start, to),
                offset_count=max(0, to - start),
                groups=_skipping(snapshot, key, start, to),
            )
        )
    count = sum(each.offset_count for each in stretches)
    steps = _steps_of(topic, stretches, count)
    return DeleteRecordsPlan(topic, stretches, count, steps)


def _steps_of(topic: str, stretches: Sequence[DeletedStretch], count: int) -> list[str]:
    if not count:
        return ["Nothing goes: these offsets are deleted already."]
    steps = [
        f"The records of {counted(count, 'offset')} in "
        f"{counted(sum(each.offset_count > 0 for each in stretches), 'partition')} of {topic} are deleted. "
        "That cannot be undone."
    ]
    unread = sum(group.unread_count for each in stretches for group in each.groups)
    names = {group.group_id for each in stretches for group in each.groups}
    if names:
        steps.append(
            f"{counted(len(names), 'group')} {'has' if len(names) == 1 else 'have'} not read all of them: "
            f"{counted(unread, 'offset')} {'is' if unread == 1 else 'are'} lost to "
            f"{'it' if len(names) == 1 else 'them'}. Consumers go on by auto.offset.reset: with latest they skip "
            "what is left as well."
        )
    return steps


def _skipping(
    snapshot: ClusterSnapshot, key: TopicPartition, start: int, to: int
) -> list[SkippingGroup]:
    found = []
    for group_id in snapshot.groups_of_topic.get(key.topic, ()):
        group = snapshot.groups.get(group_id)
        committed = None if group is None else (group.committed or {}).get(key)
        if committed is not None and max(committed, start) < to:
            found.append(SkippingGroup(group_id, committed, to - max(committed, start)))
    return sorted(found, key=lambda each: (-each.unread_count, each.group_id))[:MAX_GROUPS]
