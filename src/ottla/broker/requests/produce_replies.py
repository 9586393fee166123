"""Replies to Produce requests: refusals, appends that are not durable yet, and who leads the partition now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from ottla.broker.node import Node
from ottla.broker.partitions.shard import Appended, Shard
from ottla.broker.requests.answer_timeouts import AnswerTimeouts
from ottla.broker.requests.request import NO_REPLY, CloseConnectionError, NoReply
from ottla.broker.security.caller import Caller
from ottla.core.outcomes import Refused
from ottla.core.produce import ACKS_NONE
from ottla.errors import ErrorCode
from ottla.ports import FencedError
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)

# Clients have sentences of their own for these, since Kafka sends none.
_WITHOUT_MESSAGE = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)

Unsettled = list[tuple[PartitionProduceResponse, asyncio.Future[None]]]


def refuse(response: PartitionProduceResponse, refused: Refused) -> None:
    """Makes a response one of an error."""
    response.error_code = refused.error
    response.base_offset = -1
    response.error_message = None if refused.error in _WITHOUT_MESSAGE else refused.text
    response.record_errors = [
        BatchIndexAndErrorMessage(
            batch_index=found.batch_index, batch_index_error_message=found.message
        )
        for found in refused.record_errors
    ]


def acknowledge(
    response: PartitionProduceResponse,
    shard: Shard,
    appended: Appended,
    unsettled: Unsettled,
) -> None:
    """Makes a response one of success, as soon as the append is durable."""
    response.error_code = ErrorCode.NONE
    response.base_offset = appended.base_offset
    response.log_append_time_ms = appended.append_time_ms
    response.log_start_offset = shard.partition.start_offset
    if appended.settled is not None:
        unsettled.append((response, appended.settled))


def reply_to(
    node: Node,
    caller: Caller,
    acks: int,
    timeout_ms: int,
    response: ProduceResponse,
    unsettled: Unsettled,
) -> ProduceResponse | asyncio.Future[ProduceResponse] | NoReply:
    """The reply when everything is appended or refused."""
    if acks == ACKS_NONE:
        _close_on_error(response)
        return NO_REPLY
    if unsettled:
        finish = partial(_name_leaders, node, response, caller)
        timeouts = node.answer_timeouts
        return _DurableResponse(unsettled, timeouts, timeout_ms, response, finish).answer
    if not node.cluster.leads_everything:
        _name_leaders(node, response, caller)
    return response


def _close_on_error(response: ProduceResponse) -> None:
    """With acks=0 there is no response: the client learns of an error by the closed connection."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                name = ErrorCode(partition.error_code).name
                raise CloseConnectionError(f"a produce request with acks=0 failed with {name}")


class _DurableResponse:
    """A response, when every append in it is durable or has failed, or the client's time is over.

    What is not durable then may become so: a producer that is idempotent and sends it again is told of the append.
    """

    __slots__ = (
        "_finish",
        "_left",
        "_response",
        "_timeout_ms",
        "_timeouts",
        "_unsettled",
        "answer",
    )

    def __init__(
        self,
        unsettled: Unsettled,
        timeouts: AnswerTimeouts,
        timeout_ms: int,
        response: ProduceResponse,
        finish: Callable[[], None],
    ) -> None:
        self.answer: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()
        self._unsettled = unsettled
        self._left = len(unsettled)
        self._timeouts = timeouts
        self._timeout_ms = timeout_ms
        self._response = response
        self._finish = finish
        timeouts.add(self, timeout_ms)
        for partition, settled in unsettled:
            settled.add_done_callback(partial(self._settle, partition))

    def _settle(self, partition: PartitionProduceResponse, done: asyncio.Future[None]) -> None:
        self._left -= 1
        if not self._left:
            self._timeouts.remove(self, self._timeout_ms)
        error = _error_of(done)
        if self.answer.done():
            return
        if error is not ErrorCode.NONE:
            refuse(partition, Refused(error))
        if not self._left:
            self._respond()

    def time_out(self) -> None:
        """Implements TimedAnswer."""
        if self.answer.done():
            return
        for partition, settled in self._unsettled:
            # What has failed in this turn of the loop is not noted yet: after a pause both are due at once.
            error = _error_of(settled) if settled.done() else ErrorCode.REQUEST_TIMED_OUT
            if error is not ErrorCode.NONE:
                refuse(partition, Refused(error))
        self._respond()

    def _respond(self) -> None:
        self._finish()
        self.answer.set_result(self._response)


def _error_of(settled: asyncio.Future[None]) -> ErrorCode:
    """What a client is told of an append that is durable or has failed."""
    failure = None if settled.cancelled() else settled.exception()
    if failure is None and not settled.cancelled():
        return ErrorCode.NONE
    # Another node leads the partition now and has found what was written: the client asks that one.
    is_fenced = isinstance(failure, FencedError)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_fenced else ErrorCode.KAFKA_STORAGE_ERROR


def _name_leaders(node: Node, response: ProduceResponse, caller: Caller) -> None:
    """Names the leader of every partition that this node does not lead (KIP-951)."""
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
        NodeEndpoint(
            node_id=node_id,
            host=address.host,
            port=address.port,
            rack=node.cluster.rack_of(node_id),
        )
        for node_id, address in node.cluster.addresses_for(caller)
        if node_id in leaders
    ]
