"""Committed offsets as OffsetFetch, OffsetCommit and OffsetDelete carry them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.aio.admin.requests import by_topic, name_of
from ottla.client.aio.admin.results import AT_COORDINATOR, Answers, unsupported
from ottla.client.model import OffsetAndMetadata
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

_NO_GENERATION = -1
# Errors of a partition that are about the whole group: it has to be asked again.
_OF_THE_GROUP = (
    *AT_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)

# We ask in the name of nobody: what codes about members mean then.
_REASONS: Mapping[int, str] = {
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "The group has members, and only they may commit: stop its consumers first, or wait until their "
        "session.timeout.ms is over."
    ),
}

PartitionErrors = dict[TopicPartition, KafkaError | None]


@dataclass
class GroupOffsets:
    """What a group has committed, and the partitions that could not be read."""

    results: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)
    errors: dict[TopicPartition, KafkaError] = field(default_factory=dict)


def fetching(
    groups: Mapping[str, Mapping[str, list[int]] | None], version: int, require_stable: bool
) -> OffsetFetchRequest:
    """The request for the offsets of groups; None means all partitions."""
    if require_stable and version < 7:
        raise unsupported(name_of(OffsetFetchRequest), "Waiting for stable offsets", "2.5")
    if version >= 8:
        return OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group,
                    topics=None
                    if topics is None
                    else [
                        OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                        for name, numbers in topics.items()
                    ],
                )
                for group, topics in groups.items()
            ],
            require_stable=require_stable,
        )
    ((group, topics),) = groups.items()
    return OffsetFetchRequest(
        group_id=group,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
            for name, numbers in topics.items()
        ],
        require_stable=require_stable,
    )


def read_fetched(
    response: OffsetFetchResponse, groups: list[str], answers: Answers[str, GroupOffsets]
) -> None:
    """What each group has committed."""
    if not response.groups:
        _read_group(groups[0], response.error_code, response.topics, answers)
    for group in response.groups:
        _read_group(group.group_id, group.error_code, group.topics, answers)


def _read_group(
    group_id: str, error_code: int, topics: Iterable[Any], answers: Answers[str, GroupOffsets]
) -> None:
    if error_code:
        answers.refuse(group_id, error_code)
        return
    found = GroupOffsets()
    about: Answers[TopicPartition, None] = Answers(answers.api, "partition", answers.broker)
    for topic in topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code in _OF_THE_GROUP:
                answers.refuse(group_id, partition.error_code)
                return
            if partition.error_code:
                found.errors[key] = about.error(key, partition.error_code)
            elif partition.committed_offset < 0:
                found.results[key] = None
            else:
                epoch = partition.committed_leader_epoch
                found.results[key] = OffsetAndMetadata(
                    partition.committed_offset,
                    partition.metadata or "",
                    None if epoch < 0 else epoch,
                )
    answers.give(group_id, found)


def committing(
    group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommitRequest:
    """The request that commits offsets in the name of nobody."""
    topics = []
    for topic, numbers in by_topic(offsets).items():
        partitions = []
        for number in numbers:
            offset = offsets[TopicPartition(topic, number)]
            epoch = offset.leader_epoch
            partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offset.offset,
                    committed_leader_epoch=-1 if epoch is None else epoch,
                    committed_metadata=offset.metadata,
                )
            )
        topics.append(OffsetCommitRequestTopic(name=topic, partitions=partitions))
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        topics=topics,
    )


def read_committed(response: OffsetCommitResponse, answers: Answers[str, PartitionErrors]) -> None:
    """Which offsets were committed."""
    _read_partitions(response.topics, answers)


def deleting(group_id: str, topics: Mapping[str, list[int]]) -> OffsetDeleteRequest:
    """The request that forgets offsets."""
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                ],
            )
            for name, numbers in topics.items()
        ],
    )


def read_deleted(response: OffsetDeleteResponse, answers: Answers[str, PartitionErrors]) -> None:
    """Which offsets are forgotten."""
    if response.error_code:
        (group_id,) = answers.asked
        answers.refuse(group_id, response.error_code)
        return
    _read_partitions(response.topics, answers)


def _read_partitions(topics: Iterable[Any], answers: Answers[str, PartitionErrors]) -> None:
    (group_id,) = answers.asked
    found: PartitionErrors = {}
    about: Answers[TopicPartition, None] = Answers(answers.api, "partition", answers.broker)
    for topic in topics:
        for partition in topic.partitions:
            if partition.error_code in _OF_THE_GROUP:
                answers.refuse(group_id, partition.error_code)
                return
            key = TopicPartition(topic.name, partition.partition_index)
            error = about.error(key, partition.error_code, _REASONS.get(partition.error_code))
            found[key] = None if error.code is ErrorCode.NONE else error
    answers.give(group_id, found)
