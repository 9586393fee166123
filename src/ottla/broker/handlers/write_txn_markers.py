"""WriteTxnMarkers: a transaction coordinator has the leaders of partitions append markers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

from ottla.access import CLUSTER, Operation
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Marker, MarkerOutcome, Shard
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.gather_responses import NowOrLater, respond_to_all
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.core.catalog import GROUPS_TOPIC
from ottla.core.outcomes import Refused, error_of
from ottla.core.txn.events import VERSION_1
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
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
    answers = _write_all(node, request, context.version)
    return respond_to_all(answers, lambda outcomes: _response(request, outcomes))


def _write_all(
    node: Node, request: WriteTxnMarkersRequest, version: int
) -> list[NowOrLater[Refused | None]]:
    """Appends all markers, those of a partition together; the outcomes are in the order of the request."""
    if len(request.markers) == 1:
        marker = _marker(request.markers[0], version)
        return [
            _write(node, TopicPartition(topic.name, partition), [marker])[0]
            for topic in request.markers[0].topics
            for partition in topic.partition_indexes
        ]
    # The places of the outcomes in the answer, and the markers.
    by_partition: dict[tuple[str, int], tuple[list[int], list[Marker]]] = {}
    count = 0
    for asked in request.markers:
        marker = _marker(asked, version)
        for topic in asked.topics:
            name = topic.name
            for partition in topic.partition_indexes:
                key = name, partition
                found = by_partition.get(key)
                if found is None:
                    by_partition[key] = [count], [marker]
                else:
                    found[0].append(count)
                    found[1].append(marker)
                count += 1
    outcomes: list[NowOrLater[Refused | None]] = [None] * count
    for (name, partition), (places, markers) in by_partition.items():
        written = _write(node, TopicPartition(name, partition), markers)
        for place, outcome in zip(places, written, strict=True):
            outcomes[place] = outcome
    return outcomes


def _marker(asked: WritableTxnMarker, version: int) -> Marker:
    return Marker(
        MarkerType.COMMIT if asked.transaction_result else MarkerType.ABORT,
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        # Coordinators before KIP-1228 do not send the transaction version.
        asked.transaction_version
        if version >= FIRST_VERSION_WITH_TRANSACTION_VERSION
        else VERSION_1,
    )


def _refuse(node: Node, context: RequestContext) -> Refused | None:
    """ALTER is the administrator's right, CLUSTER_ACTION that of nodes."""
    if node.authorizer.allows(context.caller, Operation.ALTER, CLUSTER, logs_denied=False):
        return None
    return refuse_cluster(node, context.caller, Operation.CLUSTER_ACTION)


def _write(
    node: Node, partition: TopicPartition, markers: list[Marker]
) -> list[NowOrLater[Refused | None]]:
    """Appends the markers of a partition; an outcome is a future if the marker is not durable yet."""
    shard = node.partitions.shard(*partition)
    if not isinstance(shard, Shard):
        return [Refused(shard)] * len(markers)
    topic, number = partition
    coordinator = node.groups.loaded(number) if topic == GROUPS_TOPIC else None
    if coordinator is not None:
        outcomes = coordinator.append_markers(markers)
    else:
        outcomes = shard.append_markers(markers, node.cluster.clock.now_ms())
    return [_answer(outcome) for outcome in outcomes]


def _answer(outcome: MarkerOutcome) -> NowOrLater[Refused | None]:
    if isinstance(outcome, Refused):
        return outcome
    return None if outcome.settled is None else _when_durable(outcome.settled)


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
