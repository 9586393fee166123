"""Metadata: brokers, topics, and the leader of each partition."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from uuid import UUID

from ottla.broker.node import Node
from ottla.broker.requests.api import MAX_ELEMENTS_IN_SLICES, serve
from ottla.broker.requests.request import Reply, RequestContext
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
from ottla.wire.types import ZERO_UUID

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
) -> Generator[None, None, MetadataResponse]:
    wanted = request.topics
    if wanted is None or (not wanted and context.version < FIRST_VERSION_WITH_NULL_FOR_ALL):
        topics = []
        for topic in list(node.cluster.catalog.topics.values()):
            topics.append((yield from _described(node, topic)))
    else:
        topics = yield from _wanted(node, wanted, request, context)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=endpoint.host, port=endpoint.port)
            for node_id, endpoint in node.cluster.addresses_for(context.caller)
        ],
        cluster_id=node.cluster.cluster_id,
        controller_id=node.cluster.controller_id,
        topics=topics,
    )


def _wanted(
    node: Node,
    wanted: list[MetadataRequestTopic],
    request: MetadataRequest,
    context: RequestContext,
) -> Generator[None, None, list[MetadataResponseTopic]]:
    """The topics that are asked for, each of them once."""
    unique: dict[tuple[UUID, str | None], MetadataRequestTopic] = {}
    for asked in wanted:
        unique[asked.topic_id, asked.name] = asked
        if not len(unique) % NAMES_PER_STEP:
            yield
    not_made: Mapping[str, Refused] = {}
    if request.allow_auto_topic_creation:
        names = [name for topic_id, name in unique if name is not None and topic_id == ZERO_UUID]
        meter = context.meter
        permit = unlimited if meter is None else meter.strict_permit_without_wait()
        not_made = yield from node.topics.create_on_first_use(names, MAX_CREATED, permit)
    topics: list[MetadataResponseTopic] = []
    for asked in unique.values():
        if not len(topics) % NAMES_PER_STEP:
            yield
        topics.append((yield from _answer(node, asked, not_made, context.version)))
    return topics


def _answer(
    node: Node, asked: MetadataRequestTopic, not_made: Mapping[str, Refused], version: int
) -> Generator[None, None, MetadataResponseTopic]:
    if version < FIRST_VERSION_WITH_TOPIC_IDS and asked.name is None:
        # Versions 10 and 11 have the field, but no way to answer about a topic without a name.
        return _failed(ErrorCode.INVALID_REQUEST, "", asked.topic_id)
    if asked.topic_id != ZERO_UUID:
        known = node.cluster.catalog.topics_by_id.get(asked.topic_id)
        if known is None:
            return _failed(ErrorCode.UNKNOWN_TOPIC_ID, asked.name, asked.topic_id)
        return (yield from _described(node, known))
    name = asked.name or ""
    topic = not_made.get(name) or node.topics.find(name)
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
