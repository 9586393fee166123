"""Committed offsets of groups: OffsetFetch, OffsetCommit, OffsetDelete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.aio.admin.answers import (
    AT_COORDINATOR,
    Answers,
    ErrorMeaning,
    results_or_raise,
    unsupported_error,
)
from ottla.client.aio.admin.nodes import group_coordinators
from ottla.client.aio.admin.requests import (
    AdminCalls,
    ApiCall,
    Partition,
    by_topic,
    name_of,
    timeout_in_seconds,
    version_at,
)
from ottla.client.aio.admin.topics import as_list
from ottla.client.arguments import positions_of
from ottla.client.model import OffsetAndMetadata
from ottla.client.state.group.group_offsets import TopicIds, commit_request
from ottla.client.state.group.membership import Generation
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
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

# From version 10 on OffsetFetch and OffsetCommit have topic ids (KIP-848); names are enough here.
_LAST_VERSION_WITH_NAMES = 9
_FIRST_VERSION_WITH_GROUPS = 8
# Errors of a partition that concern the whole group, which has to be asked again.
_OF_THE_GROUP = (
    *AT_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)

# Meanings of error codes about members for an admin client, which is not a member.
_REASONS: Mapping[int, str] = {
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "The group has members, and only they may commit: stop its consumers first, or wait until their "
        "session.timeout.ms is over."
    ),
}

PartitionErrors = dict[TopicPartition, KafkaError | None]


@dataclass
class GroupOffsets:
    """The committed offsets of a group, and the errors of partitions."""

    results: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)
    errors: dict[TopicPartition, KafkaError] = field(default_factory=dict)


class GroupOffsetCalls(AdminCalls):
    """The calls about committed offsets."""

    @timeout_in_seconds
    async def list_consumer_group_offsets(
        self,
        groups: Mapping[str, Iterable[tuple[str, int]] | None] | Iterable[str],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        """The committed offsets of groups, for these partitions or for all.

        The value is None where nothing is committed. `require_stable` waits for open transactions.
        """
        if isinstance(groups, Mapping):
            wanted = {
                group: None if some is None else by_topic(some) for group, some in groups.items()
            }
        else:
            wanted = dict.fromkeys(as_list(groups))

        async def ask(
            node: int, some: list[str], limit_ms: float, answers: Answers[str, GroupOffsets]
        ) -> None:
            connection = await self._requests.network.connection(node)
            version = version_at(connection, OffsetFetchRequest, _LAST_VERSION_WITH_NAMES)
            # Before KIP-709 a request has one group.
            batches = (
                [some] if version >= _FIRST_VERSION_WITH_GROUPS else [[group] for group in some]
            )
            for batch in batches:
                asked = {group: wanted[group] for group in batch}
                request = _fetch_request(asked, version, require_stable)
                response = await self._requests.send(connection, request, version, limit_ms)
                _read_fetched(response, batch, answers)

        nodes = group_coordinators()
        meanings = {**nodes.meanings, ErrorCode.UNSTABLE_OFFSET_COMMIT: ErrorMeaning.RETRY}
        api = name_of(OffsetFetchRequest)
        found = await self._requests.gather(wanted, nodes, api, ask, timeout, meanings)
        results: dict[str, dict[TopicPartition, OffsetAndMetadata | None]] = {}
        for group, offsets in found.results.items():
            try:
                results[group] = results_or_raise(
                    offsets.results, offsets.errors, f"partitions of group {group}"
                )
            except KafkaError as error:
                found.errors[group] = error
        return results_or_raise(results, found.errors, nodes.plural)

    @timeout_in_seconds
    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[Partition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets for a group without members."""
        wanted = positions_of(offsets)

        def build(version: int, keys: list[str], limit_ms: int) -> OffsetCommitRequest:
            return commit_request(group_id, Generation(), None, wanted, TopicIds({}), version)

        call = ApiCall(
            OffsetCommitRequest,
            build,
            _read_committed,
            _LAST_VERSION_WITH_NAMES,
            {ErrorCode.REBALANCE_IN_PROGRESS: ErrorMeaning.RETRY},
        )
        found = await self._requests.ask([group_id], group_coordinators(), call, timeout)
        _raise_for_partitions(found[group_id])

    @timeout_in_seconds
    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[tuple[str, int]],
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete committed offsets of a group, of topics to which its members do not subscribe."""
        wanted = by_topic(partitions)

        def build(version: int, keys: list[str], limit_ms: int) -> OffsetDeleteRequest:
            return _delete_request(group_id, wanted)

        call = ApiCall(OffsetDeleteRequest, build, _read_deleted)
        found = await self._requests.ask([group_id], group_coordinators(), call, timeout)
        _raise_for_partitions(found[group_id])


def _raise_for_partitions(found: PartitionErrors) -> None:
    """Raise if any partition has an error."""
    errors = {partition: error for partition, error in found.items() if error is not None}
    done = {partition: None for partition, error in found.items() if error is None}
    results_or_raise(done, errors, "partitions")


def _fetch_request(
    groups: Mapping[str, Mapping[str, list[int]] | None], version: int, require_stable: bool
) -> OffsetFetchRequest:
    """An OffsetFetch request; None stands for all partitions of a group."""
    if require_stable and version < 7:
        raise unsupported_error(name_of(OffsetFetchRequest), "Waiting for stable offsets", "2.5")
    if version >= _FIRST_VERSION_WITH_GROUPS:
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


def _read_fetched(
    response: OffsetFetchResponse, groups: list[str], answers: Answers[str, GroupOffsets]
) -> None:
    """The committed offsets of each group."""
    if not response.groups:
        _read_group(groups[0], response.error_code, response.topics, answers)
    for group in response.groups:
        _read_group(group.group_id, group.error_code, group.topics, answers)


def _read_group(
    group_id: str, error_code: int, topics: Iterable[Any], answers: Answers[str, GroupOffsets]
) -> None:
    if error_code:
        answers.fail(group_id, error_code)
        return
    found = GroupOffsets()
    about: Answers[TopicPartition, None] = Answers(answers.api, "partition", answers.broker)
    for topic in topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code in _OF_THE_GROUP:
                answers.fail(group_id, partition.error_code)
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
    answers.succeed(group_id, found)


def _read_committed(response: OffsetCommitResponse, answers: Answers[str, PartitionErrors]) -> None:
    """The errors of partitions; None where the offset was committed."""
    _read_partitions(response.topics, answers)


def _delete_request(group_id: str, topics: Mapping[str, list[int]]) -> OffsetDeleteRequest:
    """An OffsetDelete request."""
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


def _read_deleted(response: OffsetDeleteResponse, answers: Answers[str, PartitionErrors]) -> None:
    """The errors of partitions; None where the offset was deleted."""
    if response.error_code:
        (group_id,) = answers.asked
        answers.fail(group_id, response.error_code)
        return
    _read_partitions(response.topics, answers)


def _read_partitions(topics: Iterable[Any], answers: Answers[str, PartitionErrors]) -> None:
    (group_id,) = answers.asked
    found: PartitionErrors = {}
    about: Answers[TopicPartition, None] = Answers(answers.api, "partition", answers.broker)
    for topic in topics:
        for partition in topic.partitions:
            if partition.error_code in _OF_THE_GROUP:
                answers.fail(group_id, partition.error_code)
                return
            key = TopicPartition(topic.name, partition.partition_index)
            error = about.error(key, partition.error_code, _REASONS.get(partition.error_code))
            found[key] = None if error.code is ErrorCode.NONE else error
    answers.succeed(group_id, found)
