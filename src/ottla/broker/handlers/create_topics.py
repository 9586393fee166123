"""CreateTopics: makes topics, or says whether they could be made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence

from ottla.broker.node import Node
from ottla.broker.requests.request import Answer, RequestContext
from ottla.config.describe import describe_topic
from ottla.core.catalog import MAX_PARTITIONS_PER_REQUEST, Catalog, NewTopic, Topic
from ottla.core.outcomes import Refused
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
# Each of them takes some time.
FIRST_TOPICS = 8


MAX_ELEMENTS = 1 << 16
# As in Kafka: so many topics and partitions can be made by one request.
MAX_RECORDS = 10_000
# So many topics are made in one step, which is one change of the catalog.
TOPICS_PER_STEP = 250


def handle(node: Node, request: CreateTopicsRequest, context: RequestContext) -> Answer:
    return node.cluster.share.answer(_respond(node, request, context.version), FIRST_TOPICS)


def _respond(
    node: Node, request: CreateTopicsRequest, version: int
) -> Generator[None, None, CreateTopicsResponse]:
    times = Counter(asked.name for asked in request.topics)
    asked_for = {asked.name: asked for asked in request.topics}
    outcome: dict[str, Topic | Refused] = {}
    wanted: list[NewTopic] = []
    is_excessive = _records(request, node.config.num_partitions) > MAX_RECORDS
    for name, asked in asked_for.items():
        checked = _checked(asked, times[name], is_excessive)
        if isinstance(checked, Refused):
            outcome[name] = checked
        else:
            wanted.append(checked)
    for start in range(0, len(wanted), TOPICS_PER_STEP):
        yield
        some = wanted[start : start + TOPICS_PER_STEP]
        made = _would_be(node, some) if request.validate_only else node.create_topics(some)
        outcome.update(zip((new.name for new in some), made, strict=True))
    results = []
    for name in asked_for:
        yield
        results.append(_result(node, name, outcome[name], version >= FIRST_VERSION_WITH_CONFIGS))
    return CreateTopicsResponse(topics=results)


def _records(request: CreateTopicsRequest, default_partitions: int) -> int:
    """How many topics and partitions would be made."""
    count = len(request.topics)
    for asked in request.topics:
        partitions = asked.num_partitions if asked.num_partitions > 0 else default_partitions
        if partitions <= MAX_PARTITIONS_PER_REQUEST:  # or else the topic will be refused by itself
            count += len(asked.assignments) or partitions
    return count


def _checked(asked: CreatableTopic, times_asked: int, is_excessive: bool) -> NewTopic | Refused:
    if times_asked > 1:
        return Refused(ErrorCode.INVALID_REQUEST, "the topic is asked for twice")
    if is_excessive:
        return Refused(
            ErrorCode.POLICY_VIOLATION,
            f"one request makes at most {MAX_RECORDS} topics and partitions together",
        )
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
