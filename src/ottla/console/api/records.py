"""Records of a topic: search, live tail, one record, producing, export. All of it by the user's own connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal, cast

from ottla.client.admin_model.topics import TopicDescription
from ottla.console.clients import Clients
from ottla.console.http.errors import ApiError, bad_request, not_found
from ottla.console.http.parameters import check_times
from ottla.console.http.routes import Call, Download, Route, ServerEvent
from ottla.console.records.copies import RecordCopies, copies_of
from ottla.console.records.decoded import WantedFormat
from ottla.console.records.decoder import RecordDecoder
from ottla.console.records.exports import MEDIA_TYPES, ExportFormat, export
from ottla.console.records.filters import Filter, read_filters
from ottla.console.records.live_tail import TAIL_OPTIONS, TailBatch, tail
from ottla.console.records.one_record import (
    DetailOptions,
    RecordDetail,
    detail_of,
    read_one,
)
from ottla.console.records.rows import RecordRow, RecordRows
from ottla.console.records.search import (
    Ended,
    EndReason,
    Found,
    Order,
    Progress,
    RecordSearch,
    SearchBounds,
    TimeRange,
)
from ottla.console.records.windows import Isolation, LogEnds, LogReader, Window, log_reader
from ottla.console.registry.seen_subjects import sees_subject
from ottla.model import TopicPartition

MAX_LIMIT: Final = 5_000
MAX_EXPORT: Final = 1_000_000
MAX_SCANNED: Final = 20_000_000
MAX_SCANNED_BYTES: Final = 8 << 30
MAX_SECONDS: Final = 300
EXPORT_SECONDS: Final = 900
MAX_CHARS: Final = 20_000_000
PAGE_CHARS: Final = 100_000
MAX_OFFSET_DIGITS: Final = 18

# The topic


@dataclass(frozen=True)
class PartitionOffsets:
    """Where a partition begins and ends; readers of committed records see it up to `stable_offset`."""

    partition: int
    start_offset: int
    stable_offset: int
    end_offset: int


@dataclass(frozen=True)
class RecordsPlace:
    """What there is to read."""

    topic: str
    is_internal: bool
    partitions: list[PartitionOffsets]
    without_leader: list[int]
    """The partitions that nobody can read now; they are left out, also of searches."""


async def place(call: Call[None, None]) -> RecordsPlace:
    """The partitions of a topic and their offsets."""
    topic = await _topic(call)
    partitions = _partitions(topic, ())
    async with log_reader(
        call.identity.clients, shows_control=False, shows_aborted=False
    ) as reader:
        ends = await reader.ends(partitions)
    return RecordsPlace(
        topic=topic.name,
        is_internal=topic.is_internal,
        partitions=[PartitionOffsets(each.partition, *ends[each]) for each in partitions],
        without_leader=[each.partition for each in topic.partitions if each.leader is None],
    )


async def _topic(call: Call[Any, Any]) -> TopicDescription:
    name = call.path["topic"]
    found = await call.identity.clients.admin().describe_topics([name])
    return found[name]


def _partitions(topic: TopicDescription, wanted: Sequence[int]) -> list[TopicPartition]:
    """Those that are wanted; otherwise all that can be read, which are those with a leader."""
    leaders = {each.partition: each.leader for each in topic.partitions}
    for number in wanted:
        if number not in leaders:
            raise not_found(
                f"{topic.name} has no partition {number}", f"it has {len(leaders)}, from 0 on"
            )
    readable = [number for number, leader in leaders.items() if leader is not None]
    away = sorted(set(wanted or leaders).difference(readable))
    if away and (wanted or not readable):
        raise ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"partition {', '.join(map(str, away))} of {topic.name} has no leader: nobody can read it now",
        )
    chosen = set(wanted or readable)
    return [TopicPartition(topic.name, each) for each in readable if each in chosen]


async def _decoder(call: Call[Any, None]) -> RecordDecoder:
    """The decoder of data for this user, who sees some subjects of the registry."""
    decoder = call.console.record_decoder
    if decoder.schemas is None:
        return decoder
    visible = await call.visible()
    if visible.is_everything:
        return decoder
    return decoder.seen_by(partial(sees_subject, visible))


# Search


@dataclass(frozen=True)
class ReadQuery:
    """Which records, and how they are shown."""

    partition: list[int] = field(default_factory=list)
    """Those to read; all if none is given."""
    filter: list[str] = field(default_factory=list)
    """Conditions that all have to hold: `late`, `key = o-17`, `value.order.id = 7`, `header.trace exists`."""
    key_format: WantedFormat = "auto"
    value_format: WantedFormat = "auto"
    isolation: Isolation = "committed"
    """Whether records behind the last stable offset and aborted ones are shown, too."""
    aborted: bool = False
    """With isolation committed: whether records of aborted transactions are shown all the same, marked."""
    control: bool = False
    """Whether control records are shown."""


@dataclass(frozen=True)
class RangeQuery(ReadQuery):
    """Which part of the partitions, in which order."""

    order: Order = "newest"
    """By timestamp; within a partition by offset."""
    from_offset: int | None = None
    to_offset: int | None = None
    """Exclusive."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Exclusive."""


