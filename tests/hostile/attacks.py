"""What hostile clients do to a broker, each with how much of it, and what Kafka does where that is known."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tests.broker.requests import create, fill, read_values
from tests.broker.telemetry import otlp_payloads
from tests.broker.telemetry.clients import PushingClient, alter, subscribe
from tests.hostile import frames
from tests.hostile.every_list import every_list
from tests.hostile.target import Target
from tests.waiting import in_time

from ottla.broker.handlers import fetch
from ottla.broker.requests.api import MAX_ELEMENTS_IN_SLICES
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.compression import Codec, compress
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

VICTIM: Final = "victim"
LARGE: Final = "large"
WIDE: Final = "wide"
WIDE_PARTITIONS: Final = 2000
TRANSACTION: Final = 1
MAX_FRAME_BYTES: Final = 100 << 20
SMALL_LOG_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z]+ +\S")


@dataclass(frozen=True)
class Attack:
    """`full` and `short` say how much of it there is in the campaign and in `make test`.

    `growth_mb` is how much more memory the broker may need meanwhile, for the full size.
    """

    name: str
    what: str
    full: int
    short: int
    run: Callable[[Target, int], str]
    growth_mb: int = 256
    kafka: str = "not known"


def ensure_victim(target: Target) -> None:
    """A topic of somebody else's."""
    with RawConnection(target.process.address) as session:
        ensure_topic(session, VICTIM)


def ensure_topic(session: RawConnection, name: str, partitions: int = 1) -> None:
    known = session.call(MetadataRequest(topics=None), MetadataResponse, 12).topics
    if name not in {topic.name for topic in known}:
        create(session, name, partitions)


# -- work that grows faster than what is sent


def patterns(target: Target, count: int) -> str:
    """Patterns that take exponential time, or memory, where a matcher goes back."""
    session = target.session()
    transactional_id = "a" * count + "!"
    asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    deadline = time.monotonic() + target.patience_seconds
    while True:
        find = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
        session.call(find, FindCoordinatorResponse, 3)
        error = session.call(asked, InitProducerIdResponse, 4).error_code
        if error == ErrorCode.NONE:
            break
        in_time(deadline, ErrorCode(error).name)
        time.sleep(0.05)
    found = []
    for pattern in (
        "(a+)+$",
        "(a|a)*$",
        "(a|aa)+$",
        "((((a{30}){30}){30}){30}){30}",
        "(" * 5000 + ")" * 5000,
        "(a?){1000}a{1000}",
        "a" * 30_000,
        "[" * 1000,
        r"[^\pN\pL]" * 3600,
        r"[^\pN\pL]" * 111,
        r"(?i)[\pL]" * 3600,
        r"([^\pN\pL]{30}){30}",
    ):
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
        )
        error = session.call(request, ListTransactionsResponse, 2).error_code
        assert error in (ErrorCode.NONE, ErrorCode.INVALID_REGULAR_EXPRESSION), error
        found.append(ErrorCode(error).name)
    return f"{found.count('NONE')} of {len(found)} patterns were taken"


def configs_again_and_again(target: Target, count: int) -> str:
    ensure_victim(target)
    return str(target.exchange(frames.describe_configs(VICTIM, count)))


def bombs(target: Target, count: int) -> str:
    """Batches of all codecs that grow to 90 MiB, those of zstd in one row on one connection."""
    ensure_victim(target)
    zstd = frames.bomb(VICTIM, Codec.ZSTD, frames.INCOMPRESSIBLE_BYTES)
    found = [target.exchange([zstd] * count, count)]
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
        found.append(target.exchange(frames.bomb(VICTIM, codec)))
    return "; ".join(map(str, found))


def stored_bombs(target: Target, count: int) -> str:
    """Batches that grow to 90 MiB, one of them with very many records, are stored and asked for by time."""
    ensure_victim(target)
    target.exchange(frames.bomb(VICTIM, Codec.ZSTD))
    found = [target.exchange([frames.list_offset_at(VICTIM, 0)] * count, count)]
    target.exchange(frames.bomb_of_many(VICTIM, Codec.ZSTD))
    found.append(target.exchange([frames.list_offset_at(VICTIM, 1)] * count, count))
    return "; ".join(map(str, found))


# -- very many elements


