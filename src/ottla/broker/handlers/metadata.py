"""Metadata: brokers, topics, and the leader of each partition."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from uuid import UUID

from ottla import access
from ottla.access import Operation
from ottla.broker.loop.loop_share import Steps
from ottla.broker.node import Node
from ottla.broker.requests.api import MAX_ELEMENTS_IN_SLICES, serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import (
    authorized_operations,
    describable_cluster_operations,
    has_cluster_right,
    may_see_topic,
    refuse_topic,
)
from ottla.broker.security.caller import Caller
from ottla.broker.security.quotas import unlimited
from ottla.core.catalog import Topic
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.types import OPERATIONS_OMITTED, ZERO_UUID

FIRST_VERSION_WITH_NULL_FOR_ALL = 1
FIRST_VERSION_WITH_TOPIC_IDS = 12

# The number of topics that one request creates; the client asks again for the others.
MAX_CREATED = 50
NAMES_PER_STEP = 64
PARTITIONS_PER_STEP = 16


def handle(
    node: Node, request: MetadataRequest, context: RequestContext
) -> Reply[MetadataResponse]:
    return node.cluster.share.answer(_respond(node, request, context))


def _respond(
    node: Node, request: MetadataRequest, context: RequestContext
) -> Steps[MetadataResponse]:
    caller = context.caller
    wanted = request.topics
    if wanted is None or (not wanted and context.version < FIRST_VERSION_WITH_NULL_FOR_ALL):
        topics = []
        for number, topic in enumerate(list(node.cluster.catalog.topics.values())):
            if not number % NAMES_PER_STEP:
                yield None
            if may_see_topic(node, caller, topic.name):
                topics.append((yield from _described(node, topic)))
    else:
        topics = yield from _wanted(node, wanted, request, context)
    if request.include_topic_authorized_operations:
        yield from _add_operations(node, topics, caller)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=node.cluster.rack_of(node_id),
            )
            for node_id, endpoint in node.cluster.addresses_for(context.caller)
        ],
        cluster_id=node.cluster.cluster_id,
        controller_id=node.cluster.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            describable_cluster_operations(node, caller)
            if request.include_cluster_authorized_operations
            else OPERATIONS_OMITTED
        ),
    )


def _add_operations(
    node: Node, topics: list[MetadataResponseTopic], caller: Caller
) -> Generator[None, None, None]:
    """Adds what the caller may do with each topic that it may see."""
    for number, one in enumerate(topics):
        if not number % NAMES_PER_STEP:
            yield
        if one.name and one.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            one.topic_authorized_operations = authorized_operations(
                node, caller, access.topic(one.name)
            )


def _wanted(
    node: Node,
    wanted: list[MetadataRequestTopic],
    request: MetadataRequest,
    context: RequestContext,
) -> Steps[list[MetadataResponseTopic]]:
    """The topics that are asked for, each of them once."""
    unique: dict[tuple[UUID, str | None], MetadataRequestTopic] = {}
    for asked in wanted:
        unique[asked.topic_id, asked.name] = asked
        if not len(unique) % NAMES_PER_STEP:
            yield None
    names = [name for topic_id, name in unique if name is not None and topic_id == ZERO_UUID]
    refused: Mapping[str, Refused] = {}
    if not node.authorizer.is_open:
        refused = yield from _refused(node, names, request, context.caller)
        names = [name for name in names if name not in refused]
    if request.allow_auto_topic_creation:
        meter = context.meter
        permit = unlimited if meter is None else meter.strict_permit_without_wait()
        not_made = yield from node.topics.create_on_first_use(names, MAX_CREATED, permit)
        refused = {**not_made, **refused}
    topics: list[MetadataResponseTopic] = []
    for asked in unique.values():
        if not len(topics) % NAMES_PER_STEP:
            yield None
        topics.append((yield from _answer(node, asked, refused, context)))
    return topics


def _refused(
    node: Node, names: Iterable[str], request: MetadataRequest, caller: Caller
) -> Generator[None, None, dict[str, Refused]]:
    """The topics that the caller may not see, whether they exist or not, or that it may not create."""
    creates = (
        request.allow_auto_topic_creation and node.options.config.auto_create_topics_enable
    ) and not has_cluster_right(node, caller, Operation.CREATE)
    refused: dict[str, Refused] = {}
    for number, name in enumerate(names):
        if not number % NAMES_PER_STEP:
            yield
        one = refuse_topic(node, caller, Operation.DESCRIBE, name)
        if one is None and creates and name not in node.cluster.catalog.topics:
            one = refuse_topic(node, caller, Operation.CREATE, name)
        if one is not None:
            refused[name] = one
    return refused


def _answer(
    node: Node,
    asked: MetadataRequestTopic,
    refused: Mapping[str, Refused],
    context: RequestContext,
) -> Generator[None, None, MetadataResponseTopic]:
    if context.version < FIRST_VERSION_WITH_TOPIC_IDS and asked.name is None:
        # Versions 10 and 11 have the field, but no way to answer about a topic without a name.
        return _failed(ErrorCode.INVALID_REQUEST, "", asked.topic_id)
    if asked.topic_id != ZERO_UUID:
        known = node.cluster.catalog.topics_by_id.get(asked.topic_id)
        if known is None:
            return _failed(ErrorCode.UNKNOWN_TOPIC_ID, asked.name, asked.topic_id)
        denied = refuse_topic(node, context.caller, Operation.DESCRIBE, known.name)
        if denied is not None:
            # As in Kafka: the id tells nothing, but the name would.
            return _failed(denied.error, None, asked.topic_id)
        return (yield from _described(node, known))
    name = asked.name or ""
    topic = refused.get(name) or node.topics.find(name)
    if isinstance(topic, Refused):
        return _failed(topic.error, name)
    return (yield from _described(node, topic))


def _failed(
    error: ErrorCode, name: str | None, topic_id: UUID = ZERO_UUID
) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=[])


def _described(node: Node, topic: Topic) -> Generator[None, None, MetadataResponseTopic]:
    partitions = []
    for partition in range(topic.partition_count):
        if not partition % PARTITIONS_PER_STEP:
            yield
        placed = node.cluster.place(topic, partition)
        partitions.append(
            MetadataResponsePartition(
                error_code=placed.error,
                partition_index=partition,
                leader_id=placed.leader_id,
                leader_epoch=placed.leader_epoch,
                replica_nodes=placed.replicas,
                isr_nodes=placed.in_sync,
                offline_replicas=placed.offline,
            )
        )
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
    )


API = serve(MetadataRequest, MetadataResponse, handle, max_elements=MAX_ELEMENTS_IN_SLICES)
