"""AddOffsetsToTxn: what a group commits becomes part of a transaction."""

from __future__ import annotations

from functools import partial

from ottla.broker.coordination.transactions import fenced_before, find_transaction
from ottla.broker.node import Node
from ottla.broker.requests.request import Answer, RequestContext
from ottla.core.outcomes import Refused, error_of
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_1
from ottla.errors import ErrorCode
from ottla.model import TopicPartition, coordinator_partition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

REQUEST = AddOffsetsToTxnRequest
FIRST_VERSION_WITH_PRODUCER_FENCED = 2


def handle(node: Node, request: AddOffsetsToTxnRequest, context: RequestContext) -> Answer:
    respond = partial(_respond, context.version)
    coordinator = find_transaction(node, request.transactional_id)
    if isinstance(coordinator, Refused):
        return respond(coordinator)
    topic = node.groups.make_topic()
    if isinstance(topic, Refused):
        return respond(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    partition = coordinator_partition(request.group_id, topic.partition_count)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    offsets = [TopicPartition(topic.name, partition)]
    return coordinator.ask(
        lambda machine, turn: machine.add_partitions(
            turn, request.transactional_id, producer, offsets, VERSION_1
        ),
        respond,
    )


def _respond(version: int, refused: Refused | None) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(
        error_code=fenced_before(FIRST_VERSION_WITH_PRODUCER_FENCED, version, error_of(refused))
    )
