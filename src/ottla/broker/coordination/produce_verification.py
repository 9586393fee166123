"""Which partitions of a Produce request begin a transaction, and what the coordinator says of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from ottla.broker.coordination.verification import Errors, LaterErrors, confirm, for_produce
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.core.append import Prepared
from ottla.core.producer_state import Verification
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_1, VERSION_2
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.produce import PartitionProduceResponse, TopicProduceData

FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_OF_TRANSACTION_V2 = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13


class Unverified(NamedTuple):
    """A batch that would begin a transaction on its partition, and its answer, which waits for the coordinator's."""

    partition: TopicPartition
    topic_id: UUID
    producer: ProducerIdentity
    verification: Verification
    prepared: Prepared
    response: PartitionProduceResponse


def topic_name(node: Node, topic: TopicProduceData, version: int) -> str | None:
    """The name of a topic that newer requests give only the id of."""
    if version < FIRST_VERSION_WITH_TOPIC_IDS:
        return topic.name
    known = node.cluster.catalog.topics_by_id.get(topic.topic_id)
    return None if known is None else known.name


def transaction_version(version: int) -> int:
    """The transaction version that a version of Produce stands for."""
    return VERSION_2 if version >= FIRST_VERSION_OF_TRANSACTION_V2 else VERSION_1


def unverified_batch(
    shard: Shard, prepared: Prepared, version: int, response: PartitionProduceResponse
) -> Unverified | None:
    """What is to be confirmed of a batch that was not appended; None if it failed for another reason."""
    header = prepared.header
    if not header.is_transactional:
        return None
    verification = shard.partition.verification_for(header, transaction_version(version))
    if not isinstance(verification, Verification):
        return None
    producer = ProducerIdentity(header.producer_id, header.producer_epoch)
    ref = shard.log.ref
    partition = TopicPartition(ref.topic, ref.partition)
    return Unverified(partition, ref.topic_id, producer, verification, prepared, response)


def kept(batch: Unverified) -> Unverified:
    """As it was, with the records copied: others receive into the same buffer while the coordinator is asked."""
    prepared = batch.prepared
    return batch._replace(prepared=prepared._replace(data=bytearray(prepared.data)))


def verify(
    node: Node,
    transactional_id: str,
    version: int,
    unverified: Sequence[Unverified],
) -> Errors | LaterErrors:
    """What the coordinator says of all of them, who is asked once."""
    wanted = transaction_version(version)
    partitions = list(dict.fromkeys(batch.partition for batch in unverified))
    if wanted < VERSION_2 and not node.options.config.transaction_partition_verification_enable:
        return dict.fromkeys(partitions, ErrorCode.NONE)
    producers = dict.fromkeys(batch.producer for batch in unverified)
    if len(producers) > 1:
        return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    (producer,) = producers
    return confirm(node, transactional_id, producer, partitions, wanted)


def error_for_client(error: ErrorCode, version: int) -> ErrorCode:
    """An error of the coordinator as Produce tells it."""
    return for_produce(error, version >= FIRST_VERSION_WITH_ABORTABLE)