def inside_and_beyond(target: Target, count: int, most: int, build: Callable[[int], bytes]) -> str:
    """As many elements as are just answered, and then as many as the attack has."""
    inside = target.exchange(build(min(count, most)))
    assert inside.answers == 1, f"{min(count, most)} elements: {inside}"
    beyond = f"; {count}: {target.exchange(build(count))}" if count > most else ""
    return f"{min(count, most)}: {inside}{beyond}"


def empty_names(target: Target, count: int) -> str:
    return inside_and_beyond(
        target,
        count,
        MAX_ELEMENTS_IN_SLICES,
        lambda size: frames.metadata(frames.repeated(frames.string(""), size)),
    )


def unknown_names(target: Target, count: int) -> str:
    names = (frames.string(f"unknown-{number}") for number in range(count))
    return str(target.exchange(frames.metadata(frames.array(names))))


def existing_name_again_and_again(target: Target, count: int) -> str:
    ensure_victim(target)
    return inside_and_beyond(
        target,
        count,
        MAX_ELEMENTS_IN_SLICES,
        lambda size: frames.metadata(frames.repeated(frames.string(VICTIM), size)),
    )


def elements(
    build: Callable[[int], bytes], max_elements: int = MAX_ELEMENTS_IN_SLICES
) -> Callable[[Target, int], str]:
    """An attack with elements in one list, which may be within another."""

    def run(target: Target, count: int) -> str:
        ensure_victim(target)
        return inside_and_beyond(target, count, max_elements - 1, build)

    return run


def every_list_long(target: Target, count: int) -> str:
    """Every list of every request, one after the other; says which ones the probe waited for longest."""
    probe = target.probe
    assert probe is not None
    waits: list[tuple[float, str]] = []
    for long_list in every_list():
        probe.reset()
        found = target.exchange(long_list.frame(count))
        probe.go_on(1, target.patience_seconds)
        waits.append((probe.longest_wait_seconds, str(long_list)))
        if found.end == "no answer" and not probe.go_on(1, target.patience_seconds):
            break
        target.close_all()
    slowest = sorted(waits, reverse=True)[:5]
    probe.longest_wait_seconds = slowest[0][0]
    return "slowest: " + ", ".join(f"{name} {1000 * wait:.0f} ms" for wait, name in slowest)


def topics_in_one_request(target: Target, count: int) -> str:
    return str(target.exchange(frames.create_topics(f"made-{number}" for number in range(count))))


def fetch_sessions(target: Target, count: int) -> str:
    """Seven sessions; what they held has to go with their clients."""
    ensure_victim(target)
    found = [
        inside_and_beyond(
            target,
            count,
            fetch.API.max_elements - 1,
            lambda size: frames.fetch_elements(VICTIM, size, in_session=True),
        )
        for _ in range(7)
    ]
    return "; ".join(dict.fromkeys(found))


def waiting_fetches(target: Target, count: int) -> str:
    """Ten connections, each with a whole frame of so many bytes, most of them names, whose answer has to wait."""
    ensure_victim(target)
    data = frames.waiting_fetch(VICTIM, count)
    for _ in range(10):
        target.connect().sendall(data)
    time.sleep(1.0)  # until the broker has read what the system took
    return f"{10 * len(data) >> 20} MiB were sent"


def pipelined(target: Target, count: int) -> str:
    ensure_victim(target)
    small = frames.metadata(frames.repeated(frames.string(VICTIM), 1))
    return str(target.exchange(small * count, count))


# -- frames that never end, and connections


def unfinished_frames(target: Target, count: int) -> str:
    """Forty connections, each with so many bytes of a frame whose last byte never comes."""
    sent = [0] * 40
    piece = bytes(1 << 20)
    deadline = time.monotonic() + min(20.0, target.patience_seconds)

    def send(number: int) -> None:
        with suppress(OSError):
            connected = target.connect()
            connected.settimeout(1.0)
            connected.sendall(struct.pack(">ihhih", count + 1, frames.PRODUCE, 9, 1, 0))
            while sent[number] < count and time.monotonic() < deadline:
                with suppress(TimeoutError):
                    sent[number] += connected.send(piece[: count - sent[number]])

    sending = [threading.Thread(target=send, args=(number,)) for number in range(len(sent))]
    for each in sending:
        each.start()
    for each in sending:
        each.join()
    time.sleep(1.0)  # until the broker has read what the system took
    return f"{sum(sent) >> 20} MiB were taken of {40 * count >> 20}"


