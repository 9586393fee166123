"""Transactions, producers and pipelines in the page: what is held up shows, and is aborted from there."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.console.browser.looks import (
    NARROW,
    assert_accessible,
    assert_no_sideways_scroll,
    screenshot,
    use_theme,
)
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving
from tests.console.transactions.conftest import SECONDS, Cluster, cluster, kafka_jars, write
from tests.console.transactions.test_pipelines import pipeline

import ottla

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["cluster", "kafka_jars"]

# The program is killed in the middle of its transaction.
PROGRAM = """
import sys
from confluent_kafka import Producer
servers, name, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 0,
                     "transaction.timeout.ms": 600_000})
producer.init_transactions(20)
producer.begin_transaction()
for value in (b"1", b"2", b"3"):
    producer.produce(topic, value, partition=0)
producer.flush(20)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    """A console that looks often."""
    with quick_polls(), serving(cluster.servers) as console:
        yield console.url.rstrip("/")


def left_open(cluster: Cluster, name: str, topic: str) -> None:
    """A transaction of three records whose producer was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, cluster.servers, name, topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        process.send_signal(signal.SIGKILL)


def commit_behind(cluster: Cluster, topic: str, value: bytes) -> None:
    """A record of a transaction that is committed."""
    with cluster.producer(cluster.name("behind")) as producer:
        producer.begin_transaction()
        write(producer, topic, value)
        producer.commit_transaction(SECONDS)


def waiting_group(cluster: Cluster, topic: str) -> str:
    """A group that has read up to the first record."""
    group = cluster.name("waiting")
    with ottla.Admin(bootstrap_servers=cluster.servers) as admin:
        admin.alter_consumer_group_offsets(group, {(topic, 0): 0})
    return group


def row(page: Page, name: str) -> Locator:
    """The row of a table by its first cell."""
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))


def look_at_it(page: Page, name: str, folder: Path) -> None:
    """Everybody can use it: in the dark, and on a telephone in the light."""
    wide = page.viewport_size
    assert wide is not None
    use_theme(page, "dark")
    assert_accessible(page)
    screenshot(page, f"{name}-dark", folder)
    use_theme(page, "light")
    page.set_viewport_size(NARROW)
    assert_no_sideways_scroll(page)
    assert_accessible(page)
    screenshot(page, f"{name}-narrow", folder)
    page.set_viewport_size(wide)


def test_the_transaction_of_a_killed_producer_is_aborted_from_the_page(
    cluster: Cluster, url: str, page: Page, tmp_path: Path
) -> None:
    topic, name = cluster.topic("killed"), cluster.name("killed")
    left_open(cluster, name, topic)
    commit_behind(cluster, topic, b"behind it")
    group = waiting_group(cluster, topic)
    page.goto(f"{url}/transactions")
    mine = row(page, name)
    mine.get_by_text("of 10 min").wait_for()
    # Three records, the one behind them, and the marker of that.
    mine.get_by_text("5 offsets").wait_for()
    mine.get_by_role("link", name=group).wait_for()
    look_at_it(page, "transactions", tmp_path)

    mine.get_by_role("link", name=name).click()
    page.get_by_role("heading", level=1, name=name).wait_for()
    page.get_by_role("img", name=re.compile("5 offsets are held back by 1 open")).wait_for()
    page.get_by_role("region", name="Changes of the state").get_by_text("open").first.wait_for()
    look_at_it(page, "transaction", tmp_path)

    abort = page.get_by_role("button", name="Abort the transaction")
    abort.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text(f"The console sends InitProducerId for {name}").wait_for()
    dialog.get_by_text("never see the 3 records that the transaction wrote").wait_for()
    dialog.get_by_role("link", name=group).wait_for()
    assert_accessible(page)
    screenshot(page, "abort", tmp_path)
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert abort.evaluate("button => button === document.activeElement"), "the focus is given back"
    assert cluster.describe(name).state == "Ongoing", "nothing was done"

    abort.click()
    dialog.get_by_text("InitProducerId").wait_for()
    dialog.get_by_role("button", name="Abort the transaction").click()
    page.get_by_role("status").get_by_text(f"The transaction of {name} is aborted").wait_for()
    # The next instance of the producer has been initialised, by the console.
    page.locator(".view-name").get_by_text("empty").wait_for()
    page.get_by_role("region", name="Changes of the state").get_by_text("aborted").wait_for()
    assert cluster.committed_values(topic, 1, group) == [b"behind it"]


def test_a_transaction_that_hangs_is_explained_and_ended_on_its_partition(
    cluster: Cluster, url: str, page: Page, tmp_path: Path
) -> None:
    topic = cluster.topic("hanging")
    producer_id = cluster.hang(topic)
    commit_behind(cluster, topic, b"behind it")
    page.goto(f"{url}/transactions")
    region = page.get_by_role("region", name=re.compile("hangs?$"))
    region.get_by_text(f"producer {producer_id} hangs").wait_for()
    region.get_by_text("No transactional id has this producer id").wait_for()
    look_at_it(page, "hanging", tmp_path)
    region.get_by_role("button", name=f"Abort on {topic}-0").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("The console sends WriteTxnMarkers to the leader").wait_for()
    dialog.get_by_text("never see the 1 record that it wrote").wait_for()
    dialog.get_by_role("button", name="Abort the transaction").click()
    page.get_by_text(f"The transaction on {topic}-0 is aborted").wait_for()
    region.get_by_text(f"producer {producer_id} hangs").wait_for(state="detached")
    assert cluster.committed_values(topic, 1) == [b"behind it"]


def test_a_row_that_is_read_stays_until_the_pointer_leaves(
    cluster: Cluster, url: str, page: Page
) -> None:
    topic, name = cluster.topic("steady"), cluster.name("steady")
    with cluster.producer(name) as producer:
        producer.begin_transaction()
        write(producer, topic, b"x")
        page.goto(f"{url}/transactions?q={name}")
        row(page, name).wait_for()
        row(page, name).hover()
        producer.commit_transaction(SECONDS)
        page.locator("tr.row-gone").filter(has_text=name).wait_for()
        page.get_by_role("heading", level=1).hover()
        row(page, name).wait_for(state="detached")
    page.get_by_role("link", name="Ended").click()
    page.get_by_role("region", name="Transactions that have ended").get_by_text(
        "committed"
    ).first.wait_for()
    assert_accessible(page)


def test_a_producer_is_found_and_its_last_batches_are_read(
    cluster: Cluster, url: str, page: Page, tmp_path: Path
) -> None:
    topic, name = cluster.topic("producers", 2), cluster.name("found")
    with cluster.producer(name) as producer:
        producer.begin_transaction()
        write(producer, topic, b"1", b"2", partition=1)
        producer.commit_transaction(SECONDS)
        producer.begin_transaction()
        write(producer, topic, b"3", partition=1)
        page.goto(f"{url}/producers")
        page.get_by_role("searchbox", name="Find a producer id").fill(name)
        page.get_by_role("link", name=f"{topic}-1").wait_for()
        page.wait_for_url(f"**/producers?producer={name}")
        page.get_by_role("link", name=name, exact=True).first.wait_for()
        page.get_by_role("link", name=f"{topic}-1").click()
        page.get_by_role("heading", level=1, name=f"Producers of {topic}-1").wait_for()
        assert f"/producers?topic={topic}&partition=1" in page.url
        page.get_by_text("not while it is open").wait_for()
        batches = page.get_by_role("region", name="Last batches, the newest first")
        batches.get_by_text("commit marker").wait_for()
        assert batches.get_by_role("row").nth(1).get_by_text("open").is_visible()
        look_at_it(page, "producers", tmp_path)


def test_a_micro_batch_of_a_pipeline_shows_as_it_is_committed(
    cluster: Cluster, url: str, page: Page, tmp_path: Path
) -> None:
    with pipeline(cluster, "shown") as sink:
        for batch, position in enumerate((2, 5)):
            sink.commit(batch, position)
        page.goto(f"{url}/pipelines")
        row(page, sink.name).get_by_text("running").wait_for()
        look_at_it(page, "pipelines", tmp_path)
        row(page, sink.name).get_by_role("link", name=sink.name).click()
        page.get_by_text("# 1").wait_for()
        sink.commit(2, 9)
        page.get_by_text("# 2").wait_for()
        one_by_one = page.get_by_role("region", name="Micro-batches, the newest first")
        row_of_it = one_by_one.get_by_role("row").filter(
            has=page.get_by_role("rowheader", name="2", exact=True)
        )
        row_of_it.get_by_text("4", exact=True).wait_for()
        sources = page.get_by_role("region", name="Partitions that it reads")
        sources.get_by_role("link", name=sink.source.topic).wait_for()
        look_at_it(page, "pipeline", tmp_path)
        sink.begin()
        page.locator(".view-name").get_by_text("writing").wait_for()


def test_a_read_only_console_offers_no_abort(cluster: Cluster, page: Page) -> None:
    topic, name = cluster.topic("safe"), cluster.name("safe")
    with (
        quick_polls(),
        serving(cluster.servers, is_read_only=True) as console,
        cluster.producer(name) as producer,
    ):
        producer.begin_transaction()
        write(producer, topic, b"x")
        page.goto(f"{console.url.rstrip('/')}/transactions")
        row(page, name).wait_for()
        assert page.get_by_role("button", name="Abort").count() == 0
        page.goto("about:blank")
