"""CreateTopics: creates topics, or says whether they could be created."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from ottla.access import Operation
from ottla.broker.loop.loop_share import Steps
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.metering import partition_permit
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import (
    has_cluster_right,
    may_see_topic_configs,
    refuse_topic,
)
from ottla.broker.security.caller import Caller
from ottla.core.catalog import METADATA_TOPIC, NewTopic, Topic
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
TOPICS_PER_STEP = 64

_DENIED = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def handle(
    node: Node, request: CreateTopicsRequest, context: RequestContext
) -> Reply[CreateTopicsResponse]:
    return node.cluster.share.answer(_respond(node, request, context), FIRST_TOPICS)


def _respond(
    node: Node, request: CreateTopicsRequest, context: RequestContext
) -> Steps[CreateTopicsResponse]:
    denied = yield from _denied(node, request, context.caller)
    invalid: dict[str, Refused] = {}
    for asked in request.topics:
        refused = _check(asked)
        if refused is not None:
            invalid[asked.name] = refused
    wanted = [_new_topic(asked) for asked in request.topics if asked.name not in denied]
    permit = partition_permit(context, FIRST_VERSION_WITH_STRICT_QUOTA)
    outcome = yield from node.topics.create_requested(
        wanted, invalid, request.validate_only, permit
    )
    outcome |= denied
    results = []
    for name in dict.fromkeys(asked.name for asked in request.topics):
        yield None
        results.append(_result(node, name, outcome[name], context))
    return CreateTopicsResponse(topics=results)


def _denied(
    node: Node, request: CreateTopicsRequest, caller: Caller
) -> Generator[None, None, dict[str, Refused]]:
    """The topics that the client may not create; one that is asked for twice is refused for that, and Kafka's own
    catalog for its name.
    """
    denied: dict[str, Refused] = {}
    if has_cluster_right(node, caller, Operation.CREATE):
        return denied
    times = Counter(asked.name for asked in request.topics)
    for number, (name, count) in enumerate(times.items()):
        if not number % TOPICS_PER_STEP:
            yield
        may_be_denied = count == 1 and name != METADATA_TOPIC
        if may_be_denied and refuse_topic(node, caller, Operation.CREATE, name) is not None:
            denied[name] = _DENIED
    return denied


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


def _result(
    node: Node, name: str, topic: Topic | Refused, context: RequestContext
) -> CreatableTopicResult:
    if isinstance(topic, Refused):
        return CreatableTopicResult(
            name=name, error_code=topic.error, error_message=topic.message, configs=[]
        )
    if not may_see_topic_configs(node, context.caller, name):
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=ErrorCode.NONE,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=[],
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
        if context.version >= FIRST_VERSION_WITH_CONFIGS
        else [],
    )


API = serve(CreateTopicsRequest, CreateTopicsResponse, handle, max_elements=1 << 16)
