"""Produce: appends record batches."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ottla.broker.coordination.produce_verification import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    Unverified,
    error_for_client,
    kept,
    topic_name,
    unverified_batch,
    verify,
)
from ottla.broker.coordination.verification import Errors, LaterErrors
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Appended, Shard
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.request import (
    NO_REPLY,
    CloseConnectionError,
    NoReply,
    Reply,
    RequestContext,
)
from ottla.config.topic import TopicConfig
from ottla.core.append import AT_ONCE, Prepared, Rejected, prepare, prepare_within
from ottla.core.catalog import INTERNAL_TOPICS
from ottla.errors import ErrorCode
from ottla.ports import FencedError
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

DIVISIONS = Divisions(
    (
        Division(
            "topic_data",
            "responses",
            inner=Division("partition_data", "partition_responses"),
            named=("name", "topic_id"),
            also_joined=("node_endpoints",),
        ),
    )
)
ACKS_ALL = -1
ACKS_NONE = 0

Waits = list[tuple[PartitionProduceResponse, asyncio.Future[None]]]


class LongBatch(NamedTuple):
    """A batch that is prepared on a thread, and where its answer goes."""

    topic: str
    topic_id: UUID
    data: PartitionProduceData
    config: TopicConfig
    answers: list[PartitionProduceResponse]
    place: int


class Work:
    """What becomes of the batches of a request."""

    def __init__(self, request: ProduceRequest, version: int, now_ms: int) -> None:
        self.request = request
        self.version = version
        self.now_ms = now_ms
        self.waits: Waits = []  # those that are to be durable first
        self.unverified: list[Unverified] = []
        self.long: list[LongBatch] = []


def handle(node: Node, request: ProduceRequest, context: RequestContext) -> Reply[ProduceResponse]:
    work = Work(request, context.version, node.cluster.clock.now_ms())
    responses = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=_append_all(node, topic, work),
        )
        for topic in request.topic_data
    ]
    response = ProduceResponse(responses=responses)
    if work.long:
        # Others receive into the same buffer while these are prepared: whatever is not in the log yet is copied.
        long = [_kept(one) for one in work.long]
        work.unverified = [kept(batch) for batch in work.unverified]
        return _append_long(node, work, context, response, long)
    if work.unverified:
        return _verify(node, work, context, response)
    return _answer(node, request, context, response, work.waits)


def _kept(long: LongBatch) -> LongBatch:
    """As it was, with the records copied."""
    records = long.data.records
    assert records is not None
    copied = PartitionProduceData(index=long.data.index, records=bytearray(records))
    return long._replace(data=copied)


async def _append_long(
    node: Node,
    work: Work,
    context: RequestContext,
    response: ProduceResponse,
    batches: Sequence[LongBatch],
) -> ProduceResponse | NoReply:
    """Appends the batches of a request whose preparation takes long, when that has been done elsewhere."""
    for one in batches:
        prepared = await node.cluster.share.elsewhere(
            prepare, one.data.records, one.config, work.now_ms, work.version
        )
        one.answers[one.place] = _append_prepared(node, one, prepared, work)
    answer: Any = (
        _verify(node, work, context, response)
        if work.unverified
        else _answer(node, work.request, context, response, work.waits)
    )
    if isinstance(answer, asyncio.Future) or inspect.iscoroutine(answer):
        answer = await answer
    result: ProduceResponse | NoReply = answer
    return result


def _verify(
    node: Node, work: Work, context: RequestContext, response: ProduceResponse
) -> Reply[ProduceResponse]:
    """A transaction begins on some of the partitions: whether that is so, the coordinator knows (KIP-890)."""
    request, unverified, waits = work.request, work.unverified, work.waits
    assert request.transactional_id is not None
    errors = verify(node, request.transactional_id, context.version, unverified)
    if not isinstance(errors, dict):
        batches = [kept(batch) for batch in unverified]
        return _append_later(node, request, context, response, batches, errors, waits)
    _append_verified(node, unverified, errors, context.version, waits)
    return _answer(node, request, context, response, waits)


def _answer(
    node: Node,
    request: ProduceRequest,
    context: RequestContext,
    response: ProduceResponse,
    waits: Waits,
) -> ProduceResponse | asyncio.Future[ProduceResponse] | NoReply:
    if request.acks == ACKS_NONE:
        _close_on_error(response)
        return NO_REPLY
    if waits:
        return _after(waits, response, lambda: _name_leaders(node, response, context))
    if len(node.cluster.nodes) > 1:
        _name_leaders(node, response, context)
    return response


async def _append_later(
    node: Node,
    request: ProduceRequest,
    context: RequestContext,
    response: ProduceResponse,
    unverified: Sequence[Unverified],
    verified: LaterErrors,
    waits: Waits,
) -> ProduceResponse | NoReply:
    """The rest of a request whose coordinator has to be waited for."""
    _append_verified(node, unverified, await verified(), context.version, waits)
    answer = _answer(node, request, context, response, waits)
    if isinstance(answer, asyncio.Future):
        answer = await answer
    return answer


def _append_verified(
    node: Node, unverified: Sequence[Unverified], errors: Errors, version: int, waits: Waits
) -> None:
    now_ms = node.cluster.clock.now_ms()
    for batch in unverified:
        error = error_for_client(errors[batch.partition], version)
        appended = _append_batch(node, batch, version, now_ms) if error is ErrorCode.NONE else error
        if isinstance(appended, ErrorCode):
            _fail(batch.response, appended)
        elif appended.settled is not None:
            waits.append((batch.response, appended.settled))


def _append_batch(node: Node, batch: Unverified, version: int, now_ms: int) -> Appended | ErrorCode:
    shard = _same_shard(node, *batch.partition, batch.topic_id, version)
    if not isinstance(shard, Shard):
        return shard
    appended = shard.append(batch.prepared, now_ms, batch.verification)
    if isinstance(appended, Appended):
        response = batch.response
        response.error_code, response.error_message = ErrorCode.NONE, None
        response.base_offset = appended.base_offset
        response.log_append_time_ms = appended.append_time_ms
        response.log_start_offset = shard.partition.start_offset
    return appended


def _same_shard(
    node: Node, topic: str, index: int, topic_id: UUID, version: int
) -> Shard | ErrorCode:
    """The partition that a request was about before it had to wait: it may have moved, or its topic may have gone.

    A new topic of the same name has other options, and is none that the client knows of.
    """
    shard = node.partitions.shard(topic, index)
    if isinstance(shard, Shard) and shard.log.ref.topic_id != topic_id:
        uses_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        return ErrorCode.UNKNOWN_TOPIC_ID if uses_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return shard


def _append_all(node: Node, topic: TopicProduceData, work: Work) -> list[PartitionProduceResponse]:
    name = topic_name(node, topic, work.version)
    answers: list[PartitionProduceResponse] = []
    for data in topic.partition_data:
        answer = _append(node, name, data, work)
        if isinstance(answer, Shard):
            ref = answer.log.ref
            work.long.append(
                LongBatch(ref.topic, ref.topic_id, data, answer.config, answers, len(answers))
            )
            answer = _failed(data.index, ErrorCode.UNKNOWN_SERVER_ERROR)  # until it is known
        answers.append(answer)
    return answers


def _append(
    node: Node, topic: str | None, data: PartitionProduceData, work: Work
) -> PartitionProduceResponse | Shard:
    """The answer to a batch; or its partition, if preparing the batch takes long."""
    if topic is None:
        return _failed(data.index, ErrorCode.UNKNOWN_TOPIC_ID)
    if not ACKS_ALL <= work.request.acks <= 1:
        return _failed(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
    if topic in INTERNAL_TOPICS:
        return _failed(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    shard = node.partitions.shard(topic, data.index)
    if not isinstance(shard, Shard):
        return _failed(data.index, shard)
    config = shard.config
    wanted_replicas = config.min_insync_replicas
    if (
        wanted_replicas > 1
        and work.request.acks == ACKS_ALL
        and wanted_replicas > _in_sync_count(node, topic, data.index)
    ):
        return _failed(data.index, ErrorCode.NOT_ENOUGH_REPLICAS)
    prepared = prepare_within(data.records, config, work.now_ms, work.version, AT_ONCE)
    if prepared is None:
        return shard
    return _append_to(shard, data.index, prepared, work)


def _append_prepared(
    node: Node, long: LongBatch, prepared: Prepared | Rejected, work: Work
) -> PartitionProduceResponse:
    index = long.data.index
    shard = _same_shard(node, long.topic, index, long.topic_id, work.version)
    if not isinstance(shard, Shard):
        return _failed(index, shard)
    return _append_to(shard, index, prepared, work)


def _append_to(
    shard: Shard, index: int, prepared: Prepared | Rejected, work: Work
) -> PartitionProduceResponse:
    if isinstance(prepared, Rejected):
        return _rejected(index, prepared)
    if prepared.header.is_transactional and work.request.transactional_id is None:
        return _failed(index, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    # Where its transaction is open already, a batch needs no confirmation: trying is the quickest way to know.
    appended = shard.append(prepared, work.now_ms)
    if isinstance(appended, ErrorCode):
        response = _failed(index, appended)
        found = unverified_batch(shard, prepared, work.version, response)
        if found is not None:
            work.unverified.append(found)
        return response
    response = PartitionProduceResponse(
        index=index,
        error_code=ErrorCode.NONE,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=shard.partition.start_offset,
    )
    if appended.settled is not None:
        work.waits.append((response, appended.settled))
    return response


def _in_sync_count(node: Node, topic: str, partition: int) -> int:
    cluster = node.cluster
    return len(cluster.place(cluster.catalog.topics[topic], partition).in_sync)


def _failed(index: int, error: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=error, base_offset=-1, error_message=error.text
    )


def _fail(response: PartitionProduceResponse, error: ErrorCode) -> None:
    response.error_code = error
    response.base_offset = -1
    response.error_message = error.text


def _rejected(index: int, rejected: Rejected) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=rejected.error,
        base_offset=-1,
        record_errors=[
            BatchIndexAndErrorMessage(
                batch_index=found.batch_index, batch_index_error_message=found.message
            )
            for found in rejected.record_errors
        ],
        error_message=rejected.message,
    )


def _close_on_error(response: ProduceResponse) -> None:
    """With acks=0 nobody reads an answer: a closed connection is how the client learns of an error."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                name = ErrorCode(partition.error_code).name
                raise CloseConnectionError(f"a produce request with acks=0 failed with {name}")


