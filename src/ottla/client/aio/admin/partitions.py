"""Partitions: more of them, who leads them, which replicas move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.admin_model import ElectionType, NewPartitions, PartitionReassignment
from ottla.client.aio.admin.requests import Calls, Question, by_topic, name_of, timeout_in_seconds
from ottla.client.aio.admin.results import Answers, results_or_raise, unsupported
from ottla.client.aio.admin.targets import Controller
from ottla.client.aio.admin.topics import FAIL_ON_QUOTA
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
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


class PartitionCalls(Calls):
    """The calls about partitions."""

    @timeout_in_seconds
    async def create_partitions(
        self,
        new_partitions: Mapping[str, NewPartitions | int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        retry_on_quota_violation: bool = True,
    ) -> None:
        """Raises the number of partitions of topics; a plain number is the new total."""

        def build(version: int, names: list[str], limit_ms: int) -> CreatePartitionsRequest:
            topics = [growing(name, new_partitions[name]) for name in names]
            return CreatePartitionsRequest(
                topics=topics, timeout_ms=limit_ms, validate_only=validate_only
            )

        verdicts = {} if retry_on_quota_violation else FAIL_ON_QUOTA
        question = Question(CreatePartitionsRequest, build, read_grown, verdicts=verdicts)
        await self.ask(new_partitions, Controller("topic", "topics"), question, timeout)

    @timeout_in_seconds
    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elects leaders, of all partitions that need it unless some are named.

        False says that a partition was led by the right replica already.
        """
        chosen = None if partitions is None else by_topic(partitions)

        def build(version: int, keys: list[str], limit_ms: int) -> ElectLeadersRequest:
            return electing(election_type, chosen, version, limit_ms)

        question = Question(ElectLeadersRequest, build, read_elected)
        found = await self.ask([_ALL], Controller("of", "elections"), question, timeout)
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
        """The moves of replicas that are under way, of all partitions or of those that are named."""
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

        question = Question(ListPartitionReassignmentsRequest, build, read_reassignments)
        found = await self.ask([_ALL], Controller("of", "lists"), question, timeout)
        return dict(found[_ALL])


def growing(name: str, wanted: NewPartitions | int) -> CreatePartitionsTopic:
    """A topic as CreatePartitions has it."""
    if isinstance(wanted, int):
        return CreatePartitionsTopic(name=name, count=wanted, assignments=None)
    assignments = None
    if wanted.new_assignments is not None:
        assignments = [
            CreatePartitionsAssignment(broker_ids=list(replicas))
            for replicas in wanted.new_assignments
        ]
    return CreatePartitionsTopic(name=name, count=wanted.total_count, assignments=assignments)


def read_grown(response: CreatePartitionsResponse, answers: Answers[str, None]) -> None:
    """Which topics have more partitions now."""
    for topic in response.results:
        answers.take(topic.name, None, topic.error_code, topic.error_message)


def electing(
    election_type: ElectionType,
    topics: Mapping[str, list[int]] | None,
    version: int,
    limit_ms: int,
) -> ElectLeadersRequest:
    """The request to elect leaders."""
    if election_type is not ElectionType.PREFERRED and version < 1:
        raise unsupported(name_of(ElectLeadersRequest), "Electing unclean leaders", "2.4")
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


def read_elected(response: ElectLeadersResponse, answers: Answers[str, Elections]) -> None:
    """What came of the election of each partition."""
    found: dict[TopicPartition, KafkaError | None] = {}
    about: Answers[TopicPartition, None] = Answers(answers.api, "partition", answers.broker)
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            partition = TopicPartition(topic.topic, result.partition_id)
            error = about.error(partition, result.error_code, result.error_message)
            if error.code is ErrorCode.NOT_CONTROLLER:
                answers.refuse(_ALL, ErrorCode.NOT_CONTROLLER, result.error_message)
                return
            found[partition] = None if error.code is ErrorCode.NONE else error
    answers.take(_ALL, found, response.error_code)


def read_reassignments(
    response: ListPartitionReassignmentsResponse,
    answers: Answers[str, Mapping[TopicPartition, PartitionReassignment]],
) -> None:
    """The moves that are under way."""
    found = {
        TopicPartition(topic.name, partition.partition_index): PartitionReassignment(
            tuple(partition.replicas),
            tuple(partition.adding_replicas),
            tuple(partition.removing_replicas),
        )
        for topic in response.topics
        for partition in topic.partitions
    }
    answers.take(_ALL, found, response.error_code, response.error_message)
