"""What a broker's answer to Produce says of each batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.client.model import NO_OFFSET, NO_TIMESTAMP, Node
from ottla.client.state.producer_batch import ProducerBatch
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse


class Answer(NamedTuple):
    """The outcome of one batch, as the broker or the network tells it."""

    code: ErrorCode
    message: str | None = None
    base_offset: int = NO_OFFSET
    append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    record_errors: Mapping[int, str] | None = None
    leader_id: int = -1
    leader_epoch: int = -1
    nodes: Mapping[int, Node] = {}


def read_answers(
    response: ProduceResponse | None,
    error: KafkaError | None,
    batches: Mapping[tuple[str, int], ProducerBatch],
    names: Mapping[UUID, str],
) -> list[tuple[ProducerBatch, Answer]]:
    """The answer to each batch of a request; all share the error of a request that was not answered."""
    if response is None:
        assert error is not None
        answer = Answer(error.code, error.message)
        return [(batch, answer) for batch in batches.values()]
    nodes = {
        each.node_id: Node(each.node_id, each.host, each.port, each.rack)
        for each in response.node_endpoints
    }
    left = dict(batches)
    answers = []
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for partition in topic.partition_responses:
            batch = left.pop((name, partition.index), None)
            if batch is not None:
                answers.append((batch, _read(partition, nodes)))
    silent = Answer(ErrorCode.NETWORK_EXCEPTION, "The broker's answer leaves the partition out.")
    answers.extend((batch, silent) for batch in left.values())
    return answers


def _read(partition: PartitionProduceResponse, nodes: Mapping[int, Node]) -> Answer:
    code = ErrorCode(partition.error_code)
    record_errors = None
    if partition.record_errors:
        record_errors = {
            each.batch_index: each.batch_index_error_message or partition.error_message or code.text
            for each in partition.record_errors
        }
    leader = partition.current_leader
    return Answer(
        code,
        partition.error_message,
        partition.base_offset,
        partition.log_append_time_ms,
        partition.log_start_offset,
        record_errors,
        leader.leader_id,
        leader.leader_epoch,
        nodes,
    )
