"""WriteTxnMarkers: a transaction coordinator has the leaders of partitions append markers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

from ottla.access import CLUSTER, Operation
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.gather_responses import NowOrLater, respond_to_all
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.core.catalog import GROUPS_TOPIC
from ottla.core.outcomes import Refused, error_of
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_1
from ottla.errors import ErrorCode
from ottla.records.control import MarkerType
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

DIVISIONS = Divisions(
    (
        Division(
            "markers",
            "markers",
            piece_elements=16,
            inner=Division(
                "topics",
                "topics",
                inner=Division("partition_indexes", "partitions"),
                named=("name",),
            ),
            named=("producer_id",),
        ),
    )
)
FIRST_VERSION_WITH_TRANSACTION_VERSION = 2


def handle(
    node: Node, request: WriteTxnMarkersRequest, context: RequestContext
) -> NowOrLater[WriteTxnMarkersResponse]:
    refused = _refuse(node, context)
    if refused is not None:
        return _response(request, itertools.repeat(refused))
    answers = [
        _write(node, marker, topic.name, partition, context.version)
        for marker in request.markers
        for topic in marker.topics
        for partition in topic.partition_indexes
    ]
    return respond_to_all(answers, lambda outcomes: _response(request, outcomes))


def _refuse(node: Node, context: RequestContext) -> Refused | None:
    """ALTER is the administrator's right, CLUSTER_ACTION that of nodes."""
    if node.authorizer.allows(context.caller, Operation.ALTER, CLUSTER, logs_denied=False):
        return None
    return refuse_cluster(node, context.caller, Operation.CLUSTER_ACTION)


def _write(
    node: Node, marker: WritableTxnMarker, topic: str, partition: int, version: int
) -> NowOrLater[Refused | None]:
    """Appends a marker; `Refused | None`, or a future of it if the marker is not durable yet."""
    shard = node.partitions.shard(topic, partition)
    if not isinstance(shard, Shard):
        return Refused(shard)
    kind = MarkerType.COMMIT if marker.transaction_result else MarkerType.ABORT
    producer = ProducerIdentity(marker.producer_id, marker.producer_epoch)
    # Coordinators before KIP-1228 do not send the transaction version.
    transaction_version = (
        marker.transaction_version
        if version >= FIRST_VERSION_WITH_TRANSACTION_VERSION
        else VERSION_1
    )
    coordinator = node.groups.loaded(partition) if topic == GROUPS_TOPIC else None
    if coordinator is not None:
        appended = coordinator.append_marker(
            kind, producer, marker.coordinator_epoch, transaction_version
        )
    else:
        appended = shard.append_marker(
            kind,
            *producer,
            marker.coordinator_epoch,
            transaction_version,
            node.cluster.clock.now_ms(),
        )
    if isinstance(appended, Refused):
        return appended
    return None if appended.settled is None else _when_durable(appended.settled)


def _when_durable(settled: asyncio.Future[None]) -> asyncio.Future[Refused | None]:
    durable: asyncio.Future[Refused | None] = settled.get_loop().create_future()

    def done(_: asyncio.Future[None]) -> None:
        failed = settled.cancelled() or settled.exception() is not None
        durable.set_result(Refused(ErrorCode.KAFKA_STORAGE_ERROR) if failed else None)

    settled.add_done_callback(done)
    return durable


def _response(
    request: WriteTxnMarkersRequest, outcomes: Iterable[Refused | None]
) -> WriteTxnMarkersResponse:
    following = iter(outcomes)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=partition, error_code=error_of(next(following))
                            )
                            for partition in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


API = serve(WriteTxnMarkersRequest, WriteTxnMarkersResponse, handle, divisions=DIVISIONS)
