"""OffsetCommit and OffsetFetch in all their versions: building requests and reading responses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, TypeVar
from uuid import UUID

from ottla.client.model import OffsetAndMetadata
from ottla.client.state.group.membership import NO_GENERATION_ID, Generation
from ottla.client.state.metadata import ClusterMetadata
from ottla.errors import AbortableError, ErrorCode, KafkaError, exception_for
from ottla.model import NO_TOPIC_ID, TopicPartition
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

NO_EPOCH = -1
# From this version on requests have topic ids instead of names, so that the id has to be known (KIP-848).
_FIRST_VERSION_WITH_IDS = 10
_FIRST_VERSION_WITH_GROUPS = 8
_TEMPORARY = (ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNKNOWN_TOPIC_ID)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
_V = TypeVar("_V")


class TopicIds(NamedTuple):
    """The topic ids of a request, with which its response is read, even if the metadata has changed."""

    by_name: Mapping[str, UUID]

    @classmethod
    def of(cls, cluster: ClusterMetadata, partitions: Collection[TopicPartition]) -> TopicIds:
        """The ids by the metadata; NO_TOPIC_ID for unknown topics."""
        return cls({tp.topic: cluster.topic_id(tp.topic) for tp in partitions})

    @property
    def at_most(self) -> int | None:
        """The newest version that can be sent; None if all ids are known."""
        return _FIRST_VERSION_WITH_IDS - 1 if NO_TOPIC_ID in self.by_name.values() else None

    def name(self, name: str, topic_id: UUID) -> str:
        """The name of a topic in a response, which has the name or the id."""
        if name:
            return name
        return next((each for each, known in self.by_name.items() if known == topic_id), "")


def commit_request(
    group_id: str,
    generation: Generation,
    group_instance_id: str | None,
    offsets: Offsets,
    ids: TopicIds,
    version: int,
) -> OffsetCommitRequest:
    """An OffsetCommit request."""
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name="" if version >= _FIRST_VERSION_WITH_IDS else topic,
                topic_id=ids.by_name[topic] if version >= _FIRST_VERSION_WITH_IDS else NO_TOPIC_ID,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=position.offset,
                        committed_leader_epoch=NO_EPOCH
                        if position.leader_epoch is None
                        else position.leader_epoch,
                        committed_metadata=position.metadata,
                    )
                    for partition, position in partitions.items()
                ],
            )
            for topic, partitions in _by_topic(offsets).items()
        ],
    )


def commit_errors(
    response: OffsetCommitResponse, ids: TopicIds
) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    """The partitions whose offsets were not committed, with the error code."""
    for topic in response.topics:
        name = ids.name(topic.name, topic.topic_id)
        for partition in topic.partitions:
            if partition.error_code:
                yield (
                    TopicPartition(name, partition.partition_index),
                    ErrorCode(partition.error_code),
                )


def fetch_request(
    group_id: str,
    member: Generation | None,
    partitions: Collection[TopicPartition],
    ids: TopicIds,
    version: int,
) -> OffsetFetchRequest:
    """An OffsetFetch request for these partitions, by a member whose epoch is checked, or by anybody.

    If the version allows it, the coordinator answers UNSTABLE_OFFSET_COMMIT for offsets of open transactions (KIP-447).
    """
    topics = _by_topic(dict.fromkeys(partitions))
    require_stable = version >= 7
    if version < _FIRST_VERSION_WITH_GROUPS:
        return OffsetFetchRequest(
            group_id=group_id,
            topics=[
                OffsetFetchRequestTopic(name=topic, partition_indexes=list(numbers))
                for topic, numbers in topics.items()
            ],
            require_stable=require_stable,
        )
    by_id = version >= _FIRST_VERSION_WITH_IDS
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        member_id=None if member is None else member.member_id,
        member_epoch=NO_GENERATION_ID if member is None else member.generation_id,
        topics=[
            OffsetFetchRequestTopics(
                name="" if by_id else topic,
                topic_id=ids.by_name[topic] if by_id else NO_TOPIC_ID,
                partition_indexes=list(numbers),
            )
            for topic, numbers in topics.items()
        ],
    )
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)


def group_error(response: OffsetFetchResponse, group_id: str) -> ErrorCode:
    """The error code of the whole group."""
    found = next((each for each in response.groups if each.group_id == group_id), response)
    return ErrorCode(found.error_code)


def fetched_offsets(
    response: OffsetFetchResponse, group_id: str, ids: TopicIds
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """The committed offsets, None where there is none; raises the error of a partition."""
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
    failures: dict[TopicPartition, ErrorCode] = {}
    for partition, found in _fetched_partitions(response, group_id, ids):
        if found.error_code:
            failures[partition] = ErrorCode(found.error_code)
        elif found.committed_offset < 0:
            offsets[partition] = None
        else:
            epoch = found.committed_leader_epoch
            offsets[partition] = OffsetAndMetadata(
                found.committed_offset, found.metadata or "", None if epoch < 0 else epoch
            )
    if failures:
        raise _fetch_failure(failures)
    return offsets


def _fetched_partitions(
    response: OffsetFetchResponse, group_id: str, ids: TopicIds
) -> Iterator[tuple[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]:
    for topic in response.topics:
        for old in topic.partitions:
            yield TopicPartition(topic.name, old.partition_index), old
    for group in response.groups:
        if group.group_id == group_id:
            for each in group.topics:
                name = ids.name(each.name, each.topic_id)
                for partition in each.partitions:
                    yield TopicPartition(name, partition.partition_index), partition


def _fetch_failure(failures: Mapping[TopicPartition, ErrorCode]) -> KafkaError:
    """The error to raise: one that is not retriable, if there is any."""
    code = min(failures.values(), key=lambda each: each in _TEMPORARY)
    where = ", ".join(str(each) for each, other in failures.items() if other is code)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        # Not retriable here, as in Kafka's client: the topic does not exist.
        return AbortableError(code, None, {"api": "OffsetFetch", "partition": where})
    return exception_for(code, None, api="OffsetFetch", partition=where)


def _by_topic(partitions: Mapping[TopicPartition, _V]) -> dict[str, dict[int, _V]]:
    topics: dict[str, dict[int, _V]] = {}
    for partition, value in partitions.items():
        topics.setdefault(partition.topic, {})[partition.partition] = value
    return topics