@dataclass(frozen=True)
class SearchQuery(RangeQuery):
    """A search, which ends at the first of its bounds; `cursor` goes on where one has ended."""

    cursor: list[str] = field(default_factory=list)
    """Pairs such as 0:17,1:30 of partition and offset: with order newest the end, otherwise the start."""
    limit: int = 50
    max_records: int = 2_000_000
    max_bytes: int = 1 << 30
    max_seconds: float = 30.0


@dataclass(frozen=True)
class RowsEvent:
    """Some of the records that were found, in order."""

    rows: list[RecordRow]


@dataclass(frozen=True)
class EndEvent:
    """How a search ended: limit (as many as asked for), end (of the range), or the bound that it met."""

    reason: EndReason
    progress: Progress
    cursor: list[str]
    """For going on; empty if there is nothing more."""


async def search(call: Call[SearchQuery, None]) -> AsyncIterator[ServerEvent]:
    """Finds records; it ends with an event that says why."""
    query = call.query
    _check("limit", query.limit, MAX_LIMIT)
    bounds = SearchBounds(
        query.limit,
        _check("max_records", query.max_records, MAX_SCANNED),
        _check("max_bytes", query.max_bytes, MAX_SCANNED_BYTES),
        _check("max_seconds", query.max_seconds, MAX_SECONDS),
    )
    check_times(query.since_ms, query.until_ms)
    filters = read_filters(query.filter)
    cursor = _cursor_of(query.cursor)
    topic = await _topic(call)
    partitions = _partitions(topic, query.partition)
    return _search_events(call, partitions, filters, cursor, bounds)


async def _search_events(
    call: Call[SearchQuery, None],
    partitions: Sequence[TopicPartition],
    filters: Sequence[Filter],
    cursor: dict[int, int],
    bounds: SearchBounds,
) -> AsyncIterator[ServerEvent]:
    query = call.query
    async with _reader_for(call.identity.clients, query) as reader:
        found = await _search_of(call, query, reader, partitions, filters, bounds, cursor)
        async with aclosing(found.run()) as events:
            async for event in events:
                if call.console.is_stopping:
                    return
                match event:
                    case Found(rows):
                        yield ServerEvent("records", RowsEvent(rows))
                    case Progress():
                        yield ServerEvent("progress", event)
                    case Ended(reason, progress, goes_on):
                        end = EndEvent(reason, progress, _cursor_texts(goes_on))
                        yield ServerEvent("ended", end)


def _reader_for(clients: Clients, query: ReadQuery) -> Any:
    return log_reader(
        clients,
        shows_control=query.control,
        shows_aborted=query.aborted or query.isolation == "uncommitted",
    )


async def _search_of(
    call: Call[Any, None],
    query: RangeQuery,
    reader: LogReader,
    partitions: Sequence[TopicPartition],
    filters: Sequence[Filter],
    bounds: SearchBounds,
    cursor: dict[int, int],
    *,
    makes_rows: bool = True,
) -> RecordSearch:
    ends = await reader.ends(partitions)
    windows = await _windows(reader, query, ends, cursor)
    return RecordSearch(
        reader,
        RecordRows(await _decoder(call), query.key_format, query.value_format),
        order=query.order,
        windows=windows,
        ends=ends,
        filters=filters,
        times=TimeRange(query.since_ms, query.until_ms),
        bounds=bounds,
        makes_rows=makes_rows,
    )


