"""Records that were made to harm their reader: HTML, megabytes, bytes that are no text, a hundred thousand headers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from tests.console.browser.looks import NARROW, assert_no_sideways_scroll
from tests.console.browser.records_page import drawn_rows, open_record, open_records
from tests.console.records.conftest import RecordCluster, cluster, kafka_jars, write
from tests.console.serving import serving
from tests.waiting import in_time

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["cluster", "kafka_jars"]

SCRIPT: Final = "<img src=x onerror=\"window.harm='done'\"><script>window.harm='done'</script>"
SIZE: Final = 5_000_000
HEADERS: Final = 100_000
VALUES: Final = (
    SCRIPT.encode(),
    (SCRIPT * (SIZE // len(SCRIPT) + 1))[:SIZE].encode(),
    b"\xff\xfe\xc3" + b"\x80<b>" * (SIZE // 4),
    json.dumps({"__proto__": {"a": SCRIPT}, "rows": list(range(SIZE // 8))}).encode(),
    b'{"deep": ' + b"[" * 100_000,
    "\u202egnp.exe\u0000\u0007\u2028\ufeff line\r\nline".encode(),
)
# Whoever opens a longer value sees its beginning first, and then pages of it.
LONG: Final = 1_000_000
HEAP_MIB: Final = 250
SECONDS: Final = 30
_HEAP = "() => performance.memory.usedJSHeapSize / (1 << 20)"


@pytest.fixture(scope="module")
def hostile(cluster: RecordCluster) -> str:
    """A topic with VALUES, each under a key and with a header that are HTML, and a record of HEADERS headers."""
    topic = cluster.topic("hostile", max_message_bytes="10000000")
    producer = cluster.producer(message_max_bytes=10_000_000)
    write(producer, topic, *VALUES, key=SCRIPT, headers=[(SCRIPT, SCRIPT.encode())])
    headers = [(f"h{n}", b"" if n % 2 else SCRIPT.encode()) for n in range(HEADERS)]
    write(producer, topic, "many headers", headers=headers)
    return topic


@pytest.fixture(scope="module")
def console_url(cluster: RecordCluster) -> Iterator[str]:
    with serving(cluster.servers) as console:
        yield console.url


@pytest.mark.long
def test_hostile_records_are_shown_as_text_in_a_page_that_stays_usable(
    page: Page, console_url: str, hostile: str
) -> None:
    """PageFaults fails the test where a policy was violated: nothing even tried to become HTML."""
    open_records(page, console_url, hostile, mode="oldest")
    rows = drawn_rows(page)
    assert len(rows) == len(VALUES) + 1
    assert [row[3] for row in rows[: len(VALUES)]] == [SCRIPT] * len(VALUES)
    assert rows[0][4] == SCRIPT
    assert rows[-1][5].startswith(f"{HEADERS:,}")

    detail = open_record(page, 0, 0)
    value = detail.get_by_label("Value", exact=True)
    assert value.inner_text() == SCRIPT
    _open_part(detail, "Key")
    assert detail.get_by_label("Key", exact=True).inner_text() == SCRIPT
    _open_part(detail, "Headers")
    assert SCRIPT in detail.get_by_role("region", name="Headers").inner_text()

    for offset in range(1, len(VALUES)):
        detail = open_record(page, 0, offset)
        _open_part(detail, "Value")
        if len(VALUES[offset]) >= LONG:
            assert_read_to_its_end(detail)
        assert_usable(page)
    last = len(VALUES)
    detail = open_record(page, 0, last)
    _open_part(detail, "Headers")
    pages = detail.get_by_role("navigation", name="Pages of headers")
    assert pages.inner_text().startswith(f"0\u201399 of {HEADERS:,}")
    pages.get_by_role("button", name="Last headers").click()
    detail.get_by_text(f"h{HEADERS - 1}", exact=True).wait_for()
    assert_usable(page)
    page.set_viewport_size(NARROW)
    assert_no_sideways_scroll(page)
    assert page.evaluate("window.harm") is None
    assert page.locator("main img, main script").count() == 0


def test_hostile_records_are_tailed(
    page: Page, console_url: str, cluster: RecordCluster, hostile: str
) -> None:
    """As they come in: their rows are cut, and what follows them arrives."""
    open_records(page, console_url, hostile, mode="live")
    producer = cluster.producer(message_max_bytes=10_000_000)
    write(producer, hostile, *VALUES, key=SCRIPT, headers=[(SCRIPT, SCRIPT.encode())])
    write(producer, hostile, "after them", headers=[("h", b"\xff\x00")] * HEADERS)
    deadline = time.monotonic() + SECONDS
    while len(rows := drawn_rows(page)) <= len(VALUES):
        in_time(deadline, f"all records came: {len(rows)}")
        page.wait_for_timeout(50)
    assert rows[-1][4] == "after them"
    assert rows[0][4] == SCRIPT
    assert_usable(page)
    assert page.evaluate("window.harm") is None


def _open_part(detail: Locator, name: str) -> None:
    detail.get_by_role("group", name="Parts of the record").get_by_role("button", name=name).click()


def assert_read_to_its_end(detail: Locator) -> None:
    """A long value is there as a whole, in pages."""
    detail.get_by_role("button", name="Show all of it").click()
    pages = detail.get_by_role("navigation", name="Pages of the text")
    pages.get_by_role("button", name="End of the text").click()
    place = pages.locator(".pager-place").inner_text()
    last, total = place.partition("\u2013")[2].split(" of ")
    assert int(total.replace(",", "")) >= LONG - 2, place
    assert int(last.replace(",", "")) == int(total.replace(",", "")) - 1, place
    assert detail.get_by_label("Value", exact=True).inner_text()
    pages.get_by_role("button", name="Text before").click()
    pages.get_by_role("button", name="Begin of the text").click()


def assert_usable(page: Page) -> None:
    """It reacts, and has not taken the memory of the browser."""
    assert page.evaluate("() => new Promise((go) => requestAnimationFrame(() => go(true)))")
    heap = page.evaluate(_HEAP)
    assert heap < HEAP_MIB, f"the page has {heap:.0f} MiB"
