"""Partitions: add them, elect leaders, reassign replicas, delete records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin_model.topics import ElectionType, NewPartitions, PartitionReassignment
from ottla.client.aio.admin.answers import Answers, results_or_raise, unsupported_error
from ottla.client.aio.admin.nodes import Controller, Leaders
from ottla.client.aio.admin.requests import (
    AdminCalls,
    ApiCall,
    Partition,
    by_topic,
    name_of,
    timeout_in_seconds,
)
from ottla.client.aio.admin.topics import FAIL_ON_QUOTA
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

_ALL = "all"

Elections = Mapping[TopicPartition, KafkaError | None]


class PartitionCalls(AdminCalls):
    """The calls about partitions and their records."""

    @timeout_in_seconds
    async def create_partitions(
        self,
        new_partitions: Mapping[str, NewPartitions | int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        retry_on_quota_violation: bool = True,
    ) -> None:
        """Add partitions to topics; a plain number is the new total."""

        def build(version: int, names: list[str], limit_ms: int) -> CreatePartitionsRequest:
            topics = [_create_partitions_topic(name, new_partitions[name]) for name in names]
            return CreatePartitionsRequest(
                topics=topics, timeout_ms=limit_ms, validate_only=validate_only
            )

        meanings = {} if retry_on_quota_violation else FAIL_ON_QUOTA
        call = ApiCall(CreatePartitionsRequest, build, _read_created, meanings=meanings)
        await self._requests.ask(new_partitions, Controller("topic", "topics"), call, timeout)

    @timeout_in_seconds
    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect the leaders of these partitions, or of all that need it.

        The value is False if the right replica was the leader already.
        """
        chosen = None if partitions is None else by_topic(partitions)

        def build(version: int, keys: list[str], limit_ms: int) -> ElectLeadersRequest:
            return _elect_request(election_type, chosen, version, limit_ms)

        call = ApiCall(ElectLeadersRequest, build, _read_elected)
        found = await self._requests.ask([_ALL], Controller("of", "elections"), call, timeout)
        results: dict[TopicPartition, bool] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        for partition, error in found[_ALL].items():
            if error is None or error.code is ErrorCode.ELECTION_NOT_NEEDED:
                results[partition] = error is None
            else:
                errors[partition] = error
        return results_or_raise(results, errors, "partitions")

    @timeout_in_seconds
    async def list_partition_reassignments(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The reassignments that are under way, of these partitions or of all."""
        topics = None if partitions is None else by_topic(partitions)

        def build(
            version: int, keys: list[str], limit_ms: int
        ) -> ListPartitionReassignmentsRequest:
            chosen = None
            if topics is not None:
                chosen = [
                    ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                    for name, numbers in topics.items()
                ]
            return ListPartitionReassignmentsRequest(timeout_ms=limit_ms, topics=chosen)

        call = ApiCall(ListPartitionReassignmentsRequest, build, _read_reassignments)
        found = await self._requests.ask([_ALL], Controller("of", "lists"), call, timeout)
        return dict(found[_ALL])

    @timeout_in_seconds
    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[Partition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Move partitions to these replicas, the preferred leader first; None cancels a reassignment under way."""
        wanted = {
            TopicPartition(*partition): replicas for partition, replicas in reassignments.items()
        }

        def build(
            version: int, some: list[TopicPartition], limit_ms: int
        ) -> AlterPartitionReassignmentsRequest:
            if not allow_replication_factor_change and version < 1:
                raise unsupported_error(
                    name_of(AlterPartitionReassignmentsRequest),
                    "Keeping the replication factor",
                    "4.1",
                )
            return _reassign_request(
                {key: wanted[key] for key in some}, allow_replication_factor_change, limit_ms
            )

        call = ApiCall(AlterPartitionReassignmentsRequest, build, _read_reassigned)
        await self._requests.ask(wanted, Controller("partition", "partitions"), call, timeout)

    @timeout_in_seconds
    async def delete_records(
        self, before_offsets: Mapping[Partition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset, or all with -1; returns the new start offsets."""
        wanted = {
            TopicPartition(*partition): offset for partition, offset in before_offsets.items()
        }

        def build(version: int, some: list[TopicPartition], limit_ms: int) -> DeleteRecordsRequest:
            return _delete_records_request({key: wanted[key] for key in some}, limit_ms)

        call = ApiCall(DeleteRecordsRequest, build, _read_deleted)
        return await self._requests.ask(wanted, Leaders(), call, timeout)


def _create_partitions_topic(name: str, wanted: NewPartitions | int) -> CreatePartitionsTopic:
    """A topic of a CreatePartitions request."""
    if isinstance(wanted, int):
        return CreatePartitionsTopic(name=name, count=wanted, assignments=None)
    assignments = None
    if wanted.new_assignments is not None:
        assignments = [
            CreatePartitionsAssignment(broker_ids=list(replicas))
            for replicas in wanted.new_assignments
        ]
    return CreatePartitionsTopic(name=name, count=wanted.total_count, assignments=assignments)


def _read_created(response: CreatePartitionsResponse, answers: Answers[str, None]) -> None:
    """The topics that have more partitions now."""
    for topic in response.results:
        answers.complete(topic.name, None, topic.error_code, topic.error_message)


def _elect_request(
    election_type: ElectionType,
    topics: Mapping[str, list[int]] | None,
    version: int,
    limit_ms: int,
) -> ElectLeadersRequest:
    """An ElectLeaders request."""
    if election_type is not ElectionType.PREFERRED and version < 1:
        raise unsupported_error(name_of(ElectLeadersRequest), "Electing unclean leaders", "2.4")
    return ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=(
            None
            if topics is None
            else [
                TopicPartitions(topic=name, partitions=numbers) for name, numbers in topics.items()
            ]
        ),
        timeout_ms=limit_ms,
    )


def _read_elected(response: ElectLeadersResponse, answers: Answers[str, Elections]) -> None:
    """The outcome of each election; None for a new leader."""
    found: dict[TopicPartition, KafkaError | None] = {}
    about: Answers[TopicPartition, None] = Answers(answers.api, "partition", answers.broker)
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            partition = TopicPartition(topic.topic, result.partition_id)
            error = about.error(partition, result.error_code, result.error_message)
            if error.code is ErrorCode.NOT_CONTROLLER:
                answers.fail(_ALL, ErrorCode.NOT_CONTROLLER, result.error_message)
                return
            found[partition] = None if error.code is ErrorCode.NONE else error
    answers.complete(_ALL, found, response.error_code)


def _read_reassignments(
    response: ListPartitionReassignmentsResponse,
    answers: Answers[str, Mapping[TopicPartition, PartitionReassignment]],
) -> None:
    """The reassignments that are under way."""
    found = {
        TopicPartition(topic.name, partition.partition_index): PartitionReassignment(
            tuple(partition.replicas),
            tuple(partition.adding_replicas),
            tuple(partition.removing_replicas),
        )
        for topic in response.topics
        for partition in topic.partitions
    }
    answers.complete(_ALL, found, response.error_code, response.error_message)


def _reassign_request(
    reassignments: Mapping[TopicPartition, Sequence[int] | None],
    allow_replication_factor_change: bool,
    limit_ms: int,
) -> AlterPartitionReassignmentsRequest:
    """An AlterPartitionReassignments request."""
    topics = []
    for topic, numbers in by_topic(reassignments).items():
        replicas = {number: reassignments[TopicPartition(topic, number)] for number in numbers}
        topics.append(
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=number, replicas=None if some is None else list(some)
                    )
                    for number, some in replicas.items()
                ],
            )
        )
    return AlterPartitionReassignmentsRequest(
        timeout_ms=limit_ms,
        allow_replication_factor_change=allow_replication_factor_change,
        topics=topics,
    )


def _read_reassigned(
    response: AlterPartitionReassignmentsResponse, answers: Answers[TopicPartition, None]
) -> None:
    """The partitions whose reassignment has begun."""
    if response.error_code:
        for key in answers.asked:
            answers.fail(key, response.error_code, response.error_message)
        return
    for topic in response.responses:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            answers.complete(key, None, partition.error_code, partition.error_message)


def _delete_records_request(
    offsets: Mapping[TopicPartition, int], limit_ms: int
) -> DeleteRecordsRequest:
    """A DeleteRecords request."""
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(
                        partition_index=number, offset=offsets[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
        timeout_ms=limit_ms,
    )


def _read_deleted(response: DeleteRecordsResponse, answers: Answers[TopicPartition, int]) -> None:
    """The new start offset of each partition."""
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            answers.complete(key, partition.low_watermark, partition.error_code)