async def _windows(
    reader: LogReader,
    query: RangeQuery,
    ends: dict[TopicPartition, LogEnds],
    cursor: dict[int, int],
) -> dict[TopicPartition, Window]:
    """The offsets of each partition that are asked for."""
    partitions = list(ends)
    since = {} if query.since_ms is None else await reader.offsets_at(partitions, query.since_ms)
    until = {} if query.until_ms is None else await reader.offsets_at(partitions, query.until_ms)
    windows = {}
    for each, (start, stable, end) in ends.items():
        last = end if query.isolation == "uncommitted" else stable
        place_since = since.get(each, start)
        starts = [start, query.from_offset or 0, last if place_since is None else place_since]
        stops = [last, last if (place_until := until.get(each)) is None else place_until]
        if query.to_offset is not None:
            stops.append(query.to_offset)
        at = cursor.get(each.partition)
        if at is not None:
            (stops if query.order == "newest" else starts).append(at)
        first, stop = max(starts), min(stops)
        windows[each] = Window(min(first, stop), stop)
    return windows


def _check(name: str, value: Any, most: int) -> Any:
    if not 0 < value <= most:
        raise bad_request(f"{name} is more than 0 and at most {most}")
    return value


def _cursor_of(texts: Sequence[str]) -> dict[int, int]:
    found = {}
    for pair in ",".join(texts).split(","):
        partition, _, offset = pair.partition(":")
        if not pair:
            continue
        if not (_is_offset(partition) and _is_offset(offset)):
            raise bad_request(f"{pair!r} in the cursor is no pair of partition and offset")
        found[int(partition)] = int(offset)
    return found


def _is_offset(text: str) -> bool:
    return text.isdecimal() and len(text) <= MAX_OFFSET_DIGITS


def _cursor_texts(cursor: dict[int, int]) -> list[str]:
    """The pairs, in texts that a query may have."""
    pairs = [f"{partition}:{offset}" for partition, offset in cursor.items()]
    return [",".join(pairs[at : at + 100]) for at in range(0, len(pairs), 100)]


# Live


@dataclass(frozen=True)
class LiveQuery(ReadQuery):
    """What comes in; `cursor` goes on where a stream has ended."""

    cursor: list[str] = field(default_factory=list)


async def live(call: Call[LiveQuery, None]) -> AsyncIterator[ServerEvent]:
    """The records that come in from now on, several times a second."""
    filters = read_filters(call.query.filter)
    cursor = _cursor_of(call.query.cursor)
    topic = await _topic(call)
    return _live_events(call, _partitions(topic, call.query.partition), filters, cursor)


async def _live_events(
    call: Call[LiveQuery, None],
    partitions: Sequence[TopicPartition],
    filters: Sequence[Filter],
    cursor: dict[int, int],
) -> AsyncIterator[ServerEvent]:
    query, clients = call.query, call.identity.clients
    rows = RecordRows(await _decoder(call), query.key_format, query.value_format)
    consumer = clients.inspecting_consumer(
        shows_control=query.control,
        shows_aborted=query.aborted,
        isolation_level=f"read_{query.isolation}",
        **TAIL_OPTIONS,
    )
    try:
        ends = await consumer.end_offsets(partitions)
        starts = {each: min(end, cursor.get(each.partition, end)) for each, end in ends.items()}
        async with aclosing(tail(consumer, starts, rows, filters)) as batches:
            async for batch in batches:
                if call.console.is_stopping:
                    return
                if batch is not None:
                    yield ServerEvent("records", batch)
    finally:
        await clients.let_go(consumer)


# One record


@dataclass(frozen=True)
class DetailQuery:
    """How a record is shown."""

    key_format: WantedFormat = "auto"
    value_format: WantedFormat = "auto"
    max_chars: int = PAGE_CHARS
    """Longer texts of key and value are cut."""
    header_offset: int = 0
    header_limit: int = 100


async def record(call: Call[DetailQuery, None]) -> RecordDetail:
    """One record, with the facts of its batch."""
    query = call.query
    options = DetailOptions(
        query.key_format,
        query.value_format,
        _check("max_chars", query.max_chars, MAX_CHARS),
        max(0, query.header_offset),
        _check("header_limit", query.header_limit, 1_000),
    )
    partition, offset = await _address(call)
    async with log_reader(call.identity.clients, shows_control=True, shows_aborted=True) as reader:
        found = await read_one(reader, partition, offset)
        return await detail_of(reader, await _decoder(call), found, options)


