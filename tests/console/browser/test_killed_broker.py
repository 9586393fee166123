"""A broker that is killed and comes back: the page says since when, keeps what it shows, and goes on by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from tests.apache_kafka.conftest import kafka_jars
from tests.apache_kafka.programs import Kafka
from tests.console.browser.page_faults import PageFaults
from tests.console.browser.page_walks import open_address
from tests.console.browser.records_page import drawn_values, open_records
from tests.console.serving import serving
from tests.faults.processes import BrokerProcess
from tests.waiting import in_time

import ottla
from ottla.admin import NewTopic

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["kafka_jars"]

TOPIC = "orders"
SECONDS = 60
# With the options that every user has; a request that the broker had taken has to wait for its timeout.
TOLD_MS = 45_000


class Killable(Protocol):
    """A broker as a process, whose data stays."""

    address: str

    def kill(self) -> None:
        """Without warning."""

    def start(self) -> object:
        """At the same address."""


@pytest.fixture(params=["ottla", pytest.param("kafka", marks=pytest.mark.campaign)])
def killable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Killable]:
    broker: Killable
    if request.param == "ottla":
        broker = BrokerProcess(tmp_path)
    else:
        broker = Kafka(request.getfixturevalue("kafka_jars"), tmp_path)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def write(servers: str, *values: str) -> None:
    with ottla.Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(TOPIC, value.encode()).result(SECONDS)


@pytest.mark.long
def test_the_page_says_that_the_broker_is_gone_and_goes_on_when_it_is_back(
    page: Page, killable: Killable, faults: PageFaults
) -> None:
    faults.allow(r"50[0-9] \(")
    with ottla.Admin(bootstrap_servers=killable.address) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
    write(killable.address, "before")
    with serving(killable.address) as console:
        tail = page.context.new_page()
        faults.watch(tail)
        open_records(tail, console.url, TOPIC, mode="live")
        open_address(page, console.url, f"/topics/{TOPIC}")
        row = page.get_by_role("region", name="Partitions").locator("tbody tr")
        assert row.count() == 1
        killable.kill()
        banner = page.get_by_text("The cluster has not answered since")
        banner.wait_for(timeout=TOLD_MS)
        tail.get_by_text("The cluster has not answered since").wait_for(timeout=TOLD_MS)
        assert row.count() == 1, "what was known is still shown"
        late = page.context.new_page()
        open_address(late, console.url, "/")
        late.get_by_text(banner.inner_text()).wait_for()  # the same time for who comes later
        late.close()
        killable.start()
        banner.wait_for(state="detached", timeout=TOLD_MS)
        write(killable.address, "after")
        page.locator("main").get_by_text("2", exact=True).first.wait_for(timeout=TOLD_MS)
        # The live tail goes on where it was: nothing is lost, and nobody has to press anything.
        deadline = time.monotonic() + SECONDS
        while drawn_values(tail) != ["after"]:
            in_time(deadline, f"the live tail goes on: {drawn_values(tail)}")
            page.wait_for_timeout(100)
        tail.close()
        page.goto("about:blank")  # the console ends before the page