def _after(
    waits: Waits, response: ProduceResponse, finish: Callable[[], None]
) -> asyncio.Future[ProduceResponse]:
    """The response, once every append in it is durable or known to have failed."""
    answer: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()
    left = len(waits)

    def settle(partition: PartitionProduceResponse, done: asyncio.Future[None]) -> None:
        nonlocal left
        left -= 1
        failure = None if done.cancelled() else done.exception()
        if done.cancelled() or failure is not None:
            # A claim that is over because another node leads now: what it had written, the new leader found.
            error = (
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if isinstance(failure, FencedError)
                else ErrorCode.KAFKA_STORAGE_ERROR
            )
            _fail(partition, error)
        if left == 0 and not answer.done():
            finish()
            answer.set_result(response)

    for partition, settled in waits:
        settled.add_done_callback(partial(settle, partition))
    return answer


def _name_leaders(node: Node, response: ProduceResponse, context: RequestContext) -> None:
    """Tells a client that came to the wrong node which one is right, so that it need not ask (KIP-951)."""
    catalog = node.cluster.catalog
    leaders: dict[int, None] = {}
    for about in response.responses:
        for partition in about.partition_responses:
            if partition.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            topic = catalog.topics.get(about.name) or catalog.topics_by_id.get(about.topic_id)
            if topic is not None:
                led = node.cluster.led_now(topic, partition.index)
                leaders[led.leader_id] = None
                partition.current_leader = LeaderIdAndEpoch(
                    leader_id=led.leader_id, leader_epoch=led.epoch
                )
    response.node_endpoints = [
        NodeEndpoint(node_id=node_id, host=address.host, port=address.port)
        for node_id, address in node.cluster.addresses_for(context.local)
        if node_id in leaders
    ]


# librdkafka takes a broker that does not advertise Produce v0 for one without any Produce (KAFKA-18659).
API = serve(ProduceRequest, ProduceResponse, handle, divisions=DIVISIONS, first_advertised=0)
