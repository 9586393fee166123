"""The view of records in a browser: what its list shows, and what strangers' consumers read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from tests.waiting import in_time

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

SECONDS: Final = 30
# The texts of the rows that are drawn, from top to bottom: of a list any of whose rows may be out of sight.
_ROWS: Final = """() => [...document.querySelectorAll('main .virtual tbody tr:not(.virtual-space)')]
  .map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"""


def open_records(page: Page, console_url: str, topic: str, **query: str | list[str]) -> None:
    """Open the list, and wait until the search has ended."""
    text = f"?{urlencode(query, doseq=True)}" if query else ""
    page.goto(f"{console_url.rstrip('/')}/topics/{quote(topic, safe='')}/records{text}")
    if query.get("mode") == "live":
        page.locator(".live-state-on").wait_for()
    else:
        wait_for_search(page)


def wait_for_search(page: Page) -> None:
    """Until the search of the page is over."""
    page.get_by_role("button", name="Search again").wait_for()


def drawn_rows(page: Page) -> list[list[str]]:
    """The cells of the rows that are drawn."""
    found: list[list[str]] = page.evaluate(_ROWS)
    return found


def drawn_values(page: Page) -> list[str]:
    """The values of the rows that are drawn; with a mark before them where the page shows one."""
    return [cells[4] for cells in drawn_rows(page)]


def add_filter(page: Page, text: str) -> None:
    """Add a condition, and wait until the search with it has ended."""
    page.get_by_label("Filter", exact=True).fill(text)
    page.keyboard.press("Enter")
    page.get_by_role("button", name=f"Remove the filter {text}").wait_for()
    page.wait_for_url(lambda url: "filter=" in url)
    wait_for_search(page)


def open_record(page: Page, partition: int, offset: int) -> Locator:
    """Open a record by its row, and wait for what is known of it."""
    page.locator("main .virtual tbody tr").filter(
        has=page.locator(".record-offset", has_text=f"{offset:,}")
    ).first.click()
    detail = page.get_by_role("region", name=f"Partition {partition}, offset {offset:,}")
    detail.locator(".record-times").wait_for()
    return detail


def read_all(servers: str, topic: str, partitions: int, **options: Any) -> list[Message]:
    """All that a consumer of librdkafka reads of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "stranger",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in options.items()},
        }
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
    found: list[Message] = []
    at_end: set[int | None] = set()
    deadline = time.monotonic() + SECONDS
    while len(at_end) < partitions:
        in_time(deadline, f"{topic} was read to its end")
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            at_end.add(message.partition())
        else:
            raise AssertionError(error)
    consumer.close()
    return found
