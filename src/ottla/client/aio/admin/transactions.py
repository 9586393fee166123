"""Transactions and producers: list, describe, abort, fence (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.admin_model.transactions import (
    AbortTransactionSpec,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from ottla.client.aio.admin.answers import Answers, ErrorMeaning, unsupported_error
from ottla.client.aio.admin.cluster import ClusterCalls
from ottla.client.aio.admin.nodes import GivenNode, Leaders, transaction_coordinators
from ottla.client.aio.admin.requests import ApiCall, Nodes, by_topic, name_of, timeout_in_seconds
from ottla.client.aio.admin.topics import as_list
from ottla.errors import ErrorCode, PartialFailureError
from ottla.model import TopicPartition
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
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
    """The calls about transactions and producers."""

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
        """The transactional ids of all brokers that match the filters.

        `duration_ms` selects transactions that have been open for longer, the pattern matches whole ids. If brokers do
        not answer, the PartialFailureError has the results of the others, and the errors by broker.
        """
        wanted_states = [TransactionState(state).value for state in states]
        wanted_ids = list(producer_ids)

        def build(version: int, nodes: list[int], limit_ms: int) -> ListTransactionsRequest:
            return _list_request(
                version, wanted_states, wanted_ids, duration_ms, transactional_id_pattern
            )

        call = ApiCall(ListTransactionsRequest, build, _read_listed)
        listed, errors = await self._ask_all_brokers(call, timeout)
        transactions = {each.transactional_id: each for each in listed}
        if errors:
            raise PartialFailureError(transactions, errors, "transactional ids and brokers")
        return transactions

    @timeout_in_seconds
    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """The state of transactional ids at their coordinators."""

        async def ask(
            node: int,
            some: list[str],
            limit_ms: float,
            answers: Answers[str, TransactionDescription],
        ) -> None:
            request = DescribeTransactionsRequest(transactional_ids=some)
            response = await self._requests.call_with(node, request, limit_ms)
            _read_described(response, node, answers)

        return await self._requests.ask_by(
            as_list(transactional_ids),
            transaction_coordinators(),
            name_of(DescribeTransactionsRequest),
            ask,
            timeout,
        )

    @timeout_in_seconds
    async def abort_transaction(
        self, spec: AbortTransactionSpec, *, timeout: float | None = None
    ) -> None:
        """Write an abort marker for a hanging transaction of a partition, which no coordinator will end.

        For a transaction that is only slow use `fence_producers`, which goes through the coordinator.
        """

        def build(
            version: int, keys: list[TopicPartition], limit_ms: int
        ) -> WriteTxnMarkersRequest:
            return _abort_request(spec)

        def read(response: WriteTxnMarkersResponse, answers: Answers[TopicPartition, None]) -> None:
            _read_aborted(response, spec.producer_id, answers)

        call: ApiCall[TopicPartition, None] = ApiCall(WriteTxnMarkersRequest, build, read)
        await self._requests.ask([TopicPartition(*spec.topic_partition)], Leaders(), call, timeout)

    @timeout_in_seconds
    async def describe_producers(
        self,
        partitions: Iterable[tuple[str, int]],
        *,
        broker_id: int | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """The producer states of partitions (KIP-664), at their leaders or at one broker."""

        def build(
            version: int, some: list[TopicPartition], limit_ms: int
        ) -> DescribeProducersRequest:
            return DescribeProducersRequest(
                topics=[
                    TopicRequest(name=name, partition_indexes=numbers)
                    for name, numbers in by_topic(some).items()
                ]
            )

        nodes: Nodes[TopicPartition] = Leaders()
        if broker_id is not None:
            nodes = GivenNode("partition", "partitions", broker_id)
        call = ApiCall(DescribeProducersRequest, build, _read_producers)
        wanted = [TopicPartition(*partition) for partition in partitions]
        return await self._requests.ask(wanted, nodes, call, timeout)

    @timeout_in_seconds
    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, ProducerIdAndEpoch]:
        """Fence the producers of transactional ids, and abort their open transactions.

        A new producer with the same id can start at once; older ones get PRODUCER_FENCED.
        """

        async def ask(
            node: int, some: list[str], limit_ms: float, answers: Answers[str, ProducerIdAndEpoch]
        ) -> None:
            for transactional_id in some:
                request = _fence_request(transactional_id, int(limit_ms))
                response = await self._requests.call_with(node, request, limit_ms)
                _read_fenced(response, transactional_id, answers)

        nodes = transaction_coordinators()
        meanings = {**nodes.meanings, ErrorCode.CONCURRENT_TRANSACTIONS: ErrorMeaning.RETRY}
        api = name_of(InitProducerIdRequest)
        return await self._requests.ask_by(
            as_list(transactional_ids), nodes, api, ask, timeout, meanings
        )


def _list_request(
    version: int,
    states: list[str],
    producer_ids: list[int],
    duration_ms: int | None,
    pattern: str | None,
) -> ListTransactionsRequest:
    """A ListTransactions request."""
    api = name_of(ListTransactionsRequest)
    if duration_ms is not None and version < 1:
        raise unsupported_error(api, "Listing transactions by duration", "3.8")
    if pattern is not None and version < 2:
        raise unsupported_error(api, "Listing transactions by pattern", "4.1")
    return ListTransactionsRequest(
        state_filters=states,
        producer_id_filters=producer_ids,
        duration_filter=_ANY_DURATION if duration_ms is None else duration_ms,
        transactional_id_pattern=pattern,
    )


def _read_listed(
    response: ListTransactionsResponse, answers: Answers[int, list[TransactionListing]]
) -> None:
    """The transactional ids of one broker."""
    (node,) = answers.asked
    listed = [
        TransactionListing(
            found.transactional_id,
            found.producer_id,
            TransactionState.of(found.transaction_state),
            node,
        )
        for found in response.transaction_states
    ]
    answers.complete(node, listed, response.error_code)


def _read_described(
    response: DescribeTransactionsResponse,
    coordinator_id: int,
    answers: Answers[str, TransactionDescription],
) -> None:
    """The state of each transactional id."""
    for found in response.transaction_states:
        start_ms = found.transaction_start_time_ms
        description = TransactionDescription(
            coordinator_id,
            TransactionState.of(found.transaction_state),
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
        answers.complete(found.transactional_id, description, found.error_code)


def _abort_request(spec: AbortTransactionSpec) -> WriteTxnMarkersRequest:
    """A WriteTxnMarkers request with one abort marker."""
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


def _read_aborted(
    response: WriteTxnMarkersResponse, producer_id: int, answers: Answers[TopicPartition, None]
) -> None:
    """Whether the marker was written."""
    for marker in response.markers:
        if marker.producer_id != producer_id:
            continue
        for topic in marker.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition_index)
                answers.complete(key, None, partition.error_code)


def _read_producers(
    response: DescribeProducersResponse,
    answers: Answers[TopicPartition, tuple[ProducerState, ...]],
) -> None:
    """The producer states of each partition."""
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
            answers.complete(key, producers, partition.error_code, partition.error_message)


def _fence_request(transactional_id: str, limit_ms: int) -> InitProducerIdRequest:
    """An InitProducerId request, as a new producer of the transactional id sends it."""
    # The timeout holds until the next producer of the id sets its own; as in Kafka's client it is that of this call.
    return InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=max(limit_ms, 1)
    )


def _read_fenced(
    response: InitProducerIdResponse,
    transactional_id: str,
    answers: Answers[str, ProducerIdAndEpoch],
) -> None:
    """The new epoch: producers with older ones are fenced."""
    fenced = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
    answers.complete(transactional_id, fenced, response.error_code)
