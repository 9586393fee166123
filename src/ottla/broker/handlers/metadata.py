"""Metadata: brokers, topics, and who leads each partition."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.addresses import brokers_seen_by
from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.core.catalog import Refused, Topic
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

REQUEST = MetadataRequest
FIRST_VERSION_WITH_NULL_FOR_ALL = 1
FIRST_VERSION_WITH_TOPIC_IDS = 12


def handle(node: Node, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    wanted = request.topics
    if wanted is None or (not wanted and context.version < FIRST_VERSION_WITH_NULL_FOR_ALL):
        topics = [_described(node, topic) for topic in node.cluster.catalog.topics.values()]
    else:
        topics = list(_wanted(node, wanted, request.allow_auto_topic_creation, context.version))
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=endpoint.host, port=endpoint.port)
            for node_id, endpoint in brokers_seen_by(node, context)
        ],
        cluster_id=node.cluster.cluster_id,
        controller_id=node.cluster.controller_id,
        topics=topics,
    )


def _wanted(
    node: Node, wanted: list[MetadataRequestTopic], may_create: bool, version: int
) -> Iterator[MetadataResponseTopic]:
    not_made: dict[str, Refused] = {}
    if may_create:
        not_made = node.create_on_first_use(
            asked.name for asked in wanted if asked.name is not None and asked.topic_id == ZERO_UUID
        )
    for asked in wanted:
        if version < FIRST_VERSION_WITH_TOPIC_IDS and asked.name is None:
            # Versions 10 and 11 have the field, but no way to answer about a topic without a name.
            yield MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST,
                name="",
                topic_id=asked.topic_id,
                partitions=[],
            )
        elif asked.topic_id != ZERO_UUID:
            known = node.cluster.catalog.topics_by_id.get(asked.topic_id)
            if known is None:
                yield MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                    name=asked.name,
                    topic_id=asked.topic_id,
                    partitions=[],
                )
            else:
                yield _described(node, known)
        else:
            name = asked.name or ""
            topic = not_made.get(name) or node.find_topic(name)
            if isinstance(topic, Refused):
                yield MetadataResponseTopic(error_code=topic.error, name=name, partitions=[])
            else:
                yield _described(node, topic)


def _described(node: Node, topic: Topic) -> MetadataResponseTopic:
    partitions = []
    for partition in range(topic.partition_count):
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
