"""Dead letters from the page: a real app gives a record up, and handles it after it was replayed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.console.browser.looks import (
    NARROW,
    assert_accessible,
    assert_no_sideways_scroll,
    screenshot,
    use_theme,
)
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving

import ottla
from ottla.admin import NewTopic
from ottla.app import App, Retry
from ottla.app.letters import dead_letter_topic

if TYPE_CHECKING:
    from playwright.sync_api import Page

SOURCE, GROUP = "orders", "billing"
LETTERS = dead_letter_topic(SOURCE, GROUP)
SECONDS = 30
HOSTILE = b'{"order": "<img src=x onerror=alert(1)>", "total": 1.10}'


class CardRefusedError(Exception):
    """The bank refuses the card."""


class Bill:
    """An app that handles nothing until the bank works."""

    def __init__(self, servers: str) -> None:
        self.bank_works = threading.Event()
        self.billed: list[bytes] = []
        self.done = threading.Event()
        self.app = App(GROUP, bootstrap_servers=servers, auto_offset_reset="earliest")

        @self.app.listener(SOURCE, group=GROUP, retry=Retry("50ms"), dead_letters=True)
        async def bill(value: bytes) -> None:
            if not self.bank_works.is_set():
                raise CardRefusedError("the card of <b>Ada</b> was refused")
            self.billed.append(value)
            self.done.set()


@contextmanager
def billing(servers: str) -> Iterator[Bill]:
    logging.getLogger("ottla.app").setLevel(logging.CRITICAL)
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(SOURCE, num_partitions=1)])
    found = Bill(servers)
    with found.app.blocking:
        yield found


def test_a_letter_is_replayed_from_the_page_and_its_app_handles_it(
    page: Page, broker: ottla.Broker, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    with quick_polls(), serving(servers) as console, billing(servers) as bill:
        with ottla.Producer(bootstrap_servers=servers) as producer:
            for number in range(3):
                producer.send(SOURCE, HOSTILE, key=b"o-%d" % number)
        page.goto(console.url.rstrip("/") + "/apps")
        app = page.get_by_role("row").filter(has_text=GROUP)
        app.get_by_text("3 open").wait_for()
        app.get_by_text("listener bill").wait_for()
        assert_accessible(page)
        screenshot(page, "apps", tmp_path)
        app.get_by_role("link", name="dead letters").click()

        page.get_by_role("heading", level=1, name=LETTERS).wait_for()
        rows = page.get_by_role("table", name="Letters, the newest first").locator("tbody tr")
        rows.nth(2).wait_for()
        assert_accessible(page)
        screenshot(page, "letters", tmp_path)
        rows.filter(has_text="o-1").get_by_role("link").first.click()
        page.get_by_role("heading", level=2, name="CardRefusedError").wait_for()
        page.get_by_text("the card of <b>Ada</b> was refused", exact=True).wait_for()
        page.get_by_role("group", name="Stack trace").get_by_text("CardRefusedError").wait_for()
        page.get_by_role("group", name="value").get_by_text("<img src=x onerror").wait_for()
        use_theme(page, "dark")
        page.set_viewport_size(NARROW)
        assert_no_sideways_scroll(page)
        assert_accessible(page)
        screenshot(page, "letter-narrow-dark", tmp_path)

        bill.bank_works.set()
        page.get_by_role("button", name="Replay").click()
        dialog = page.get_by_role("dialog", name="Replay this letter")
        dialog.get_by_role("row").filter(has_text=SOURCE).wait_for()
        assert_accessible(page)
        dialog.get_by_role("button", name="Replay 1 letter").click()
        dialog.wait_for(state="detached")
        page.get_by_text("done", exact=True).first.wait_for()
        assert bill.done.wait(SECONDS)
        assert bill.billed == [HOSTILE]

        # The rest is selected in the list; what was replayed is not there any more.
        page.go_back()
        page.set_viewport_size({"width": 1280, "height": 900})
        page.get_by_role("checkbox", name="Select all open letters of this page").check()
        page.get_by_text("2 letters selected").wait_for()
        page.get_by_role("button", name="Drop selected").click()
        page.get_by_role("button", name="Drop 2 letters").click()
        page.get_by_text("No open letters").wait_for()
        page.get_by_role("combobox", name="Which letters").select_option("done")
        # What is done at the start of the partition was deleted.
        page.get_by_text("No letter fits").wait_for()
        page.reload()
        page.get_by_text("No letter fits").wait_for()
        assert page.get_by_role("combobox", name="Which letters").input_value() == "done"
        # The console must not end before the page that listens to it.
        page.goto("about:blank")


def test_the_page_says_that_no_app_has_letters(page: Page, console_url: str) -> None:
    page.goto(console_url.rstrip("/") + "/apps")
    page.get_by_text("No app has retry or dead-letter topics").wait_for()
    page.goto(console_url.rstrip("/") + "/schemas")
    page.get_by_text("This console has no schema registry").wait_for()
