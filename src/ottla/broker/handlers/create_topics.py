"""CreateTopics: creates topics, or says whether they could be created."""

from __future__ import annotations

from collections.abc import Generator

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.metering import partition_permit
from ottla.broker.requests.request import Reply, RequestContext
from ottla.core.catalog import NewTopic, Topic
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

FIRST_VERSION_WITH_CONFIGS = 5
FIRST_VERSION_WITH_STRICT_QUOTA = 6
# Each topic takes some time.
FIRST_TOPICS = 8


def handle(
    node: Node, request: CreateTopicsRequest, context: RequestContext
) -> Reply[CreateTopicsResponse]:
    return node.cluster.share.answer(_respond(node, request, context), FIRST_TOPICS)


def _respond(
    node: Node, request: CreateTopicsRequest, context: RequestContext
) -> Generator[None, None, CreateTopicsResponse]:
    invalid: dict[str, Refused] = {}
    for asked in request.topics:
        refused = _check(asked)
        if refused is not None:
            invalid[asked.name] = refused
    wanted = [_new_topic(asked) for asked in request.topics]
    permit = partition_permit(context, FIRST_VERSION_WITH_STRICT_QUOTA)
    outcome = yield from node.topics.create_requested(
        wanted, invalid, request.validate_only, permit
    )
    describes = context.version >= FIRST_VERSION_WITH_CONFIGS
    results = []
    for name in dict.fromkeys(asked.name for asked in request.topics):
        yield
        results.append(_result(node, name, outcome[name], describes))
    return CreateTopicsResponse(topics=results)


def _check(asked: CreatableTopic) -> Refused | None:
    """Refuses a topic that `NewTopic` cannot express."""
    null = [config.name for config in asked.configs if config.value is None]
    if null:
        return Refused(ErrorCode.INVALID_CONFIG, f"no value is given for {', '.join(null)}")
    assigned_to = [assigned.partition_index for assigned in asked.assignments]
    if len(set(assigned_to)) < len(assigned_to):
        return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
    return None


def _new_topic(asked: CreatableTopic) -> NewTopic:
    return NewTopic(
        asked.name,
        asked.num_partitions,
        asked.replication_factor,
        {assigned.partition_index: assigned.broker_ids for assigned in asked.assignments},
        {config.name: config.value or "" for config in asked.configs},
    )


def _result(node: Node, name: str, topic: Topic | Refused, describes: bool) -> CreatableTopicResult:
    if isinstance(topic, Refused):
        return CreatableTopicResult(
            name=name, error_code=topic.error, error_message=topic.message, configs=[]
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=option.name,
                value=option.value,
                read_only=option.read_only,
                config_source=option.source,
                is_sensitive=option.sensitive,
            )
            for option in node.options.describe_topic(topic)
        ]
        if describes
        else [],
    )


API = serve(CreateTopicsRequest, CreateTopicsResponse, handle, max_elements=1 << 16)
