"""Transactions, producers and pipelines as users with few rights get them: what they may not describe is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.console.quick_polls import quick_polls
from tests.console.running_console import log_in, running_console
from tests.console.users import OPERATOR, VIEWER, allow, user
from tests.waiting import in_time

import ottla
from ottla.admin import AclOperation, AclResourceType, NewTopic
from ottla.client.aio.admin.client import Admin
from ottla.console.transactions.watch import OpenOnPartitions, find_open
from ottla.model import TopicPartition
from ottla.spark.sink.progress import Marker, marker_group, transactional_id

TOPIC, GROUP, TRANSACTIONAL_ID = (
    AclResourceType.TOPIC,
    AclResourceType.GROUP,
    AclResourceType.TRANSACTIONAL_ID,
)
DESCRIBE, READ = AclOperation.DESCRIBE, AclOperation.READ
SECONDS = 20
# Every route of these views that only looks; what is in braces exists, and its name has `secret` in it.
ROUTES = (
    "/api/transactions",
    "/api/transactions?state=open",
    "/api/transactions?topic=secret",
    "/api/transactions/summary",
    "/api/transactions/ended",
    "/api/transactions/hanging",
    "/api/transaction?id=secret-payments",
    "/api/transaction/history?id=secret-payments",
    "/api/producers",
    "/api/producers?topic=secret",
    "/api/producers/batches?topic=secret&partition=0",
    "/api/pipelines",
    "/api/pipeline?name=secret-revenue",
    "/api/pipeline/history?name=secret-revenue",
)


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    """Two topics; a transaction open on both for two ids; ids that ended; two pipelines."""
    with quick_polls(), ottla.Broker(security="scram") as found:
        options = found.client_options()
        with ottla.Admin(options) as admin:
            admin.create_topics([NewTopic("open", num_partitions=1), NewTopic("secret")])
        opened = []
        for name in ("payments", "secret-payments"):
            producer = ottla.Producer({**options, "transactional.id": name})
            producer.init_transactions()
            write(producer)
            producer.commit_transaction()
            write(producer)
            opened.append(producer)
        for name in ("revenue", "secret-revenue"):
            commit_micro_batch(options, name)
        yield found
        for producer in opened:
            producer.abort_transaction()
            producer.close()


def write(producer: Any) -> None:
    """Begin a transaction with a record in each topic."""
    producer.begin_transaction()
    for topic in ("open", "secret"):
        producer.send(topic, b"1").result(SECONDS)


def commit_micro_batch(options: dict[str, Any], name: str) -> None:
    """As the sink of a pipeline does, which reads and writes both topics."""
    writer = transactional_id(name)
    places = [TopicPartition(topic, 0) for topic in ("open", "secret")]
    with ottla.Producer({**options, "transactional.id": writer}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        at = ottla.OffsetAndMetadata(1)
        producer.send_offsets_to_transaction(dict.fromkeys(places, at), name)
        marker = Marker("0b9b1a3c-0000-4000-8000-000000000001", 0, "digest", writer).to_offset()
        producer.send_offsets_to_transaction(dict.fromkeys(places, marker), marker_group(name))
        producer.commit_transaction()


@asynccontextmanager
async def logged_in(broker: ottla.Broker, form: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of a user, at a console that knows everything."""
    options = broker.client_options()
    async with (
        running_console(options, login_options=options) as console,
        console.browser() as browser,
    ):
        found = console.console
        deadline = asyncio.get_running_loop().time() + SECONDS
        while (
            (snapshot := found.poller.snapshot) is None
            or len(snapshot.transactions) < 2
            or len(found.open_transactions.latest.by_partition) < 2
            or len(found.journal.ended.newest()) < 4
        ):
            in_time(deadline, "the console knows both transactions, and those that ended")
            found.poller.poll_soon()
            await asyncio.sleep(0.05)
        await log_in(browser, **form)
        yield browser


