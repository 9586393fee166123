"""Metrics for Prometheus: what is measured, and how well the listener takes bad company."""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.broker import group_requests
from tests.broker.conftest import Starter
from tests.broker.consumer_group_requests import ConsumerMember, settle
from tests.broker.exposition_reader import Family, read, value
from tests.broker.requests import create, eventually, session_with
from tests.storage.batches import SteppingClock

import ottla
from ottla.broker.clock import SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.internals.event_ring import EventRing
from ottla.broker.internals.internals_page import InternalsPage
from ottla.broker.loop.loop_monitor import LoopMonitor
from ottla.broker.metrics import broker_metrics as metrics
from ottla.broker.metrics import listener as metrics_listener
from ottla.broker.metrics import pages, topic_extents
from ottla.broker.metrics.request_counts import ApiCounts, _observing
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.requests.response_errors import error_counter_of
from ottla.broker.security.caller import Caller
from ottla.config.broker import BrokerConfig
from ottla.core.catalog import NewTopic
from ottla.doors.door import Door
from ottla.exposition import Metric, Page
from ottla.histogram import Histogram
from ottla.model import Endpoint
from ottla.storage.memory import MemoryStore
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "serving.md"


@pytest.fixture(scope="module")
def measured() -> Iterator[ottla.Broker]:
    with ottla.Broker(nodes=2, metrics="127.0.0.1:0") as broker:
        yield broker


