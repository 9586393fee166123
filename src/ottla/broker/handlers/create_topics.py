"""CreateTopics: makes topics, or says whether they could be made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.config.describe import describe_topic
from ottla.core.catalog import Catalog, NewTopic, Refused, Topic
from ottla.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

REQUEST = CreateTopicsRequest
FIRST_VERSION_WITH_CONFIGS = 5


def handle(
    node: Node, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    times = Counter(asked.name for asked in request.topics)
    asked_for = {asked.name: asked for asked in request.topics}
    checked = {
        name: _checked(asked)
        if times[name] == 1
        else Refused(ErrorCode.INVALID_REQUEST, "the topic is asked for twice")
        for name, asked in asked_for.items()
    }
    wanted = [new for new in checked.values() if isinstance(new, NewTopic)]
    made = _would_be(node, wanted) if request.validate_only else node.create_topics(wanted)
    outcome: dict[str, Topic | Refused] = dict(zip((new.name for new in wanted), made, strict=True))
    outcome |= {name: one for name, one in checked.items() if isinstance(one, Refused)}
    describes = context.version >= FIRST_VERSION_WITH_CONFIGS
    return CreateTopicsResponse(
        topics=[_result(node, name, outcome[name], describes) for name in asked_for]
    )


def _checked(asked: CreatableTopic) -> NewTopic | Refused:
    null = [config.name for config in asked.configs if config.value is None]
    if null:
        return Refused(ErrorCode.INVALID_CONFIG, f"no value is given for {', '.join(null)}")
    assigned_to = [assigned.partition_index for assigned in asked.assignments]
    if len(set(assigned_to)) < len(assigned_to):
        return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
    return NewTopic(
        asked.name,
        asked.num_partitions,
        asked.replication_factor,
        {assigned.partition_index: assigned.broker_ids for assigned in asked.assignments},
        {config.name: config.value or "" for config in asked.configs},
    )


def _would_be(node: Node, wanted: Sequence[NewTopic]) -> list[Topic | Refused]:
    """What creating the topics would give, without doing it."""
    decided = [node.decide_create(new) for new in wanted]
    return [
        one if isinstance(one, Refused) else Catalog(one).topics[new.name]
        for new, one in zip(wanted, decided, strict=True)
    ]


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
            for option in describe_topic(node.static_config, topic.config, node.dynamic_options)
        ]
        if describes
        else [],
    )