def test_who_may_describe_nothing_is_told_of_nothing(broker: ottla.Broker) -> None:
    form = user(broker, "nobody", *VIEWER)

    async def ask() -> None:
        async with logged_in(broker, form) as browser:
            for path in ROUTES:
                answer = await browser.get(path)
                assert answer.status_code in (200, 403, 404), (path, answer.text)
                if answer.status_code == 200:
                    found = answer.json()
                    for name in ("rows", "partitions", "producers", "micro_batches"):
                        assert not found.get(name), (path, found)
                    for name in (
                        "total",
                        "committed_count",
                        "standing_count",
                        "open_count",
                        "held_count",
                    ):
                        assert not found.get(name), (path, found)
                    assert "payments" not in answer.text

    asyncio.run(ask())


def test_who_may_describe_some_is_told_of_these(broker: ottla.Broker) -> None:
    form = user(broker, "some", *VIEWER)
    allow(broker, "some", TOPIC, "open", DESCRIBE, READ)
    for name in ("payments", transactional_id("revenue")):
        allow(broker, "some", TRANSACTIONAL_ID, name, DESCRIBE)
    for name in ("revenue", marker_group("revenue")):
        allow(broker, "some", GROUP, name, DESCRIBE)

    async def ask() -> None:
        async with logged_in(broker, form) as browser:
            for path in ROUTES:
                answer = await browser.get(path)
                if answer.status_code == 200:
                    assert "secret" not in answer.text, path
                else:
                    # An error repeats what was asked for.
                    assert answer.status_code in (403, 404), (path, answer.text)
            page = (await browser.get("/api/transactions?state=open")).json()
            (row,) = page["rows"]
            assert (row["transactional_id"], row["topics"]) == ("payments", ["open"])
            assert (row["partition_count"], page["counts"]["Ongoing"]) == (1, 1)
            ended = (await browser.get("/api/transactions/ended")).json()
            assert {each["transactional_id"] for each in ended["rows"]} == {
                "payments",
                transactional_id("revenue"),
            }
            (payment,) = (await browser.get("/api/transactions/ended?q=payments")).json()["rows"]
            assert (payment["topics"], payment["partition_count"]) == (["open"], 1)
            assert sum(ended["rates"]["committed"]) == ended["committed_count"] <= 2
            detail = (await browser.get("/api/transaction?id=payments")).json()
            (place,) = detail["partitions"]
            assert place["topic"] == "open"
            # Of the two that are open there, the user may know the name of one.
            names = [each["transactional_id"] for each in place["open_there"]]
            assert names == ["payments", None]
            assert not any(each["is_hanging"] for each in place["open_there"])
            (pipeline,) = (await browser.get("/api/pipelines")).json()["rows"]
            assert (pipeline["name"], pipeline["source_topics"]) == ("revenue", ["open"])
            assert pipeline["target_topics"] == ["open"]

    asyncio.run(ask())


def test_a_transaction_whose_id_may_not_be_described_does_not_seem_to_hang(
    broker: ottla.Broker,
) -> None:
    """To such a user no coordinator tells the id; the abort of a half would lose the whole's atomicity."""
    form = user(broker, "operator", *OPERATOR)
    allow(broker, "operator", TOPIC, "open", DESCRIBE, READ)

    async def ask() -> None:
        async with logged_in(broker, form) as browser:
            (place,) = (await browser.get("/api/producers?topic=open&state=open")).json()[
                "partitions"
            ]
            for each in place["producers"]:
                body = {
                    "topic": "open",
                    "partition": 0,
                    "start_offset": each["open_start_offset"],
                    "preview": False,
                    "producer_id": each["producer_id"],
                    "producer_epoch": each["producer_epoch"],
                }
                answer = await browser.post("/api/transactions/hanging/abort", json=body)
                assert answer.status_code == 400, answer.text
                assert "a coordinator will end it" in answer.text
                assert "payments" not in answer.text

    asyncio.run(ask())


def test_a_console_that_may_not_see_all_ids_calls_no_transaction_hanging(
    broker: ottla.Broker,
) -> None:
    user(broker, "dim", *VIEWER)
    allow(broker, "dim", TOPIC, "open", DESCRIBE, READ)
    allow(broker, "dim", TOPIC, "__transaction_state", DESCRIBE)

    async def find() -> OpenOnPartitions:
        async with Admin(broker.client_options("dim")) as admin:
            return await find_open(admin, [TopicPartition("open", 0)])

    found = asyncio.run(find())
    assert len(found.by_partition[TopicPartition("open", 0)]) == 2
    assert found.hanging == ()
    assert "may not describe all transactional ids" in found.problems[0]
