"""ListOffsets: the offset of a timestamp or of a named position."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, NamedTuple

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import refuse_topic
from ottla.core.offset_lookup import (
    NOT_FOUND,
    FoundOffset,
    SearchMaxTimestamp,
    below,
    check_position,
    decide_lookup,
    first_at,
    first_at_once,
    needs_search,
)
from ottla.core.outcomes import TakesLong
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

# The batches that are searched before the loop serves other requests; each may take a millisecond or two.
SEARCHES_AT_ONCE = 4


class Search(NamedTuple):
    """A batch in which a record is searched by its timestamp."""

    shard: Shard
    batch: Buffer
    timestamp_ms: int
    start_offset: int
    end_offset: int


class LongSearch(NamedTuple):
    """A search that a thread does, and the place of its answer in the response."""

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
    """The response, when all searches are done."""
    if inspect.iscoroutine(response):
        response = await response
    assert isinstance(response, ListOffsetsResponse)
    for one in long:
        one.answers[one.place] = await _search_on_thread(node, one)
    return response


async def _search_on_thread(node: Node, long: LongSearch) -> ListOffsetsPartitionResponse:
    asked, search = long.asked, long.search
    while True:
        try:
            found = await node.cluster.share.elsewhere(
                first_at, search.batch, search.timestamp_ms, search.start_offset
            )
        except CorruptRecordsError:
            return _failed(asked, ErrorCode.CORRUPT_MESSAGE)
        if found is not NOT_FOUND:
            return _found(asked, below(found, search.end_offset))
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
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        refused = refuse_topic(node, context.caller, Operation.DESCRIBE, topic.name)
        if refused is not None:
            answers += [_failed(asked, refused.error) for asked in topic.partitions]
            continue
        for asked in topic.partitions:
            if times[topic.name, asked.partition_index] > 1:
                answers.append(_failed(asked, ErrorCode.INVALID_REQUEST))
                continue
            answer = _offset(node, topic.name, asked, request.isolation_level, context.version)
            if isinstance(answer, Search):
                long.append(LongSearch(topic.name, asked, answer, answers, len(answers)))
                answer = _failed(asked, ErrorCode.NONE)  # its place
            answers.append(answer)
            if needs_search(asked.timestamp):
                yield
    return ListOffsetsResponse(topics=topics)


def _offset(
    node: Node, topic: str, asked: ListOffsetsPartition, isolation_level: int, version: int
) -> ListOffsetsPartitionResponse | Search:
    refused = check_position(asked.timestamp, version)
    if refused is not None:
        return _failed(asked, refused.error)
    shard = node.partitions.shard(topic, asked.partition_index)
    if not isinstance(shard, Shard):
        return _failed(asked, shard)
    refused = shard.partition.check_leader_epoch(asked.current_leader_epoch)
    if refused is not None:
        return _failed(asked, refused.error)
    try:
        found = _find(shard, asked.timestamp, isolation_level)
    except StorageError as failure:
        shard.fail(failure)
        return _failed(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    except CorruptRecordsError:
        return _failed(asked, ErrorCode.CORRUPT_MESSAGE)
    return found if isinstance(found, Search) else _found(asked, found)


def _find(shard: Shard, timestamp: int, isolation_level: int) -> FoundOffset | Search:
    """The offset, or the search that finds it if that takes long."""
    log = shard.log
    decision = decide_lookup(shard.partition, log, timestamp, isolation_level)
    if isinstance(decision, FoundOffset):
        return decision
    search: Search | None
    if isinstance(decision, SearchMaxTimestamp):
        batch = log.batch_of_max_timestamp()
        if batch is None:
            return NOT_FOUND
        max_timestamp_ms = read_header(batch, 0).max_timestamp
        search = Search(shard, batch, max_timestamp_ms, 0, decision.end_offset)
    else:
        timestamp_ms, start_offset, end_offset = decision
        batch = log.batch_at_timestamp(timestamp_ms, start_offset)
        if batch is None:
            return NOT_FOUND
        search = Search(shard, batch, timestamp_ms, start_offset, end_offset)
    while search is not None:
        found = first_at_once(search.batch, search.timestamp_ms, search.start_offset)
        if isinstance(found, TakesLong):
            return search
        if found is not NOT_FOUND:
            return below(found, search.end_offset)
        search = _next_batch(search)
    return NOT_FOUND


def _next_batch(search: Search) -> Search | None:
    """The next batch to search, if the record is not in this one.

    The record with the batch's largest timestamp may lie below the log's start, to which DeleteRecords has moved.
    """
    offset = read_header(search.batch, 0).last_offset + 1
    batch = search.shard.log.batch_at_timestamp(search.timestamp_ms, offset)
    return None if batch is None else search._replace(batch=batch)


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
