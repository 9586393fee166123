"""Topics: create, delete, list, describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from ottla.client.admin_model.configs import ConfigEntry
from ottla.client.admin_model.topics import CreatedTopic, NewTopic, TopicDescription, TopicListing
from ottla.client.aio.admin.answers import AT_CONTROLLER, Answers, ErrorMeaning, unsupported_error
from ottla.client.aio.admin.nodes import AnyNode, Controller
from ottla.client.aio.admin.requests import AdminCalls, ApiCall, timeout_in_seconds, version_at
from ottla.client.aio.admin.topic_descriptions import (
    TopicPages,
    described_by_metadata,
    topic_id_of,
)
from ottla.config.options import ConfigSource
from ottla.errors import AbortableError, ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

TopicName = TypeVar("TopicName", str, UUID, str | UUID)

AllTopics: TypeAlias = Mapping[str, TopicDescription]

_ALL = "all topics"
_NOT_SAID = -1
PARTITIONS_PER_RESPONSE = 2000


class TopicCalls(AdminCalls):
    """The calls about topics."""

    @timeout_in_seconds
    async def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        retry_on_quota_violation: bool = True,
    ) -> dict[str, CreatedTopic]:
        """Create topics; with `validate_only` only check whether they could be created."""
        wanted: dict[str, NewTopic] = {}
        for topic in topics:
            if not isinstance(topic, NewTopic):
                raise TypeError(f"{topic!r} is no NewTopic: write NewTopic(name, num_partitions=…)")
            if wanted.setdefault(topic.name, topic) is not topic:
                raise ValueError(f"topic {topic.name!r} is given twice")

        def build(version: int, names: list[str], limit_ms: int) -> CreateTopicsRequest:
            some = [_creatable_topic(wanted[name], version) for name in names]
            return CreateTopicsRequest(
                topics=some, timeout_ms=limit_ms, validate_only=validate_only
            )

        meanings = {} if retry_on_quota_violation else FAIL_ON_QUOTA
        call = ApiCall(CreateTopicsRequest, build, _read_created, meanings=meanings)
        return await self._requests.ask(wanted, Controller("topic", "topics"), call, timeout)

    @timeout_in_seconds
    async def delete_topics(
        self,
        topics: Iterable[str | UUID] | UUID,
        *,
        timeout: float | None = None,
        retry_on_quota_violation: bool = True,
    ) -> None:
        """Delete topics, by name or id."""

        def build(version: int, some: list[str | UUID], limit_ms: int) -> DeleteTopicsRequest:
            return _delete_request(some, version, limit_ms)

        meanings = {} if retry_on_quota_violation else FAIL_ON_QUOTA
        call = ApiCall(DeleteTopicsRequest, build, _read_deleted, meanings=meanings)
        await self._requests.ask(as_list(topics), Controller("topic", "topics"), call, timeout)

    @timeout_in_seconds
    async def list_topics(
        self, *, list_internal: bool = False, timeout: float | None = None
    ) -> dict[str, TopicListing]:
        """All topics by name; internal topics only with `list_internal`."""

        def build(version: int, names: list[str], limit_ms: int) -> MetadataRequest:
            return MetadataRequest(topics=None, allow_auto_topic_creation=False)

        call = ApiCall(MetadataRequest, build, _read_listed)
        found = await self._requests.ask([_ALL], AnyNode("of", "lists"), call, timeout)
        return {
            name: listing
            for name, listing in found[_ALL].items()
            if list_internal or not listing.is_internal
        }

    @timeout_in_seconds
    async def describe_topics(
        self,
        topics: Iterable[TopicName],
        *,
        include_authorized_operations: bool = False,
        partition_size_limit_per_response: int = PARTITIONS_PER_RESPONSE,
        timeout: float | None = None,
    ) -> dict[TopicName, TopicDescription]:
        """Partitions, leaders and replicas of topics, by name or id.

        Named topics are described in pages (KIP-966) if the broker supports that.
        """
        wanted = as_list(topics)
        found = await self._describe_topics(
            wanted,
            include_authorized_operations,
            partition_size_limit_per_response,
            timeout,
        )
        return {topic: found[topic] for topic in wanted}

    @timeout_in_seconds
    async def describe_all_topics(
        self,
        *,
        list_internal: bool = False,
        partition_size_limit_per_response: int = PARTITIONS_PER_RESPONSE,
        timeout: float | None = None,
    ) -> dict[str, TopicDescription]:
        """Partitions, leaders and replicas of all topics by name; internal topics only with `list_internal`.

        They come in pages (KIP-966) if the broker supports that, so that no response is huge.
        """

        async def ask(
            node: int, keys: list[str], limit_ms: float, answers: Answers[str, AllTopics]
        ) -> None:
            found: Answers[str, TopicDescription] = Answers("DescribeTopics", "topic")
            if await self._supports_pages(node):
                await self._fill(
                    TopicPages(None, partition_size_limit_per_response), node, limit_ms, found
                )
            else:
                request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
                response = await self._requests.call_with(node, request, limit_ms)
                names = [topic.name for topic in response.topics if topic.name is not None]
                described_by_metadata(response, names, found)
            answers.succeed(_ALL, found.results)

        nodes: AnyNode[str] = AnyNode("of", "topics")
        every = await self._requests.ask_by([_ALL], nodes, "DescribeTopics", ask, timeout)
        return {
            name: topic
            for name, topic in every[_ALL].items()
            if list_internal or not topic.is_internal
        }

    async def _describe_topics(
        self,
        topics: Iterable[str | UUID],
        include_authorized_operations: bool,
        partitions_per_response: int,
        timeout: float | None,
    ) -> dict[str | UUID, TopicDescription]:
        async def ask(
            node: int,
            some: list[str | UUID],
            limit_ms: float,
            answers: Answers[str | UUID, TopicDescription],
        ) -> None:
            names = [topic for topic in some if isinstance(topic, str)]
            rest = some
            if names and await self._supports_pages(node):
                pages = TopicPages(names, partitions_per_response)
                await self._fill(pages, node, limit_ms, answers, include_authorized_operations)
                rest = [topic for topic in some if isinstance(topic, UUID)]
            if rest:
                response = await self._requests.call(
                    node,
                    MetadataRequest,
                    lambda version: _describe_request(rest, version, include_authorized_operations),
                    limit_ms,
                )
                described_by_metadata(response, rest, answers)

        nodes: AnyNode[str | UUID] = AnyNode("topic", "topics")
        return await self._requests.ask_by(topics, nodes, "DescribeTopics", ask, timeout)

    async def _fill(
        self,
        pages: TopicPages,
        node: int,
        limit_ms: float,
        answers: Answers[Any, TopicDescription],
        include_authorized_operations: bool = False,
    ) -> None:
        """Ask for one page after the other."""
        while (request := pages.next_request()) is not None:
            pages.add(await self._requests.call_with(node, request, limit_ms))
        pages.finish(answers, self._requests.network.cluster.nodes, include_authorized_operations)

    async def _supports_pages(self, node: int) -> bool:
        """Whether the node supports DescribeTopicPartitions."""
        connection = await self._requests.network.connection(node)
        try:
            version_at(connection, DescribeTopicPartitionsRequest)
        except AbortableError:
            return False
        # Its responses have only the ids of replicas.
        await self._requests.know_nodes((), self._requests.config.request_timeout_ms)
        return True


# For callers that do not want to wait until a quota allows the request.
FAIL_ON_QUOTA = {**AT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED: ErrorMeaning.FAIL}


def as_list(topics: Iterable[TopicName] | TopicName) -> list[TopicName]:
    """A list of names or ids; a single one counts as a list."""
    if isinstance(topics, str | UUID):
        return [topics]
    return list(topics)


def _creatable_topic(topic: NewTopic, version: int) -> CreatableTopic:
    """A topic of a CreateTopics request."""
    assignments = topic.replicas_assignments
    uses_defaults = assignments is None and None in (topic.num_partitions, topic.replication_factor)
    if uses_defaults and version < 4:
        raise unsupported_error("CreateTopics", "Leaving counts to the broker's defaults", "2.4")
    return CreatableTopic(
        name=topic.name,
        num_partitions=_NOT_SAID if topic.num_partitions is None else topic.num_partitions,
        replication_factor=(
            _NOT_SAID if topic.replication_factor is None else topic.replication_factor
        ),
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
            for partition, replicas in (assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def _read_created(response: CreateTopicsResponse, answers: Answers[str, CreatedTopic]) -> None:
    """The topics that were created."""
    for topic in response.topics:
        created = CreatedTopic(
            topic.name,
            topic_id_of(topic.topic_id),
            None if topic.num_partitions < 0 else topic.num_partitions,
            None if topic.replication_factor < 0 else topic.replication_factor,
            None
            if topic.configs is None
            else {
                config.name: ConfigEntry(
                    config.name,
                    config.value,
                    ConfigSource(config.config_source),
                    config.is_sensitive,
                    config.read_only,
                )
                for config in topic.configs
            },
        )
        answers.complete(topic.name, created, topic.error_code, topic.error_message)


def _delete_request(topics: list[str | UUID], version: int, limit_ms: int) -> DeleteTopicsRequest:
    """A DeleteTopics request."""
    if version >= 6:
        states = [
            DeleteTopicState(topic_id=topic)
            if isinstance(topic, UUID)
            else DeleteTopicState(name=topic)
            for topic in topics
        ]
        return DeleteTopicsRequest(topics=states, timeout_ms=limit_ms)
    names = [topic for topic in topics if isinstance(topic, str)]
    if len(names) < len(topics):
        raise unsupported_error("DeleteTopics", "Deleting topics by id", "2.8")
    return DeleteTopicsRequest(topic_names=names, timeout_ms=limit_ms)


def _read_deleted(response: DeleteTopicsResponse, answers: Answers[str | UUID, None]) -> None:
    """The topics that were deleted."""
    for topic in response.responses:
        # The response has name and id, the key is one of them.
        for key in (topic.name, topic_id_of(topic.topic_id)):
            if key is not None:
                answers.complete(key, None, topic.error_code, topic.error_message)


def _read_listed(
    response: MetadataResponse, answers: Answers[str, Mapping[str, TopicListing]]
) -> None:
    """All topics."""
    listed = {
        topic.name: TopicListing(topic.name, topic_id_of(topic.topic_id), topic.is_internal)
        for topic in response.topics
        if topic.name is not None
    }
    answers.complete(_ALL, listed, response.error_code)


def _describe_request(
    topics: Iterable[str | UUID], version: int, include_authorized_operations: bool
) -> MetadataRequest:
    """A Metadata request for some topics."""
    if include_authorized_operations and version < 8:
        raise unsupported_error("Metadata", "Asking for authorized operations", "2.3")
    wanted = []
    for topic in topics:
        if isinstance(topic, str):
            wanted.append(MetadataRequestTopic(name=topic))
        elif version < 12:
            # Versions 10 and 11 have the field, but brokers respond wrongly (KAFKA-12701).
            raise unsupported_error("Metadata", "Describing topics by id", "3.0")
        else:
            wanted.append(MetadataRequestTopic(topic_id=topic, name=None))
    return MetadataRequest(
        topics=wanted,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=include_authorized_operations,
    )
