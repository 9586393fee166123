"""ListOffsets: the offset of a timestamp or of a named position."""

from __future__ import annotations

import asyncio
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
from ottla.ports import Buffer, ReadPendingError, StorageError
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
# How long a request waits at most for batches that the engine fetches.
MOST_WAIT_MS = 20_000


class Search(NamedTuple):
    """A batch in which a record is searched by its timestamp."""

    shard: Shard
    batch: Buffer
    timestamp_ms: int
    start_offset: int
    end_offset: int


class Unanswered(NamedTuple):
    """A partition whose answer needs a thread, or a batch that the engine fetches; and its place in the response."""

    topic: str
    asked: ListOffsetsPartition
    begun: Search | asyncio.Future[None]
    answers: list[ListOffsetsPartitionResponse]
    place: int


class Deadline:
    """When a request gives up to wait for the engine."""

    def __init__(self, wait_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + wait_ms / 1000

    async def wait(self, done: asyncio.Future[None]) -> bool:
        """Waits for the engine; whether it was done in time."""
        await asyncio.wait([done], timeout=max(self._at - self._loop.time(), 0))
        return done.done()


def handle(
    node: Node, request: ListOffsetsRequest, context: RequestContext
) -> Reply[ListOffsetsResponse]:
    unanswered: list[Unanswered] = []
    steps = _answer(node, request, context, unanswered)
    response = node.cluster.share.answer(steps, SEARCHES_AT_ONCE)
    if not unanswered and not inspect.iscoroutine(response):
        return response
    return _finish(node, request, context, response, unanswered)


async def _finish(
    node: Node,
    request: ListOffsetsRequest,
    context: RequestContext,
    response: ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse],
    unanswered: Sequence[Unanswered],
) -> ListOffsetsResponse:
    """The response, when all searches are done."""
    wait_ms = min(request.timeout_ms or MOST_WAIT_MS, MOST_WAIT_MS)
    deadline = Deadline(wait_ms)
    if inspect.iscoroutine(response):
        response = await response
    assert isinstance(response, ListOffsetsResponse)
    for one in unanswered:
        found: ListOffsetsPartitionResponse | Search | asyncio.Future[None] = one.begun
        while isinstance(found, asyncio.Future):
            if not await deadline.wait(found):
                found = _failed(one.asked, ErrorCode.REQUEST_TIMED_OUT)
                break
            await node.cluster.share.pause()
            # Everything is decided again: the partition may have moved, or another one may have its name.
            found = _offset(node, one.topic, one.asked, request.isolation_level, context.version)
        if isinstance(found, Search):
            found = await _search_on_thread(node, one, found, deadline)
        one.answers[one.place] = found
    return response


async def _search_on_thread(
    node: Node, long: Unanswered, search: Search, deadline: Deadline
) -> ListOffsetsPartitionResponse:
    asked = long.asked
    while True:
        try:
            found = await node.cluster.share.elsewhere(
                first_at, search.batch, search.timestamp_ms, search.start_offset
            )
        except CorruptRecordsError:
            return _failed(asked, ErrorCode.CORRUPT_MESSAGE)
        if found is not NOT_FOUND:
            return _found(asked, below(found, search.end_offset))
        following = await _following(node, long, search, deadline)
        if isinstance(following, ErrorCode):
            return _failed(asked, following)
        if following is None:
            return _found(asked, NOT_FOUND)
        search = following


async def _following(
    node: Node, long: Unanswered, search: Search, deadline: Deadline
) -> Search | ErrorCode | None:
    """As `_next_batch`, after a wait in which the partition may have moved."""
    while True:
        if node.partitions.shard(long.topic, long.asked.partition_index) is not search.shard:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        try:
            return _next_batch(search)
        except ReadPendingError as pending:
            done = pending.done
        except StorageError as failure:
            search.shard.read_failed(failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not await deadline.wait(done):
            return ErrorCode.REQUEST_TIMED_OUT


def _answer(
    node: Node,
    request: ListOffsetsRequest,
    context: RequestContext,
    unanswered: list[Unanswered],
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
            if not isinstance(answer, ListOffsetsPartitionResponse):
                unanswered.append(Unanswered(topic.name, asked, answer, answers, len(answers)))
                answer = _failed(asked, ErrorCode.NONE)  # its place
            answers.append(answer)
            if needs_search(asked.timestamp):
                yield
    return ListOffsetsResponse(topics=topics)


def _offset(
    node: Node, topic: str, asked: ListOffsetsPartition, isolation_level: int, version: int
) -> ListOffsetsPartitionResponse | Search | asyncio.Future[None]:
    """The answer; or the long search that finds it; or a future that is done when it is worth asking again."""
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
    except ReadPendingError as pending:
        return pending.done
    except StorageError as failure:
        shard.read_failed(failure)
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
