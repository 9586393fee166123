"""AddOffsetsToTxn: the partition with the offsets of a group becomes part of a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from ottla.access import Operation
from ottla.broker.coordination.coordinator import Coordinator
from ottla.broker.coordination.transactions import (
    decide_after_end,
    fenced_before,
    find_transaction,
)
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import refuse_group, refuse_transactional_id
from ottla.core.outcomes import Refused, error_of
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_1
from ottla.core.txn.machine import TransactionMachine
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.ports.futures import settled
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FIRST_VERSION_WITH_PRODUCER_FENCED = 2

_Respond = Callable[[Refused | None], AddOffsetsToTxnResponse]


def handle(
    node: Node, request: AddOffsetsToTxnRequest, context: RequestContext
) -> Reply[AddOffsetsToTxnResponse]:
    respond = partial(_respond, context.version)
    refused = refuse_transactional_id(
        node, context.caller, Operation.WRITE, request.transactional_id
    ) or refuse_group(node, context.caller, Operation.READ, request.group_id)
    if refused is not None:
        return respond(refused)
    coordinator = find_transaction(node.transactions, request.transactional_id)
    if isinstance(coordinator, Refused):
        return respond(coordinator)
    partition = node.groups.partition_of(request.group_id)
    if isinstance(partition, asyncio.Future):
        return _add_later(coordinator, request, partition, respond)
    return _add(coordinator, request, partition, respond)


async def _add_later(
    coordinator: Coordinator[TransactionMachine],
    request: AddOffsetsToTxnRequest,
    partition: asyncio.Future[TopicPartition | Refused],
    respond: _Respond,
) -> AddOffsetsToTxnResponse:
    """The topic of offsets was not there, and is being created."""
    return await settled(_add(coordinator, request, await partition, respond))


def _add(
    coordinator: Coordinator[TransactionMachine],
    request: AddOffsetsToTxnRequest,
    partition: TopicPartition | Refused,
    respond: _Respond,
) -> NowOrLater[AddOffsetsToTxnResponse]:
    if isinstance(partition, Refused):
        return respond(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    return coordinator.ask(
        decide_after_end(
            request.transactional_id,
            lambda machine, turn: machine.add_partitions(
                turn, request.transactional_id, producer, [partition], VERSION_1
            ),
        ),
        respond,
    )


def _respond(version: int, refused: Refused | None) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(
        error_code=fenced_before(FIRST_VERSION_WITH_PRODUCER_FENCED, version, error_of(refused))
    )


API = serve(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, handle)
