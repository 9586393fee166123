"""Producers: whom partitions remember, and shutting out those of a transactional id."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.admin_model import ProducerIdAndEpoch, ProducerState
from ottla.client.aio.admin.requests import (
    Calls,
    Place,
    Question,
    by_topic,
    name_of,
    timeout_in_seconds,
)
from ottla.client.aio.admin.results import Answers, ErrorMeaning
from ottla.client.aio.admin.targets import GivenNode, Leaders, transaction_coordinators
from ottla.client.aio.admin.topics import named
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class ProducerCalls(Calls):
    """The calls about producers."""

    @timeout_in_seconds
    async def describe_producers(
        self,
        partitions: Iterable[tuple[str, int]],
        *,
        broker_id: int | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """The producers that partitions remember (KIP-664): by their leaders, or by one replica."""

        def build(
            version: int, some: list[TopicPartition], limit_ms: int
        ) -> DescribeProducersRequest:
            return DescribeProducersRequest(
                topics=[
                    TopicRequest(name=name, partition_indexes=numbers)
                    for name, numbers in by_topic(some).items()
                ]
            )

        place: Place[TopicPartition] = Leaders()
        if broker_id is not None:
            place = GivenNode("partition", "partitions", broker_id)
        question = Question(DescribeProducersRequest, build, read_producers)
        wanted = [TopicPartition(*partition) for partition in partitions]
        return await self.ask(wanted, place, question, timeout)

    @timeout_in_seconds
    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, ProducerIdAndEpoch]:
        """Shuts out the producers of transactional ids, and aborts their open transactions.

        A new producer of the same id can begin at once; the old ones get PRODUCER_FENCED.
        """

        async def ask(
            node: int, some: list[str], limit_ms: float, answers: Answers[str, ProducerIdAndEpoch]
        ) -> None:
            for transactional_id in some:
                request = fencing(transactional_id, int(limit_ms))
                response = await self.call_with(node, request, limit_ms)
                read_fenced(response, transactional_id, answers)

        place = transaction_coordinators()
        verdicts = {**place.verdicts, ErrorCode.CONCURRENT_TRANSACTIONS: ErrorMeaning.AGAIN}
        api = name_of(InitProducerIdRequest)
        return await self.ask_by(named(transactional_ids), place, api, ask, timeout, verdicts)


def read_producers(
    response: DescribeProducersResponse,
    answers: Answers[TopicPartition, tuple[ProducerState, ...]],
) -> None:
    """The producers of each partition."""
    for topic in response.topics:
        for partition in topic.partitions:
            producers = tuple(
                ProducerState(
                    found.producer_id,
                    found.producer_epoch,
                    found.last_sequence,
                    found.last_timestamp,
                    None if found.coordinator_epoch < 0 else found.coordinator_epoch,
                    None if found.current_txn_start_offset < 0 else found.current_txn_start_offset,
                )
                for found in partition.active_producers
            )
            key = TopicPartition(topic.name, partition.partition_index)
            answers.take(key, producers, partition.error_code, partition.error_message)


def fencing(transactional_id: str, limit_ms: int) -> InitProducerIdRequest:
    """The request of a producer that takes over a transactional id."""
    # It holds until the id's next producer names its own; as in Kafka's client, it is the time that this call has.
    return InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=max(limit_ms, 1)
    )


def read_fenced(
    response: InitProducerIdResponse,
    transactional_id: str,
    answers: Answers[str, ProducerIdAndEpoch],
) -> None:
    """The epoch below which everybody is fenced."""
    fenced = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
    answers.take(transactional_id, fenced, response.error_code)