async def _address(call: Call[Any, None]) -> tuple[TopicPartition, int]:
    number, offset = call.path["partition"], call.path["offset"]
    if not (_is_offset(number) and _is_offset(offset)):
        raise not_found("a record is named by the numbers of its partition and its offset")
    (partition,) = _partitions(await _topic(call), [int(number)])
    return partition, int(offset)


@dataclass(frozen=True)
class RawQuery:
    """Which bytes of a record."""

    part: Literal["key", "value", "header"] = "value"
    header: int = 0
    """The number of the header, from 0 on."""


async def raw(call: Call[RawQuery, None]) -> Download:
    """The bytes of a key, a value or a header, as a file."""
    partition, offset = await _address(call)
    async with log_reader(call.identity.clients, shows_control=True, shows_aborted=True) as reader:
        found = (await read_one(reader, partition, offset)).record
    part = call.query.part
    data = found.key if part == "key" else found.value
    if part == "header":
        if not 0 <= call.query.header < len(found.headers):
            raise not_found(f"the record has {len(found.headers)} headers")
        data = found.headers[call.query.header][1]
    if data is None:
        raise not_found(f"the {part} of this record is null")
    name = f"{partition.topic}-{partition.partition}-{offset}-{part}.bin"
    return Download(name, "application/octet-stream", _one_chunk(data))


async def copies(call: Call[None, None]) -> RecordCopies:
    """One record as a line of JSON, and as commands for a shell."""
    partition, offset = await _address(call)
    async with log_reader(call.identity.clients, shows_control=True, shows_aborted=True) as reader:
        found = (await read_one(reader, partition, offset)).record
    servers = call.console.settings.options.get("bootstrap.servers", "")
    return copies_of(
        found,
        servers if isinstance(servers, str) else ",".join(map(str, cast("list[str]", servers))),
    )


async def _one_chunk(data: bytes) -> AsyncIterator[bytes]:
    yield data


# Export


@dataclass(frozen=True)
class ExportQuery(RangeQuery):
    """What a search finds, as a file."""

    format: ExportFormat = "jsonl"
    limit: int = 100_000


async def export_records(call: Call[ExportQuery, None]) -> Download:
    """What a search finds; a file that a bound has ended says so in its last line."""
    query = call.query
    _check("limit", query.limit, MAX_EXPORT)
    check_times(query.since_ms, query.until_ms)
    filters = read_filters(query.filter)
    topic = await _topic(call)
    partitions = _partitions(topic, query.partition)
    chunks = _export_chunks(call, partitions, filters)
    return Download(f"{topic.name}.{query.format}", MEDIA_TYPES[query.format], chunks)


async def _export_chunks(
    call: Call[ExportQuery, None], partitions: Sequence[TopicPartition], filters: Sequence[Filter]
) -> AsyncIterator[bytes]:
    query = call.query
    bounds = SearchBounds(query.limit, MAX_SCANNED, MAX_SCANNED_BYTES, EXPORT_SECONDS)
    rows = RecordRows(await _decoder(call), query.key_format, query.value_format)
    async with _reader_for(call.identity.clients, query) as reader:
        found = await _search_of(
            call, query, reader, partitions, filters, bounds, {}, makes_rows=False
        )
        async with aclosing(export(found, rows, query.format)) as chunks:
            async for chunk in chunks:
                yield chunk


ROUTES: Final[list[Route]] = [
    Route("GET", "/api/topics/{topic}/records", place, "The partitions of a topic to read"),
    Route(
        "GET",
        "/api/topics/{topic}/records/search",
        search,
        "Search the records of a topic",
        query=SearchQuery,
        events={"records": RowsEvent, "progress": Progress, "ended": EndEvent},
    ),
    Route(
        "GET",
        "/api/topics/{topic}/records/live",
        live,
        "The records of a topic as they come in",
        query=LiveQuery,
        events={"records": TailBatch},
    ),
    Route(
        "GET",
        "/api/topics/{topic}/records/export",
        export_records,
        "The records that a search finds, as a file",
        query=ExportQuery,
    ),
    Route(
        "GET",
        "/api/topics/{topic}/records/{partition}/{offset}",
        record,
        "One record",
        query=DetailQuery,
    ),
    Route(
        "GET",
        "/api/topics/{topic}/records/{partition}/{offset}/raw",
        raw,
        "The bytes of a record's key, value or header",
        query=RawQuery,
    ),
    Route(
        "GET",
        "/api/topics/{topic}/records/{partition}/{offset}/copies",
        copies,
        "A record as texts to copy",
    ),
]
