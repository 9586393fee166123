"""The broker's view: its log live, its other parts, a config changed, and a cluster that tells nothing."""

from __future__ import annotations

import logging
import re
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
from tests.console.browser.page_faults import PageFaults
from tests.console.serving import serving
from tests.lasting import LASTING

import ottla

if TYPE_CHECKING:
    from playwright.sync_api import Page

TABS = ["Requests", "Loop", "Storage", "Cleaning", "Metrics", "Versions"]
HOSTILE = "<img src=x onerror=alert(1)>\u202e gnp.exe"
logger = logging.getLogger("ottla.broker.of_this_test")


@pytest.fixture
def watched_url() -> Iterator[str]:
    """The console of a broker that tells its internals."""
    with (
        ottla.Broker(LASTING, metrics="127.0.0.1:0") as broker,
        serving(
            broker.bootstrap_servers, internals_url=broker.metrics_url.removesuffix("/metrics")
        ) as console,
    ):
        yield console.url


def say(text: str, number: int = 0, *, level: int = logging.WARNING) -> None:
    logger.log(level, "%(what)s", {"what": text, "number": number}, extra={"event": "work_done"})


def test_the_log_live_and_all_parts_of_a_broker(
    page: Page, watched_url: str, tmp_path: Path
) -> None:
    say("the first thing")
    page.goto(f"{watched_url}/broker?tab=log")
    events = page.get_by_role("region", name="Events")
    events.get_by_text("the first thing").wait_for()
    say(HOSTILE, level=logging.ERROR)
    events.get_by_text(HOSTILE).wait_for()

    # Filters are in the address; what is paused waits.
    page.get_by_label("Level").select_option("error")
    page.wait_for_url(re.compile("level=error"))
    events.get_by_text("the first thing").wait_for(state="detached")
    page.get_by_label("Level").select_option("info")
    page.get_by_role("searchbox", name="Find in the log").fill("thing")
    events.get_by_text(HOSTILE).wait_for(state="detached")
    page.get_by_role("button", name="Pause").click()
    say("the second thing", 2)
    page.get_by_role("button", name=re.compile(r"Go on \(1 new\)")).wait_for()
    assert events.get_by_text("the second thing").count() == 0
    page.get_by_role("button", name="Go on").click()
    events.get_by_text("the second thing").click()
    detail = page.get_by_role("region", name="work_done")
    detail.get_by_text("number").wait_for()
    assert_accessible(page)
    page.reload()  # the event that is open has an address
    page.get_by_role("region", name="work_done").get_by_role("paragraph").wait_for()
    screenshot(page, "broker-log", tmp_path)

    for tab in TABS:
        page.get_by_role("navigation", name="Parts of this view").get_by_role(
            "link", name=tab
        ).click()
        page.locator("table").first.wait_for()
        page.locator(".loading").wait_for(state="detached")
    page.get_by_role("navigation", name="Parts of this view").get_by_role(
        "link", name="Storage"
    ).click()
    page.get_by_role("heading", name="Group commit").wait_for()
    use_theme(page, "dark")
    assert_accessible(page)
    screenshot(page, "broker-storage-dark", tmp_path)
    page.set_viewport_size(NARROW)
    for tab in ("log", "requests", "cleaning", "configs"):
        page.goto(f"{watched_url}/broker?tab={tab}")
        page.locator("table").first.wait_for()
        assert_no_sideways_scroll(page)
    assert_accessible(page)


def test_a_config_of_a_broker_is_changed_after_a_preview(
    page: Page, watched_url: str, faults: PageFaults
) -> None:
    faults.allow(r"400 \(Bad Request\)")  # the value that the cluster refuses
    page.goto(f"{watched_url}/broker?tab=configs&q=log.retention.ms")
    row = page.get_by_role("row", name=re.compile(r"log\.retention\.ms"))
    row.get_by_role("button", name="Edit log.retention.ms").click()
    dialog = page.get_by_role("dialog", name="Change log.retention.ms")
    dialog.get_by_label("New value").fill("soon")
    dialog.get_by_role("button", name="Show what it does").click()
    dialog.get_by_role("alert").get_by_text("must be a whole number").wait_for()
    page.keyboard.press("Escape")
    row.get_by_role("button", name="Edit log.retention.ms").click()
    dialog.get_by_label("New value").fill("1234567")
    dialog.get_by_role("button", name="Show what it does").click()
    dialog.get_by_text("wins over what all brokers have").wait_for()
    assert_accessible(page)
    dialog.get_by_role("button", name="Change it").click()
    row.get_by_text("1234567").wait_for()
    row.get_by_text("broker, dynamic").wait_for()
    row.get_by_role("button", name="log.retention.ms", exact=True).click()
    page.get_by_role("dialog", name="log.retention.ms").get_by_text("Comes from").wait_for()


def test_another_cluster_tells_nothing_and_the_page_says_so(page: Page, console_url: str) -> None:
    page.goto(f"{console_url}/broker")
    page.get_by_text("This cluster tells nothing beyond Kafka's protocol.").wait_for()
    page.get_by_role("cell", name="127.0.0.1:").wait_for()
    page.goto(f"{console_url}/broker?tab=log")
    page.get_by_text("Only Ottla's broker tells this").wait_for()
    assert_accessible(page)