def half_open(target: Target, count: int) -> str:
    """Beginnings of frames, each on a connection of its own, which then says nothing more."""
    whole = frames.metadata(frames.repeated(frames.string("x"), 1))
    for number in range(count):
        target.connect().sendall(whole[: 1 + number % (len(whole) - 1)])
    return f"{count} connections"


def connections(target: Target, count: int) -> str:
    """As many as the limit of files allows, each with a request."""
    small = frames.framed(frames.API_VERSIONS, 0, b"")
    made = 0
    for _ in range(count):
        try:
            target.connect().sendall(small)
        except OSError:
            break
        made += 1
    # One that comes later is served, or refused, but not ignored.
    return f"{made} connections; one more: {target.exchange(small)}"


def small_requests_of_many(target: Target, count: int) -> str:
    """Many connections at once, each with one small request about a topic with many partitions."""
    with target.session() as session:
        ensure_topic(session, WIDE, WIDE_PARTITIONS)
    small = frames.message(MetadataRequest(topics=[MetadataRequestTopic(name=WIDE)]), 12)
    connected = [target.connect() for _ in range(count)]
    for each in connected:
        each.sendall(small)
    for each in connected:
        with each.makefile("rb") as answers:
            (size,) = struct.unpack(">i", answers.read(4))
            assert len(answers.read(size)) == size
    return f"{count} connections"


def comings_and_goings(target: Target, count: int) -> str:
    small = frames.framed(frames.API_VERSIONS, 0, b"")
    address = target.connect().getpeername()
    for number in range(count):
        with socket.create_connection(address, target.patience_seconds) as made:
            if number % 2:
                # It is reset in the middle of an answer.
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.sendall(small)
    return f"{count} connections"


def sizes_beyond_limits(target: Target, count: int) -> str:
    """Sizes and counts that lie: nothing may be reserved for them."""
    header = struct.pack(">hhih", frames.METADATA, 1, 1, 0)
    flexible = struct.pack(">hhihb", frames.METADATA, 9, 1, 0, 0)

    def sized(body: bytes) -> bytes:
        return struct.pack(">i", len(body)) + body

    lies = [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -(2**31)),
        struct.pack(">i", MAX_FRAME_BYTES + 1),
        sized(header + struct.pack(">i", 2**31 - 1)),
        sized(header + struct.pack(">i", -2)),
        sized(header + struct.pack(">ih", 1, 32_767)),
        sized(header + struct.pack(">ih", 1, -5)),
        sized(flexible + b"\xff\xff\xff\xff\x0f"),
        sized(flexible + b"\xff" * 40),
        sized(flexible + b"\x02\xff\xff\xff\xff\x07"),
        sized(struct.pack(">hhih", frames.METADATA, 1, 1, 32_767)),
        frames.produce(VICTIM, b"\x00" * 8 + b"\x7f\xff\xff\xff" + b"\xff" * 60),
        frames.produce(VICTIM, b"\xff" * 70),
    ]
    ends: dict[str, int] = {}
    for number in range(count):
        end = str(target.exchange(lies[number % len(lies)]))
        ends[end] = ends.get(end, 0) + 1
    assert not any("no answer" in end for end in ends), ends
    return "; ".join(f"{times} times {end}" for end, times in ends.items())


