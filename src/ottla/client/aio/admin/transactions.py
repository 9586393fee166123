"""Transactions: list, describe, and abort what hangs (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.admin_model import (
    AbortTransactionSpec,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from ottla.client.aio.admin.cluster import ClusterCalls
from ottla.client.aio.admin.requests import Question, name_of, timeout_in_seconds
from ottla.client.aio.admin.results import Answers, unsupported
from ottla.client.aio.admin.state_names import word_of
from ottla.client.aio.admin.targets import GivenNodes, Leaders, transaction_coordinators
from ottla.client.aio.admin.topics import named
from ottla.errors import KafkaError, PartialFailureError
from ottla.model import TopicPartition
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_ANY_DURATION = -1


class TransactionCalls(ClusterCalls):
    """The calls about transactions."""

    @timeout_in_seconds
    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, TransactionListing]:
        """The transactional ids of all brokers; filters name what is wanted.

        `duration_ms` wants transactions that have been open for longer, the pattern matches whole ids. If brokers
        cannot be asked, the PartialFailureError has what the others know, and errors by broker.
        """
        wanted_states = [TransactionState(state).value for state in states]
        wanted_ids = list(producer_ids)

        def build(version: int, nodes: list[int], limit_ms: int) -> ListTransactionsRequest:
            return listing(
                version, wanted_states, wanted_ids, duration_ms, transactional_id_pattern
            )

        question = Question(ListTransactionsRequest, build, read_listed)
        nodes = await self.all_nodes(timeout)
        errors: dict[int, KafkaError] = {}
        try:
            found = await self.ask(nodes, GivenNodes(), question, timeout)
        except PartialFailureError as error:
            found, errors = error.results, error.errors
        listed = {each.transactional_id: each for some in found.values() for each in some}
        if errors:
            raise PartialFailureError(listed, errors, "transactional ids and brokers")
        return listed

    @timeout_in_seconds
    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """What the coordinators know of transactional ids."""

        async def ask(
            node: int,
            some: list[str],
            limit_ms: float,
            answers: Answers[str, TransactionDescription],
        ) -> None:
            request = DescribeTransactionsRequest(transactional_ids=some)
            response = await self.call_with(node, request, limit_ms)
            read_described(response, node, answers)

        return await self.ask_by(
            named(transactional_ids),
            transaction_coordinators(),
            name_of(DescribeTransactionsRequest),
            ask,
            timeout,
        )

    @timeout_in_seconds
    async def abort_transaction(
        self, spec: AbortTransactionSpec, *, timeout: float | None = None
    ) -> None:
        """Writes an abort marker for a transaction that hangs on a partition: no coordinator will end it.

        For a transaction that is only slow, `fence_producers` is right: it goes through the coordinator.
        """

        def build(
            version: int, keys: list[TopicPartition], limit_ms: int
        ) -> WriteTxnMarkersRequest:
            return aborting(spec)

        def read(response: WriteTxnMarkersResponse, answers: Answers[TopicPartition, None]) -> None:
            read_aborted(response, spec.producer_id, answers)

        question: Question[TopicPartition, None] = Question(WriteTxnMarkersRequest, build, read)
        await self.ask([TopicPartition(*spec.topic_partition)], Leaders(), question, timeout)


def listing(
    version: int,
    states: list[str],
    producer_ids: list[int],
    duration_ms: int | None,
    pattern: str | None,
) -> ListTransactionsRequest:
    """The request for the transactional ids of a broker."""
    api = name_of(ListTransactionsRequest)
    if duration_ms is not None and version < 1:
        raise unsupported(api, "Listing transactions by duration", "3.8")
    if pattern is not None and version < 2:
        raise unsupported(api, "Listing transactions by pattern", "4.1")
    return ListTransactionsRequest(
        state_filters=states,
        producer_id_filters=producer_ids,
        duration_filter=_ANY_DURATION if duration_ms is None else duration_ms,
        transactional_id_pattern=pattern,
    )


def read_listed(
    response: ListTransactionsResponse, answers: Answers[int, list[TransactionListing]]
) -> None:
    """The transactional ids of one broker."""
    (node,) = answers.asked
    listed = [
        TransactionListing(
            found.transactional_id,
            found.producer_id,
            word_of(TransactionState, found.transaction_state, TransactionState.UNKNOWN),
            node,
        )
        for found in response.transaction_states
    ]
    answers.take(node, listed, response.error_code)


def read_described(
    response: DescribeTransactionsResponse,
    coordinator_id: int,
    answers: Answers[str, TransactionDescription],
) -> None:
    """What the coordinator knows of each transactional id."""
    for found in response.transaction_states:
        start_ms = found.transaction_start_time_ms
        description = TransactionDescription(
            coordinator_id,
            word_of(TransactionState, found.transaction_state, TransactionState.UNKNOWN),
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            None if start_ms < 0 else start_ms,
            tuple(
                TopicPartition(topic.topic, partition)
                for topic in found.topics
                for partition in topic.partitions
            ),
        )
        answers.take(found.transactional_id, description, found.error_code)


def aborting(spec: AbortTransactionSpec) -> WriteTxnMarkersRequest:
    """The request for one abort marker."""
    topic, partition = spec.topic_partition
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=spec.producer_id,
                producer_epoch=spec.producer_epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
                coordinator_epoch=spec.coordinator_epoch,
            )
        ]
    )


def read_aborted(
    response: WriteTxnMarkersResponse, producer_id: int, answers: Answers[TopicPartition, None]
) -> None:
    """Whether the marker was written."""
    for marker in response.markers:
        if marker.producer_id != producer_id:
            continue
        for topic in marker.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition_index)
                answers.take(key, None, partition.error_code)
