"""Produce: appends record batches.

Every batch goes through these steps: refuse what the rules forbid, wait until the engine has opened the partition,
prepare the batch, append it, have the coordinator verify its transaction, wait until it is durable, answer. The rules
are in `core.produce`, `core.append` and `core.producer_state`.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, NamedTuple
from uuid import UUID

from ottla.access import Operation
from ottla.broker.coordination.verification import Confirmations, LaterConfirmations, confirm
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Appended, Shard
from ottla.broker.plain_requests.produce import answer_plain
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.produce_replies import Unsettled, acknowledge, refuse, reply_to
from ottla.broker.requests.request import NoReply, Reply, RequestContext
from ottla.broker.security.authorization import refuse_topic, refuse_transactional_id
from ottla.config.topic import TopicConfig
from ottla.core.append import Prepared, prepare, prepare_at_once
from ottla.core.outcomes import Refused, TakesLong
from ottla.core.produce import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    AskCoordinator,
    check_in_sync,
    check_same_topic,
    check_topic,
    check_transactional_id,
    decide_verification,
    has_transactional_batch,
    missing_verification,
    needed_replicas,
    refusal_for_producer,
    transaction_version,
)
from ottla.core.producer_state import Verification
from ottla.core.turn import ProducerIdentity
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.ports import Buffer
from ottla.wire.messages.produce import (
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


class UnopenedPartition(NamedTuple):
    """Batches for a partition that the engine is at work on."""

    partition: TopicPartition
    topic_id: UUID
    records: Buffer | None
    response: PartitionProduceResponse
    opening: asyncio.Future[None]

    def copy_out_of_receive_buffer(self) -> UnopenedPartition:
        return self._replace(records=None if self.records is None else bytearray(self.records))


class UnpreparedBatch(NamedTuple):
    """A batch that a thread has to prepare."""

    partition: TopicPartition
    topic_id: UUID
    config: TopicConfig
    records: Buffer
    response: PartitionProduceResponse

    def copy_out_of_receive_buffer(self) -> UnpreparedBatch:
        return self._replace(records=bytearray(self.records))


class UnverifiedBatch(NamedTuple):
    """A batch that begins a transaction on its partition, which the coordinator has to confirm."""

    partition: TopicPartition
    topic_id: UUID
    prepared: Prepared
    verification: Verification
    response: PartitionProduceResponse

    @property
    def producer(self) -> ProducerIdentity:
        header = self.prepared.header
        return ProducerIdentity(header.producer_id, header.producer_epoch)

    def copy_out_of_receive_buffer(self) -> UnverifiedBatch:
        copied = self.prepared._replace(data=bytearray(self.prepared.data))
        return self._replace(prepared=copied)


def handle(node: Node, request: ProduceRequest, context: RequestContext) -> Reply[ProduceResponse]:
    steps = ProduceSteps(node, request.acks, request.timeout_ms, request.transactional_id, context)
    refused = steps.refuse_transaction(request)
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=(
                    steps.append_topic(topic) if refused is None else _all_refused(topic, refused)
                ),
            )
            for topic in request.topic_data
        ]
    )
    return steps.finish(response)


def _is_transactional(request: ProduceRequest) -> bool:
    # A generator for `any` would take longer than the usual request needs in here.
    for topic in request.topic_data:
        for data in topic.partition_data:
            if has_transactional_batch(data.records):
                return True
    return False


def _all_refused(topic: TopicProduceData, refused: Refused) -> list[PartitionProduceResponse]:
    responses = [
        PartitionProduceResponse(index=data.index, error_code=refused.error, base_offset=-1)
        for data in topic.partition_data
    ]
    for response in responses:
        refuse(response, refused)
    return responses


class ProduceSteps:
    """A request on its way through the steps.

    The records of a request are views of the receive buffer, into which the next request is received. Before anything
    is awaited, `copy_out_of_receive_buffer` copies those that are still needed.
    """

    def __init__(
        self,
        node: Node,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None,
        context: RequestContext,
    ) -> None:
        self._node = node
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._transactional_id = transactional_id
        self._context = context
        self._version = context.version
        self._is_open = node.authorizer.is_open
        self._now_ms = node.cluster.clock.now_ms()
        self._unopened: list[UnopenedPartition] = []
        self._unprepared: list[UnpreparedBatch] = []
        self._unverified: list[UnverifiedBatch] = []
        self._unsettled: Unsettled = []

    # Refuse and prepare.

    def refuse_transaction(self, request: ProduceRequest) -> Refused | None:
        """The refusal of the whole request: it has transactional batches, and may not use the transactional id."""
        if self._is_open or not _is_transactional(request):
            return None
        node, caller, name = self._node, self._context.caller, self._transactional_id
        if name is None or refuse_transactional_id(node, caller, Operation.WRITE, name) is not None:
            return Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return None

    def append_topic(self, topic: TopicProduceData) -> list[PartitionProduceResponse]:
        """Appends every batch of a topic that needs no waiting; the responses of the others are filled in later."""
        name = self._topic_name(topic)
        refused = self._refuse_topic(name) or check_topic(name, self._acks)
        responses = []
        for data in topic.partition_data:
            response = PartitionProduceResponse(
                index=data.index, error_code=ErrorCode.UNKNOWN_SERVER_ERROR, base_offset=-1
            )
            responses.append(response)
            if refused is not None:
                refuse(response, refused)
            else:
                assert name is not None
                self._append_partition(name, data, response)
        return responses

    def _refuse_topic(self, name: str | None) -> Refused | None:
        if self._is_open or name is None:  # that of an unknown topic id
            return None
        return refuse_topic(self._node, self._context.caller, Operation.WRITE, name)

    def _topic_name(self, topic: TopicProduceData) -> str | None:
        if self._version < FIRST_VERSION_WITH_TOPIC_IDS:
            return topic.name
        known = self._node.cluster.catalog.topics_by_id.get(topic.topic_id)
        return None if known is None else known.name

    def _append_partition(
        self, topic: str, data: PartitionProduceData, response: PartitionProduceResponse
    ) -> None:
        shard = self._node.partitions.shard(topic, data.index)
        if isinstance(shard, Shard):
            self._prepare(shard, data.records, response)
            return
        opening = self._node.partitions.opening(topic, data.index)
        if opening is None:
            refuse(response, Refused(shard))
            return
        # A refusal would let the producer's next batch be the first one that the partition gets. Of a producer that it
        # does not know, any sequence number is accepted, and then this batch never.
        partition = TopicPartition(topic, data.index)
        topic_id = self._node.cluster.catalog.topics[topic].topic_id
        self._unopened.append(
            UnopenedPartition(partition, topic_id, data.records, response, opening)
        )

    def _prepare(
        self, shard: Shard, records: Buffer | None, response: PartitionProduceResponse
    ) -> None:
        config = shard.config
        needed = needed_replicas(self._acks, config.min_insync_replicas)
        if needed > 1:  # the leader itself is always in sync
            ref = shard.log.ref
            refused = check_in_sync(needed, _in_sync_count(self._node, ref.topic, ref.partition))
            if refused is not None:
                refuse(response, refused)
                return
        prepared = prepare_at_once(
            records,
            config=config,
            limits=shard.plain_limits,
            now_ms=self._now_ms,
            produce_version=self._version,
        )
        if isinstance(prepared, TakesLong):
            assert records is not None
            partition, topic_id = _identity(shard)
            self._unprepared.append(UnpreparedBatch(partition, topic_id, config, records, response))
        else:
            self._append(shard, prepared, response)

    # Append.

    def _append(
        self, shard: Shard, prepared: Prepared | Refused, response: PartitionProduceResponse
    ) -> None:
        if isinstance(prepared, Refused):
            refuse(response, prepared)
            return
        refused = check_transactional_id(prepared.header, self._transactional_id)
        if refused is not None:
            refuse(response, refused)
            return
        # Without verification: most batches of a transaction find it open on the partition already.
        appended = shard.append(prepared, self._now_ms)
        if isinstance(appended, Appended):
            acknowledge(response, shard, appended, self._unsettled)
            return
        verification = missing_verification(shard.partition, prepared.header, self._version)
        if verification is None:
            refuse(response, appended)
            return
        partition, topic_id = _identity(shard)
        self._unverified.append(
            UnverifiedBatch(partition, topic_id, prepared, verification, response)
        )

    # What has to wait.

    def finish(self, response: ProduceResponse) -> Reply[ProduceResponse]:
        """Does the remaining steps; a coroutine if they wait for the engine, a thread or the coordinator."""
        if self._unopened:
            self._copy_out_of_receive_buffer()
            return self._finish_opened(response)
        if self._unprepared:
            self._copy_out_of_receive_buffer()
            return self._finish_prepared(response)
        if self._unverified:
            confirmations = self._ask_coordinator()
            if not isinstance(confirmations, dict):
                self._copy_out_of_receive_buffer()
                return self._finish_verified(confirmations, response)
            self._append_verified(confirmations)
        return self._answer(response)

    def _copy_out_of_receive_buffer(self) -> None:
        self._unopened = [each.copy_out_of_receive_buffer() for each in self._unopened]
        self._unprepared = [batch.copy_out_of_receive_buffer() for batch in self._unprepared]
        self._unverified = [batch.copy_out_of_receive_buffer() for batch in self._unverified]

    async def _finish_opened(self, response: ProduceResponse) -> ProduceResponse | NoReply:
        """Goes on with partitions that have been opened; the time that the client gives is for that, too."""
        unopened, self._unopened = self._unopened, []
        await asyncio.wait({each.opening for each in unopened}, timeout=self._timeout_ms / 1000)
        for each in unopened:
            shard = self._same_shard(each.partition, each.topic_id)
            if isinstance(shard, Refused):
                refuse(each.response, shard)
            else:
                self._prepare(shard, each.records, each.response)
        return await _awaited(self.finish(response))

    async def _finish_prepared(self, response: ProduceResponse) -> ProduceResponse | NoReply:
        """Appends the batches that a thread prepares, then does the rest."""
        unprepared, self._unprepared = self._unprepared, []
        with self._node.unsettled.holding(sum(len(batch.records) for batch in unprepared)):
            for batch in unprepared:
                prepared = await self._node.cluster.share.elsewhere(
                    prepare, batch.records, batch.config, self._now_ms, self._version
                )
                shard = self._same_shard(batch.partition, batch.topic_id)
                if isinstance(shard, Refused):
                    refuse(batch.response, shard)
                else:
                    self._append(shard, prepared, batch.response)
        return await _awaited(self.finish(response))

    def _same_shard(self, partition: TopicPartition, topic_id: UUID) -> Shard | Refused:
        """The partition of a batch that had to wait; meanwhile it may have moved, or its topic may be another one."""
        shard = self._node.partitions.shard(*partition)
        if not isinstance(shard, Shard):
            return Refused(shard)
        return check_same_topic(topic_id, shard.log.ref.topic_id, self._version) or shard

    # Verify.

    def _ask_coordinator(self) -> Confirmations | LaterConfirmations:
        """Asks once for all unverified batches of the request; the answer may come at once."""
        partitions = list(dict.fromkeys(batch.partition for batch in self._unverified))
        decision = decide_verification(
            [batch.producer for batch in self._unverified],
            self._version,
            self._node.options.config.transaction_partition_verification_enable,
        )
        if isinstance(decision, AskCoordinator):
            assert self._transactional_id is not None
            return confirm(
                self._node,
                self._transactional_id,
                decision.producer,
                partitions,
                transaction_version(self._version),
            )
        return dict.fromkeys(partitions, decision if isinstance(decision, Refused) else None)

    async def _finish_verified(
        self, confirmations: LaterConfirmations, response: ProduceResponse
    ) -> ProduceResponse | NoReply:
        """Appends the unverified batches when the coordinator has answered, then does the rest."""
        held_bytes = sum(len(batch.prepared.data) for batch in self._unverified)
        with self._node.unsettled.holding(held_bytes):
            confirmed = await confirmations()
        self._append_verified(confirmed)
        return await _awaited(self._answer(response))

    def _append_verified(self, confirmations: Confirmations) -> None:
        now_ms = self._node.cluster.clock.now_ms()
        for batch in self._unverified:
            refused = confirmations[batch.partition]
            if refused is not None:
                refuse(batch.response, refusal_for_producer(refused, self._version))
                continue
            shard = self._same_shard(batch.partition, batch.topic_id)
            if isinstance(shard, Refused):
                refuse(batch.response, shard)
                continue
            appended = shard.append(batch.prepared, now_ms, batch.verification)
            if isinstance(appended, Refused):
                refuse(batch.response, appended)
            else:
                acknowledge(batch.response, shard, appended, self._unsettled)

    # Wait and answer.

    def _answer(
        self, response: ProduceResponse
    ) -> ProduceResponse | asyncio.Future[ProduceResponse] | NoReply:
        return reply_to(
            self._node,
            self._context.caller,
            self._acks,
            self._timeout_ms,
            response,
            self._unsettled,
        )


async def _awaited(reply: Any) -> ProduceResponse | NoReply:
    if isinstance(reply, asyncio.Future) or inspect.iscoroutine(reply):
        reply = await reply
    result: ProduceResponse | NoReply = reply
    return result


def _identity(shard: Shard) -> tuple[TopicPartition, UUID]:
    ref = shard.log.ref
    return TopicPartition(ref.topic, ref.partition), ref.topic_id


def _in_sync_count(node: Node, topic: str, partition: int) -> int:
    return node.cluster.in_sync_count(node.cluster.catalog.topics[topic], partition)


# librdkafka takes a broker that does not advertise Produce v0 for one without any Produce (KAFKA-18659).
API = serve(
    ProduceRequest,
    ProduceResponse,
    handle,
    divisions=DIVISIONS,
    first_advertised=0,
    handle_plain=answer_plain,
)
