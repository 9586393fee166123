"""ListOffsets: the offset at a timestamp, or at a named position."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, NamedTuple

from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.request import Reply, RequestContext
from ottla.core.leader_epochs import epoch_at
from ottla.core.offsets import NOT_FOUND, FoundOffset, first_at, first_at_once
from ottla.errors import ErrorCode
from ottla.ports import Buffer, StorageError
from ottla.records.batch import read_header
from ottla.records.errors import CorruptRecordsError
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

DIVISIONS = Divisions(
    (
        Division(
            "topics",
            "topics",
            inner=Division(
                "partitions", "partitions", repeated=Repeated(("partition_index",), most=2)
            ),
            named=("name",),
            repeated=Repeated(("name",)),
        ),
    )
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

# So many batches are looked through in one go, each of which may take a millisecond or two.
SEARCHES_AT_ONCE = 4


# The version that brought a named position; an older request cannot mean it.
_POSITIONS = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
# Those for which no record has to be looked for.
_AT_HAND = frozenset(_POSITIONS) - {MAX_TIMESTAMP}


class Search(NamedTuple):
    """A batch in which a record is to be found by its time."""

    shard: Shard
    batch: Buffer
    timestamp_ms: int
    start_offset: int
    end_offset: int


class LongSearch(NamedTuple):
    """A search that is done on a thread, and where its answer goes."""

    topic: str
    asked: ListOffsetsPartition
    search: Search
    answers: list[ListOffsetsPartitionResponse]
    place: int


def handle(
    node: Node, request: ListOffsetsRequest, context: RequestContext
) -> Reply[ListOffsetsResponse]:
    long: list[LongSearch] = []
    steps = _answer(node, request, context, long)
    response = node.cluster.share.answer(steps, SEARCHES_AT_ONCE)
    if not long and not inspect.iscoroutine(response):
        return response
    return _finish(node, response, long)


async def _finish(
    node: Node,
    response: ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse],
    long: Sequence[LongSearch],
) -> ListOffsetsResponse:
    """The response, when all records have been found."""
    if inspect.iscoroutine(response):
        response = await response
    assert isinstance(response, ListOffsetsResponse)
    for one in long:
        one.answers[one.place] = await _search_elsewhere(node, one)
    return response


async def _search_elsewhere(node: Node, long: LongSearch) -> ListOffsetsPartitionResponse:
    asked, search = long.asked, long.search
    while True:
        try:
            found = await node.cluster.share.elsewhere(
                first_at, search.batch, search.timestamp_ms, search.start_offset
            )
        except CorruptRecordsError:
            return _failed(asked, ErrorCode.CORRUPT_MESSAGE)
        if found is not NOT_FOUND:
            return _found(asked, _below(found, search.end_offset))
        if node.partitions.shard(long.topic, asked.partition_index) is not search.shard:
            return _failed(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            following = _next_batch(search)
        except StorageError as failure:
            search.shard.fail(failure)
            return _failed(asked, ErrorCode.KAFKA_STORAGE_ERROR)
        if following is None:
            return _found(asked, NOT_FOUND)
        search = following


def _answer(
    node: Node, request: ListOffsetsRequest, context: RequestContext, long: list[LongSearch]
) -> Generator[None, None, ListOffsetsResponse]:
    times = Counter(
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    )
    topics = []
    for topic in request.topics:
        answers: list[ListOffsetsPartitionResponse] = []
        for asked in topic.partitions:
            if times[topic.name, asked.partition_index] > 1:
                answers.append(_failed(asked, ErrorCode.INVALID_REQUEST))
                continue
            answer = _offset(node, topic.name, asked, request.isolation_level, context.version)
            if isinstance(answer, Search):
                long.append(LongSearch(topic.name, asked, answer, answers, len(answers)))
                answer = _failed(asked, ErrorCode.NONE)  # its place
            answers.append(answer)
            if asked.timestamp not in _AT_HAND:
                yield
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _offset(
    node: Node, topic: str, asked: ListOffsetsPartition, isolation_level: int, version: int
) -> ListOffsetsPartitionResponse | Search:
    if asked.timestamp < 0 and version < _POSITIONS.get(asked.timestamp, version + 1):
        return _failed(asked, ErrorCode.UNSUPPORTED_VERSION)
    shard = node.partitions.shard(topic, asked.partition_index)
    if not isinstance(shard, Shard):
        return _failed(asked, shard)
    error = shard.partition.check_leader_epoch(asked.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return _failed(asked, error)
    try:
        found = _find(shard, asked.timestamp, isolation_level)
    except StorageError as failure:
        shard.fail(failure)
        return _failed(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    except CorruptRecordsError:
        return _failed(asked, ErrorCode.CORRUPT_MESSAGE)
    return found if isinstance(found, Search) else _found(asked, found)


def _find(shard: Shard, timestamp: int, isolation_level: int) -> FoundOffset | Search:
    """Where a record is, or where it has to be looked for if that takes long."""
    log, partition = shard.log, shard.partition
    bounds = partition.bounds(isolation_level)
    if timestamp == LATEST:
        return FoundOffset(bounds.end_offset, -1, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = epoch_at(log.epochs, bounds.start_offset)
        return FoundOffset(bounds.start_offset, -1, epoch if epoch >= 0 else partition.leader_epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND  # there is no tiered storage
    search: Search | None
    if timestamp == MAX_TIMESTAMP:
        batch = log.batch_of_max_timestamp()
        if batch is None:
            return NOT_FOUND
        # The first record with the largest timestamp (KIP-734).
        search = Search(shard, batch, read_header(batch, 0).max_timestamp, 0, bounds.end_offset)
    else:
        batch = log.batch_at_timestamp(timestamp, bounds.start_offset)
        if batch is None:
            return NOT_FOUND
        search = Search(shard, batch, timestamp, bounds.start_offset, bounds.end_offset)
    while search is not None:
        found = first_at_once(search.batch, search.timestamp_ms, search.start_offset)
        if found is None:
            return search
        if found is not NOT_FOUND:
            return _below(found, search.end_offset)
        search = _next_batch(search)
    return NOT_FOUND


def _next_batch(search: Search) -> Search | None:
    """Where to look if the record is not in the batch after all.

    DeleteRecords may have cut the batch in two: what makes it late enough can lie below the start.
    """
    offset = read_header(search.batch, 0).last_offset + 1
    batch = search.shard.log.batch_at_timestamp(search.timestamp_ms, offset)
    return None if batch is None else search._replace(batch=batch)


def _below(found: FoundOffset, end_offset: int) -> FoundOffset:
    return found if found.offset < end_offset else NOT_FOUND


def _found(asked: ListOffsetsPartition, found: FoundOffset) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _failed(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)


API = serve(ListOffsetsRequest, ListOffsetsResponse, handle, divisions=DIVISIONS)
