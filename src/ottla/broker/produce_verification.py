"""Which partitions of a Produce request begin a transaction, and what the coordinator says of that."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.shard import Shard
from ottla.broker.verifying import confirm, for_produce
from ottla.core.producer_state import Verification
from ottla.core.turn import Producer
from ottla.core.txn.events import VERSION_1, VERSION_2
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.batch import read_header
from ottla.records.errors import CorruptRecordsError
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_OF_TRANSACTION_V2 = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13

# What has to be confirmed, and whose it is; and what came of it: the verification to append with, or the error.
Verifications = dict[TopicPartition, tuple[Producer, Verification]]
Verdicts = dict[tuple[str | None, int], Verification | ErrorCode]


def topic_name(node: Node, topic: TopicProduceData, version: int) -> str | None:
    """The name of a topic that newer requests give only the id of."""
    if version < FIRST_VERSION_WITH_TOPIC_IDS:
        return topic.name
    known = node.cluster.catalog.topics_by_id.get(topic.topic_id)
    return None if known is None else known.name


def transaction_version(version: int) -> int:
    """The transaction version that a version of Produce stands for."""
    return VERSION_2 if version >= FIRST_VERSION_OF_TRANSACTION_V2 else VERSION_1


def find_unverified(node: Node, request: ProduceRequest, version: int) -> Verifications:
    """The partitions on which the append would open a transaction; other errors are the append's to find."""
    found: Verifications = {}
    for topic in request.topic_data:
        name = topic_name(node, topic, version)
        for data in topic.partition_data:
            if name is not None:
                unverified = _unverified(node, name, data, version)
                if unverified is not None:
                    found[TopicPartition(name, data.index)] = unverified
    return found


def _unverified(
    node: Node, name: str, data: PartitionProduceData, version: int
) -> tuple[Producer, Verification] | None:
    shard = node.shard(name, data.index)
    if not isinstance(shard, Shard) or data.records is None:
        return None
    try:
        header = read_header(data.records, 0)
    except CorruptRecordsError:
        return None
    if not header.is_transactional:
        return None
    verification = shard.partition.verification_for(header, transaction_version(version))
    if not isinstance(verification, Verification):
        return None
    return Producer(header.producer_id, header.producer_epoch), verification


def keep_records(request: ProduceRequest) -> None:
    """Copies the records out of the receive buffer."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytearray(data.records))


async def verify(
    node: Node, request: ProduceRequest, version: int, unverified: Verifications
) -> Verdicts:
    """Asks the coordinator about all of them at once."""
    wanted = transaction_version(version)
    if wanted < VERSION_2 and not node.config.transaction_partition_verification_enable:
        return {partition: found for partition, (_, found) in unverified.items()}
    producers = dict.fromkeys(producer for producer, _ in unverified.values())
    if len(producers) > 1:
        return dict.fromkeys(unverified, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    (producer,) = producers
    assert request.transactional_id is not None
    errors = await confirm(node, request.transactional_id, producer, list(unverified), wanted)
    knows_abortable = version >= FIRST_VERSION_WITH_ABORTABLE
    return {
        partition: unverified[partition][1]
        if error is ErrorCode.NONE
        else for_produce(error, knows_abortable)
        for partition, error in errors.items()
    }