def join_metadata(target: Target, count: int) -> str:
    """So many bytes of metadata of a member, in one request and in several at once."""
    found = [target.exchange(frames.join_group("large", count), 1)]
    for number in range(3):
        data = frames.join_group(f"large-{number}", count // 4)
        found.append(target.exchange(data, 1))
    return "; ".join(map(str, found))


def slow_readers(target: Target, count: int) -> str:
    """They ask for 8 MB again and again, and read nothing."""
    with RawConnection(target.process.address) as session:
        ensure_topic(session, LARGE)
        while len(read_values(session, LARGE)) < 8:
            fill(session, LARGE, bytes(1_000_000))
    asked = frames.fetch(LARGE, 8 << 20)
    for _ in range(count):
        connected = target.connect()
        connected.setblocking(False)
        with suppress(BlockingIOError):
            for _ in range(200):
                connected.send(asked)
    time.sleep(1.0)
    return f"{count} connections with 200 requests each"


# -- metrics of clients


def pushed_metrics(target: Target, count: int) -> str:
    """Payloads that grow, that have as many pieces as fit, and as many series with as long labels as there may be."""
    address = target.process.address
    subscribe(address, "hostile", interval_ms="100")
    unknown = otlp_payloads.field(500, 1)
    long = {f"label{number}": "\N{GRINNING FACE}" * 30 for number in range(4)}
    series = (
        otlp_payloads.gauge("g", otlp_payloads.point(1, {**long, "number": number}))
        for number in range(1700)
    )
    empty_gzip = compress(Codec.GZIP, b"", None)
    payloads = [
        (Codec.ZSTD, zstd_of_zeros(4 << 30)),
        *((codec, compress(codec, bytes(16 << 20), None)) for codec in (Codec.GZIP, Codec.LZ4)),
        (Codec.GZIP, empty_gzip * (MAX_PUSH_BYTES // len(empty_gzip))),
        (Codec.NONE, unknown * (MAX_PUSH_BYTES // len(unknown))),
        (Codec.NONE, otlp_payloads.field(1, b"") * (MAX_PUSH_BYTES // 2)),
        (Codec.NONE, otlp_payloads.payload(*series)),
    ]
    answers = Counter[str]()
    for number in range(count):
        with suppress(ConnectionError), PushingClient(address, f"hostile-{number}") as client:
            client.get()
            codec, data = payloads[number % len(payloads)]
            answers[client.push(data, codec=codec).name] += 1
    return ", ".join(f"{name}: {times}" for name, times in sorted(answers.items()))


MAX_PUSH_BYTES: Final = 1 << 20


def zstd_of_zeros(size_bytes: int) -> bytes:
    """A frame of zstd that is made of repeated zeros: 128 KiB of them in four bytes."""
    block_bytes = 128 << 10
    block = (block_bytes << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (1 << 1 | 1).to_bytes(3, "little")  # an RLE block of none
    return b"\x28\xb5\x2f\xfd\x00\x58" + block * (size_bytes // block_bytes) + last + b"\x00"


def metric_subscriptions(target: Target, count: int) -> str:
    """As many subscriptions as there may be, with patterns that take long, and clients that match none of them."""
    address = target.process.address
    nasty = ("(a+)+b", "(a?){60}a{60}", "(((a{10}){10}){10}){10}", "[^\\pN\\pL]" * 20)
    answers = Counter[str]()
    with RawConnection(address) as session:
        for number in range(count):
            match = f"client_id={nasty[number % len(nasty)]}"
            options: dict[str, str | None] = {"metrics": "m" * 8000, "match": match}
            answers[alter(session, f"hostile-{number}", options)[0].name] += 1
    for _ in range(5):
        with PushingClient(address, "a" * 32_000) as client:
            client.get()
    with RawConnection(address) as session:
        for number in range(count):
            alter(session, f"hostile-{number}", {"metrics": None, "match": None})
    return ", ".join(f"{name}: {times}" for name, times in sorted(answers.items()))


# -- texts


INJECTED: Final = "x\n2026-01-01 00:00:00.000 ERROR   injected\r\x1b[31m\x00\u2028end"


def log_injection(target: Target, count: int) -> str:
    """Names with line breaks and escapes in everything that may be logged."""
    already = len(target.process.log)
    name = INJECTED.encode()
    for _ in range(count):
        body = frames.string(INJECTED) + struct.pack(">ii", 10_000, 10_000)
        protocol = frames.string(INJECTED) + struct.pack(">i", 0)
        joined = body + frames.string("") + frames.string(INJECTED) + frames.repeated(protocol, 1)
        target.exchange(frames.framed(frames.JOIN_GROUP, 1, joined, name))
        target.exchange(frames.metadata(frames.repeated(frames.string(INJECTED), 1)))
        target.exchange(frames.create_topics([INJECTED]))
        target.exchange(name)
        target.exchange(frames.framed(9999, 0, b"", name))
    added = target.process.log[already:]
    lines = added.splitlines()
    wrong = [line for line in lines if not SMALL_LOG_LINE.match(line)]
    wrong += [line for line in lines if "\x1b" in line or "\x00" in line]
    wrong += [line for line in lines if line.startswith("2026-01-01 00:00:00.000")]
    assert not wrong, wrong[0]
    return f"{len(lines)} lines, all of them the broker's own"


def path_traversal(target: Target, count: int) -> str:
    """Names of topics that are paths; no file may be made outside of the data folder."""
    outside = sorted(path for path in target.folder.iterdir() if path != target.process.data)
    names = [
        *("..", ".", "../evil", "../../evil", "/tmp/evil", "a/../../evil", "evil/", "a\\..\\evil"),
        *("%2e%2e%2fevil", "evil\x00", "-0", "", "e" * 250, "evil-0/00000000000000000000.log"),
    ]
    codes: dict[str, int] = {}
    with RawConnection(target.process.address) as session:
        for _ in range(count):
            topics = [
                CreatableTopic(
                    name=name, num_partitions=1, replication_factor=-1, assignments=[], configs=[]
                )
                for name in names
            ]
            answer = session.call(CreateTopicsRequest(topics=topics), CreateTopicsResponse, 4)
            codes = {found.name: found.error_code for found in answer.topics}
    target.exchange(frames.metadata(frames.array(map(frames.string, names))))
    allowed = {name for name, code in codes.items() if code == ErrorCode.NONE}
    assert allowed <= {"-0"}, allowed
    now = sorted(path for path in target.folder.iterdir() if path != target.process.data)
    assert now == outside, now
    strange = list(target.process.data.rglob("*evil*"))
    assert not strange, strange
    return f"{len(codes) - len(allowed)} names refused"


def metrics_endpoint(target: Target, count: int) -> str:
    """Silent, endless and broken requests to the page of metrics, and many good ones at once."""
    address = target.metrics_address
    waiting = []
    for number in range(count):
        with suppress(OSError):
            made = socket.create_connection(address, target.patience_seconds)
            waiting.append(made)
            made.sendall(
                (
                    b"",
                    b"GET /metrics HTTP/1.1\r\n\r\n",
                    b"GET /" + b"x" * 20_000,
                    b"GET /metrics HTTP/1.1\r\nX: ",
                    b"\x00\xff" * 100 + b"\r\n\r\n",
                    b"GET /../../etc/passwd HTTP/1.1\r\n\r\n",
                )[number % 6]
            )
    for made in waiting:
        made.close()
    return f"{count} connections"


MILLION: Final = 1_000_000

ATTACKS: Final = {
    attack.name: attack
    for attack in (
        Attack(
            name="patterns",
            what="ListTransactions with patterns such as (a+)+$",
            full=5000,
            short=60,
            run=patterns,
            kafka="RE2/J: linear time",
        ),
        Attack(
            name="empty-names",
            what="Metadata with so many empty names",
            full=52 * MILLION,
            short=MILLION,
            run=empty_names,
            growth_mb=400,
            kafka="parses all of them on one of 8 request threads; others go on",
        ),
        Attack(
            name="configs",
            what="DescribeConfigs naming one topic so often",
            full=30_000,
            short=3000,
            run=configs_again_and_again,
            kafka="answers each of them",
        ),
        Attack(
            name="unknown-names",
            what="Metadata with so many unknown names",
            full=100_000,
            short=2000,
            run=unknown_names,
            kafka="creates them in the controller, at most 10,000 partitions per request",
        ),
        Attack(
            name="existing-name",
            what="Metadata with an existing name so often",
            full=MILLION,
            short=50_000,
            run=existing_name_again_and_again,
            kafka="names are a set: one in the answer",
        ),
        Attack(
            name="bombs",
            what="zstd bombs of 1 MB in a row, and one of each codec",
            full=150,
            short=5,
            run=bombs,
            kafka="decompresses in small pieces on a request thread, without a limit",
        ),
        Attack(
            name="pushed-metrics",
            what="PushTelemetry with bombs of up to 4 GiB, and payloads full of small pieces or of series",
            full=500,
            short=7,
            run=pushed_metrics,
            kafka="refuses payloads that grow beyond telemetry.max.bytes; plugins do the rest",
        ),
        Attack(
            name="metric-subscriptions",
            what="so many subscriptions to client metrics with patterns such as (a+)+b, and clients to match",
            full=1200,
            short=60,
            run=metric_subscriptions,
            kafka="java.util.regex: exponential time",
        ),
        Attack(
            name="stored-bombs",
            what="ListOffsets by time in a batch that grows to 90 MiB, so often",
            full=50,
            short=5,
            run=stored_bombs,
            kafka="decompresses in small pieces on a request thread, without a limit",
        ),
        Attack(
            name="describe-groups",
            what="DescribeGroups of so many",
            full=MILLION,
            short=100_000,
            run=elements(frames.describe_groups),
        ),
        Attack(
            name="produce-elements",
            what="Produce to so many partitions",
            full=MILLION,
            short=200_000,
            run=elements(lambda count: frames.produce_elements(VICTIM, count)),
        ),
        Attack(
            name="list-offsets",
            what="ListOffsets of so many partitions",
            full=MILLION,
            short=150_000,
            run=elements(lambda count: frames.list_offsets(VICTIM, count)),
        ),
        Attack(
            name="offset-fetch",
            what="OffsetFetch of so many partitions",
            full=MILLION,
            short=250_000,
            run=elements(frames.offset_fetch),
        ),
        Attack(
            name="fetch-elements",
            what="Fetch of so many partitions",
            full=MILLION,
            short=50_000,
            run=elements(
                lambda count: frames.fetch_elements(VICTIM, count, in_session=False),
                fetch.API.max_elements,
            ),
        ),
        Attack(
            name="every-list",
            what="every list of every request with so many elements",
            full=30_000,
            short=1000,
            run=every_list_long,
        ),
        Attack(
            name="create-topics",
            what="CreateTopics of so many",
            full=20_000,
            short=300,
            run=topics_in_one_request,
            kafka="POLICY_VIOLATION beyond 10,000 partitions per request",
        ),
        Attack(
            name="fetch-sessions",
            what="7 fetch sessions of so many partitions",
            full=200_000,
            short=30_000,
            run=fetch_sessions,
            kafka="1,000 sessions of any size, kept for two minutes after their client left",
        ),
        Attack(
            name="waiting-fetches",
            what="10 fetches that wait, with so many bytes of names to forget",
            full=60 << 20,
            short=4 << 20,
            run=waiting_fetches,
            growth_mb=400,
            kafka="the request is kept while it waits",
        ),
        Attack(
            name="pipelined",
            what="so many small requests at once on one connection",
            full=60_000,
            short=25_000,
            run=pipelined,
            growth_mb=64,
            kafka="one request per connection at a time",
        ),
        Attack(
            name="unfinished",
            what="40 connections with so many bytes of a frame",
            full=99 << 20,
            short=2 << 20,
            run=unfinished_frames,
            growth_mb=400,
            kafka="reserves the whole frame when its size is read, unless queued.max.request.bytes is set",
        ),
        Attack(
            name="half-open",
            what="so many connections that begin a frame",
            full=1000,
            short=200,
            run=half_open,
            kafka="closed after connections.max.idle.ms",
        ),
        Attack(
            name="connections",
            what="so many connections",
            full=10_000,
            short=500,
            run=connections,
            kafka="no limit unless max.connections is set",
        ),
        Attack(
            name="small-requests-of-many",
            what="so many connections with one small request each, about 2,000 partitions",
            full=400,
            short=150,
            run=small_requests_of_many,
        ),
        Attack(
            name="comings-and-goings",
            what="so many connections that come and go",
            full=5000,
            short=300,
            run=comings_and_goings,
        ),
        Attack(
            name="sizes",
            what="so many frames with sizes and counts that lie",
            full=3000,
            short=60,
            run=sizes_beyond_limits,
            growth_mb=64,
            kafka="InvalidReceiveException or InvalidRequestException: closed",
        ),
        Attack(
            name="join-metadata",
            what="JoinGroup with so many bytes of metadata",
            full=90_000_000,
            short=4_000_000,
            run=join_metadata,
            growth_mb=600,
            kafka="taken into memory; fails when it is written to __consumer_offsets",
        ),
        Attack(
            name="slow-readers",
            what="so many clients that ask and do not read",
            full=100,
            short=10,
            run=slow_readers,
            kafka="one answer per connection waits to be sent",
        ),
        Attack(
            name="log-injection",
            what="line breaks and escapes in names, so often",
            full=50,
            short=2,
            run=log_injection,
            growth_mb=64,
        ),
        Attack(
            name="paths",
            what="names of topics that are paths, so often",
            full=20,
            short=1,
            run=path_traversal,
            growth_mb=64,
            kafka="INVALID_TOPIC_EXCEPTION",
        ),
        Attack(
            name="metrics",
            what="so many bad requests to the page of metrics",
            full=600,
            short=60,
            run=metrics_endpoint,
            growth_mb=64,
        ),
    )
}
