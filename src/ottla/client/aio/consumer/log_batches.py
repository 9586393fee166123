"""The batches of a partition as its leader stores them: their headers, and what markers say."""

from __future__ import annotations

import asyncio
import random
from typing import Final, NamedTuple

from ottla.client.aio.network.network import Network
from ottla.errors import ErrorCode, FatalError, KafkaError, TimedOutError, exception_for
from ottla.model import NO_LEADER, TopicPartition
from ottla.records.batch import HEADER_BYTES, BatchHeader, read_batch, read_header
from ottla.records.control import MarkerType, parse_marker_type
from ottla.records.errors import CorruptRecordsError, UnsupportedMagicError
from ottla.records.record import Buffer
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

# The last version that names topics: every broker has it or an older one.
_AT_MOST: Final = 12
_FINAL: Final = (
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
)


class LogBatch(NamedTuple):
    """The header of a batch; for a control batch, how the transaction ended."""

    header: BatchHeader
    marker: MarkerType | None = None


class LogBatches(NamedTuple):
    """Some batches of a partition, and its offsets at that time."""

    batches: list[LogBatch]
    """Whole ones; the first may begin before the offset that was asked for."""
    start_offset: int
    end_offset: int
    """The high watermark."""
    last_stable_offset: int


async def fetch_batches(
    network: Network,
    partition: TopicPartition,
    offset: int,
    *,
    max_bytes: int,
    timeout_ms: float,
) -> LogBatches:
    """The batches from the one with `offset` on: as many as fit, and at least one if there is any."""
    problem: KafkaError | None = None
    attempt = 0
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await network.topic(partition.topic, timeout_ms)
            while True:
                try:
                    return await _fetch_once(network, partition, offset, max_bytes)
                except KafkaError as error:
                    if isinstance(error, FatalError) or error.code in _FINAL:
                        raise
                    problem = error
                network.request_update()
                await asyncio.sleep(network.retry.delay_ms(attempt, random.random()) / 1000)
                attempt += 1
    except TimedOutError:
        raise  # it names a topic that does not exist
    except TimeoutError:
        why = "" if problem is None else f" The last error: {problem}"
        raise TimedOutError(
            message=f"No batches of {partition} came within {round(timeout_ms)} ms.{why}",
            context={"api": "Fetch"},
        ) from problem


async def _fetch_once(
    network: Network, partition: TopicPartition, offset: int, max_bytes: int
) -> LogBatches:
    known = network.cluster.partition(*partition)
    leader = NO_LEADER if known is None else known.leader
    if leader == NO_LEADER:
        code = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if known is None
            else ErrorCode.LEADER_NOT_AVAILABLE
        )
        raise exception_for(code, api="Fetch", partition=partition)
    connection = await network.connection(leader)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic=partition.topic,
                partitions=[
                    FetchPartition(
                        partition=partition.partition,
                        fetch_offset=offset,
                        partition_max_bytes=max_bytes,
                    )
                ],
            )
        ],
    )
    version = connection.version_of(FetchRequest, _AT_MOST)
    response = await connection.send(request, version)
    code = response.error_code
    answers = [each for topic in response.responses for each in topic.partitions]
    if code == ErrorCode.NONE and answers:
        code = answers[0].error_code
    if code != ErrorCode.NONE or not answers:
        broker = network.name_of(leader)
        raise exception_for(code, api="Fetch", partition=partition, broker=broker)
    return _read(answers[0])


def _read(data: PartitionData) -> LogBatches:
    return LogBatches(
        read_log_batches(data.records or b""),
        max(data.log_start_offset, 0),
        data.high_watermark,
        data.high_watermark if data.last_stable_offset < 0 else data.last_stable_offset,
    )


def read_log_batches(records: Buffer) -> list[LogBatch]:
    """The batches of a fetched buffer, without the last one if the broker cut it off.

    Messages from before Kafka 0.11 have no such header; the batches before the first of them are returned.
    """
    found: list[LogBatch] = []
    position = 0
    while position + HEADER_BYTES <= len(records):
        try:
            header = read_header(records, position)
            if position + header.size_bytes > len(records):
                break
            marker = _marker_of(records, position) if header.is_control else None
        except UnsupportedMagicError:
            break
        except CorruptRecordsError:
            if not found:
                raise
            break
        found.append(LogBatch(header, marker))
        position += header.size_bytes
    return found


def _marker_of(records: Buffer, position: int) -> MarkerType | None:
    inside = read_batch(records, position)
    return parse_marker_type(inside[0].key) if inside else None
