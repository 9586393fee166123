"""CreateTopics: makes topics, or says whether they could be made."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.config.describe import describe_topic
from ottla.core.catalog import Catalog, NewTopic, Refused, Topic
from ottla.errors import ErrorCode
from ottla.ports import StorageError
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

REQUEST = CreateTopicsRequest


def handle(
    node: Node, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    names = [asked.name for asked in request.topics]
    results: list[CreatableTopicResult] = []
    for asked in request.topics:
        if names.count(asked.name) > 1:
            if all(result.name != asked.name for result in results):
                results.append(
                    _failed(
                        asked, Refused(ErrorCode.INVALID_REQUEST, "the topic is asked for twice")
                    )
                )
            continue
        results.append(_create(node, asked, request.validate_only))
    return CreateTopicsResponse(topics=results)


def _create(node: Node, asked: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    null = [config.name for config in asked.configs if config.value is None]
    if null:
        return _failed(
            asked, Refused(ErrorCode.INVALID_CONFIG, f"no value is given for {', '.join(null)}")
        )
    assigned_to = [assigned.partition_index for assigned in asked.assignments]
    if len(set(assigned_to)) < len(assigned_to):
        return _failed(
            asked, Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
        )
    new = NewTopic(
        asked.name,
        asked.num_partitions,
        asked.replication_factor,
        {assigned.partition_index: assigned.broker_ids for assigned in asked.assignments},
        {config.name: config.value or "" for config in asked.configs},
    )
    try:
        topic = _would_be(node, new) if validate_only else node.create_topic(new)
    except StorageError as error:
        return _failed(asked, Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
    return _failed(asked, topic) if isinstance(topic, Refused) else _created(node, topic)


def _would_be(node: Node, new: NewTopic) -> Topic | Refused:
    changes = node.decide_create(new)
    return changes if isinstance(changes, Refused) else Catalog(changes).topics[new.name]


def _failed(asked: CreatableTopic, refused: Refused) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=asked.name, error_code=refused.error, error_message=refused.message, configs=[]
    )


def _created(node: Node, topic: Topic) -> CreatableTopicResult:
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
        ],
    )