@pytest.fixture(autouse=True)
def fresh_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scrape gets a page of its own."""
    monkeypatch.setattr(pages, "PAGE_SECONDS", 0)


def scrape(broker: ottla.Broker) -> dict[str, Family]:
    with urllib.request.urlopen(broker.metrics_url, timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return read(answer.read().decode())


def total(families: dict[str, Family], name: str, **labels: str) -> float:
    return sum(
        number
        for (sample, given), number in families[name].samples.items()
        if sample == name and labels.items() <= dict(given).items()
    )


# -- what is measured


def test_what_clients_do_is_counted(measured: ottla.Broker) -> None:
    servers = measured.bootstrap_servers
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([ottla.admin.NewTopic("counted", num_partitions=4)])
    with ottla.Producer(bootstrap_servers=servers, transactional_id="till") as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(8):
                producer.send("counted", value=b"x" * 100, partition=number % 4)
    with ottla.Consumer(
        bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["counted"])
        consumer.poll(5.0)
        assert consumer.assignment()
        found = scrape(measured)
        assert total(found, "ottla_groups", protocol="classic", state="Stable") == 1
        assert total(found, "ottla_group_rebalances_total", protocol="classic") == 1
        assert total(found, "ottla_groups", protocol="consumer") == 0
        assert total(found, "ottla_connections") >= 1
    assert total(found, "ottla_requests_total", api="Produce") >= 2
    assert total(found, "ottla_request_errors_total", error="MEMBER_ID_REQUIRED") == 1
    assert total(found, "ottla_transactional_ids", state="CompleteCommit") == 1
    assert value(found, "ottla_topic_partitions", topic="counted") == 4
    # Eight records, and a marker in each partition.
    assert value(found, "ottla_topic_end_offsets", topic="counted") == 12
    assert value(found, "ottla_topic_start_offsets", topic="counted") == 0
    assert value(found, "ottla_topic_size_bytes", topic="counted") > 800
    assert value(found, "ottla_topics") == 3
    assert total(found, "ottla_partitions") == 104
    assert total(found, "ottla_received_bytes_total") > 800
    assert total(found, "ottla_sent_bytes_total") > 800
    assert value(found, "process_resident_memory_bytes") > 1 << 20
    assert value(found, "ottla_build_info", version=ottla.__version__) == 1


def test_groups_of_the_consumer_protocol_are_counted(start: Starter) -> None:
    broker = start(metrics="127.0.0.1:0")
    with session_with(broker) as connection:
        group_requests.await_coordinator(connection)
        create(connection, "t", 2)
        members = [ConsumerMember(connection, "g", "t") for _ in range(2)]
        for member in members:
            member.join()
        found = scrape(broker)
        assert total(found, "ottla_groups", protocol="consumer", state="Reconciling") == 1
        assert total(found, "ottla_group_rebalances_total", protocol="consumer") == 2
        settle(*members)
        found = scrape(broker)
        assert total(found, "ottla_groups", protocol="consumer", state="Stable") == 1
        assert total(found, "ottla_groups", protocol="consumer") == 1


def test_every_node_has_its_label(measured: ottla.Broker) -> None:
    found = scrape(measured)
    for name in ("ottla_partitions", "ottla_connections", "ottla_received_bytes_total"):
        nodes = {dict(labels)["node"] for _, labels in found[name].samples}
        assert nodes == {"1", "2"}


def test_a_fetch_that_waits_is_in_flight(measured: ottla.Broker) -> None:
    with ottla.Admin(bootstrap_servers=measured.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic("silent")])
    with ottla.Consumer(
        bootstrap_servers=measured.bootstrap_servers, fetch_max_wait_ms=20_000
    ) as consumer:
        consumer.assign([("silent", 0)])
        consumer.seek_to_beginning()

        def is_waiting() -> bool:
            consumer.poll(0.1)
            return total(scrape(measured), "ottla_requests_in_flight", api="Fetch") == 1

        assert eventually(is_waiting)
    assert eventually(
        lambda: total(scrape(measured), "ottla_requests_in_flight", api="Fetch") == 0
    ), "whoever went away is not waited for"


def test_sizes_and_offsets_are_known_before_a_partition_is_used(start: Starter) -> None:
    broker = start(metrics="127.0.0.1:0")
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_many("kept", [b"x" * 100] * 50).result(10)
    before = scrape(broker)
    broker.stop()
    after = scrape(start(metrics="127.0.0.1:0"))
    for name in ("ottla_topic_end_offsets", "ottla_topic_size_bytes", "ottla_topic_start_offsets"):
        assert value(after, name, topic="kept") == value(before, name, topic="kept")
    assert value(after, "ottla_topic_end_offsets", topic="kept") == 50


def test_syncs_are_counted(start: Starter) -> None:
    broker = start(metrics="127.0.0.1:0", log_flush_interval_messages=1)
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("safe", value=b"x").result(10)
    samples = scrape(broker)["ottla_log_sync_duration_seconds"].samples
    assert samples["ottla_log_sync_duration_seconds_count", ()] >= 1
    assert samples["ottla_log_sync_duration_seconds_sum", ()] > 0


def test_the_number_of_topics_with_series_is_limited(
    measured: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ottla.Admin(bootstrap_servers=measured.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic("limited-1"), ottla.admin.NewTopic("limited-2")])
    monkeypatch.setattr(metrics, "MAX_TOPICS", 1)
    samples = scrape(measured)["ottla_topic_partitions"].samples
    names = [dict(labels)["topic"] for _, labels in samples]
    assert len(names) == 2
    assert names[1] == "(others)"


def test_requests_have_their_turn_while_a_wide_topic_is_looked_at() -> None:
    partitions = 10 * topic_extents.SLICE + 1

    async def collect() -> None:
        clock = SteppingClock()
        cluster = Cluster(MemoryStore(clock=clock), clock, SystemIds())
        node = Node(cluster, BrokerConfig())
        cluster.join(node)
        node.topics.create([NewTopic("wide", partitions, 1, {}, {})])
        turns = 0
        page = asyncio.ensure_future(metrics.page_of(cluster, {}, LoopMonitor(lambda: 0), {}))
        while not page.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= partitions / topic_extents.SLICE
        families = read(page.result().render().decode())
        assert total(families, "ottla_topic_partitions", topic="wide") == partitions

    asyncio.run(collect())


def test_the_page_lists_every_metric() -> None:
    listed = re.findall(r"^\| `((?:ottla|process)_\w+)`", PAGE.read_text(encoding="utf-8"), re.M)
    assert listed == [metric.name for metric in metrics.ALL]


# -- errors in responses


@pytest.mark.parametrize(
    ("response", "errors"),
    [
        (HeartbeatResponse(error_code=0), {}),
        (HeartbeatResponse(error_code=27), {27: 1}),
        (
            ProduceResponse(
                responses=[
                    TopicProduceResponse(
                        name="t",
                        partition_responses=[
                            PartitionProduceResponse(index=n, error_code=code, base_offset=0)
                            for n, code in enumerate((3, 0, 3))
                        ],
                    )
                ]
            ),
            {3: 2},
        ),
        (
            FetchResponse(
                error_code=70,
                responses=[
                    FetchableTopicResponse(
                        topic="t",
                        partitions=[
                            PartitionData(
                                partition_index=0,
                                error_code=6,
                                high_watermark=0,
                                aborted_transactions=None,
                                records=b"",
                            )
                        ],
                    )
                ],
            ),
            {70: 1, 6: 1},
        ),
        (AddPartitionsToTxnResponse(error_code=47), {47: 1}),
    ],
)
def test_errors_are_found_wherever_they_are(response: Any, errors: dict[int, int]) -> None:
    found: dict[int, int] = {}
    error_counter_of(type(response))(response, found)
    assert found == errors


def test_a_handler_that_fails_is_counted_and_fails() -> None:
    def fail(node: Any, request: Any, context: RequestContext) -> Any:
        raise ValueError("a bug of ours")

    counts = ApiCounts("Heartbeat")
    api = serve(HeartbeatRequest, HeartbeatResponse, fail)
    context = RequestContext(4, None, Caller(Endpoint("h", 1), Endpoint("h", 2)))
    node: Any = None
    with pytest.raises(ValueError, match="a bug of ours"):
        _observing(api, api.handle, counts)(node, None, context)
    assert (counts.received, counts.waiting, counts.errors) == (1, 0, {})


# -- the format


def test_whatever_a_label_holds_can_be_read() -> None:
    page = Page()
    odd = 'a "quoted" \\ name\nover two lines, {ü}'
    page.add(Metric("odd", "gauge", "A text\nwith \\ in it."), 1.5, kind=odd, other="")
    page.add(Metric("odd", "gauge", "A text\nwith \\ in it."), -3, kind="plain")
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(seconds)
    page.add(Metric("long_seconds", "histogram", "Long."), histogram, api="x")
    found = read(page.render().decode())
    assert value(found, "odd", kind=odd) == 1.5
    assert value(found, "odd", kind="plain") == -3
    counts = [number for (name, _), number in found["long_seconds"].samples.items()]
    assert counts == [2, 3, 4, pytest.approx(7.65), 4]


@pytest.mark.parametrize(
    "text",
    [
        "# HELP a b\n# TYPE a gauge\na 1",
        "# HELP a b\n# TYPE a gauge\na one\n",
        "# HELP a b\n# TYPE a counter\na 1\n",
        "# HELP a b\n# TYPE a gauge\na 1\na 1\n",
        '# HELP a b\n# TYPE a gauge\na{x="1} 1\n',
        "# HELP a b\n# TYPE a gauge\nb 1\n",
        "# TYPE a gauge\na 1\n",
    ],
)
def test_the_reader_of_these_tests_is_strict(text: str) -> None:
    with pytest.raises((AssertionError, ValueError, KeyError)):
        read(text)


# -- the listener


def address_of(broker: ottla.Broker) -> tuple[str, int]:
    found = re.fullmatch(r"http://(.*):(\d+)/metrics", broker.metrics_url)
    assert found is not None
    return found[1], int(found[2])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/metrics", 200),
        ("GET", "/metrics?name=x", 200),
        ("HEAD", "/metrics", 200),
        ("GET", "/healthz", 200),
        ("GET", "/", 404),
        ("GET", "/internals", 200),
        ("GET", "/internals/events?after=3&limit=10", 200),
        ("GET", "/internals/events?after=-3", 400),
        ("GET", "/internals/events?nothing=3", 400),
        ("GET", "/metrics/x", 404),
        ("POST", "/metrics", 405),
        ("DELETE", "/healthz", 405),
    ],
)
def test_there_is_nothing_but_these_pages(
    measured: ottla.Broker, method: str, path: str, status: int
) -> None:
    connection = http.client.HTTPConnection(*address_of(measured), timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        assert answer.status == status
        body = answer.read()
        assert (len(body) == 0) == (method == "HEAD")
        if path == "/healthz" and status == 200:
            assert body == b"ok\n"
    finally:
        connection.close()


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 100 + b"\r\n\r\n",
        b"GET /metrics\r\n\r\n",
        b"GET  /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/9\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
    ],
)
def test_garbage_costs_only_its_connection(measured: ottla.Broker, data: bytes) -> None:
    with socket.create_connection(address_of(measured), timeout=10) as sent:
        try:
            sent.sendall(data)
            answer = sent.recv(100)
        except ConnectionError:
            answer = b""  # refused in the middle of it
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert scrape(measured)


def test_who_says_nothing_or_never_ends_is_cut_off(
    measured: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_listener, "HEAD_SECONDS", 0.2)
    for data in (b"", b"GET /metrics HTTP/1.1\r\nHost: "):
        with socket.create_connection(address_of(measured), timeout=10) as sent:
            sent.sendall(data)
            began = time.monotonic()
            assert sent.recv(100) == b""
            assert time.monotonic() - began < 5


def test_who_says_nothing_makes_room_for_a_health_check(
    measured: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_listener, "MAX_CONNECTIONS", 2)
    held = [socket.create_connection(address_of(measured), timeout=10) for _ in range(2)]
    try:
        assert ask_health(measured).endswith(b"ok\n")
        assert held[0].recv(1) == b""
    finally:
        for each in held:
            each.close()


def test_connections_have_a_limit_and_places_become_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_listener, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(pages, "PAGE_SECONDS", 60)
    asyncio.run(_fill_and_free())


async def _fill_and_free() -> None:
    may_answer, asked = asyncio.Event(), 0

    async def collect() -> Page:
        nonlocal asked
        asked += 1
        await may_answer.wait()
        return Page()

    async def collect_nothing() -> dict[str, object]:
        return {}

    served = pages.BrokerPages(
        pages.MetricsPage(collect), InternalsPage(collect_nothing, EventRing())
    )
    door = Door("metrics", Endpoint("127.0.0.1", 0))
    listener = metrics_listener.MetricsListener(door, served.find)
    await listener.start()
    served.serving()

    async def ask(path: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*listener.endpoint)
        try:
            writer.write(b"GET %b HTTP/1.1\r\n\r\n" % path)
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    try:
        first = asyncio.create_task(ask(b"/metrics"))
        second = asyncio.create_task(ask(b"/metrics"))
        while listener.conversations.silent or len(listener.conversations.tasks) < 2:
            await asyncio.sleep(0.001)
        assert await ask(b"/healthz") == b""
        may_answer.set()
        assert b"200 OK" in await first
        assert b"200 OK" in await second
        assert asked == 1  # one page was good for both
        assert (await ask(b"/healthz")).endswith(b"ok\n")
    finally:
        await listener.stop()


def test_a_large_page_is_made_in_pieces() -> None:
    page = Page()
    for number in range(1000):
        page.add(Metric("a", "gauge", "Text."), number, topic=f"t{number}")
    pieces = list(page.pieces())
    assert b"".join(pieces) == page.render()
    assert max(piece.count(b"\n") for piece in pieces) == 200


def ask_health(broker: ottla.Broker) -> bytes:
    with socket.create_connection(address_of(broker), timeout=10) as sent:
        try:
            sent.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            return sent.recv(1000)
        except ConnectionError:
            return b""


def test_a_port_in_use_is_told(measured: ottla.Broker) -> None:
    host, port = address_of(measured)
    with pytest.raises(ottla.OttlaError, match="for metrics: Address already in use"):
        ottla.Broker(metrics=f"{host}:{port}").start()


def test_without_metrics_nothing_listens_and_nothing_is_counted() -> None:
    with ottla.Broker() as broker, pytest.raises(ottla.IllegalStateError, match="metrics="):
        _ = broker.metrics_url
