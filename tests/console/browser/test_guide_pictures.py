"""The pictures of docs/guides/console.md: the shop as the page shows it.

    OTTLA_WRITE_FACTS=1 python -m pytest -m campaign tests/console/browser/test_guide_pictures.py

writes them into docs/guides/pictures, in some three minutes; without the variable they are only drawn.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import pytest
from tests.console.browser.looks import Theme, use_theme
from tests.console.browser.page_walks import open_address
from tests.console.browser.shop_console import ottla_shop
from tests.console.browser.small_png import size_of, with_palette
from tests.console.serving import serving
from tests.console.shop.names import (
    DEAD_LETTERS,
    MODERATION,
    NIGHTLY_REPORT,
    ORDERS,
    PAYMENTS,
    PIPELINE,
    RATINGS,
    REFUNDS,
    SEARCH_INDEX,
    WAREHOUSE,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect, Page

FOLDER: Final = Path(__file__).parents[3] / "docs" / "guides" / "pictures"
# So long the console looks at the shop before it is drawn: charts have something to show.
WATCHED_SECONDS: Final = 150.0
WIDTH: Final = 1320
WIDE: Final = 1500
"""For tables with many columns."""
# The menu and the bar at the top are in the first picture only.
MENU_PX: Final = 228
BAR_PX: Final = 52


def _nothing(page: Page) -> None:
    """The view as it opens."""


def _open_record(page: Page) -> None:
    page.locator(".virtual tbody tr[aria-rowindex]").nth(2).click()
    page.locator(".record-detail:not([aria-busy])").wait_for()


def _ask_to_abort(page: Page) -> None:
    page.get_by_role("button", name="Abort the transaction").click()
    page.locator("dialog[open]").wait_for()
    page.wait_for_function("() => !document.querySelector('dialog[open] .loading')")


def _count_records(page: Page) -> None:
    page.get_by_role("button", name="Count the records").click()
    page.get_by_role("button", name="Count again").wait_for()


def _change_retention(page: Page) -> None:
    page.get_by_role("button", name="Edit retention.ms").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("retention.ms").first.fill("3600000")
    dialog.get_by_role("button", name="Show what it does").click()
    dialog.get_by_text("Records older than 1 hour are deleted").wait_for()


def _plan_a_reset(page: Page) -> None:
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Where it goes on").select_option("shift")
    dialog.get_by_label("How many").fill("-50")
    dialog.get_by_role("button", name="Show what it does").click()
    dialog.get_by_text("Committed now").wait_for()


class Picture(NamedTuple):
    """A picture of the guide; its file has its name."""

    name: str
    path: str
    height: int
    act: Callable[[Page], None] = _nothing
    theme: Theme = "light"
    width: int = WIDTH
    is_whole: bool = False
    """With the menu, as telephones always show it."""


PICTURES: Final = (
    Picture("overview", "/", 1010, is_whole=True),
    Picture("overview-phone", "/", 720, theme="dark", width=360, is_whole=True),
    Picture("topics", "/topics", 640, width=WIDE),
    Picture("topic-held-up", f"/topics/{RATINGS}", 720),
    Picture(
        "topic-config", f"/topics/{ORDERS}?tab=configs&c.q=retention", 620, act=_change_retention
    ),
    Picture("records", f"/topics/{ORDERS}/records", 800, act=_open_record),
    Picture("groups", "/groups", 620, width=WIDE),
    Picture("group-lag", f"/groups/{MODERATION}", 720, act=_count_records),
    Picture("rebalances", f"/groups/{SEARCH_INDEX}?tab=rebalances", 820),
    Picture("reset", f"/groups/{NIGHTLY_REPORT}", 720, act=_plan_a_reset, is_whole=True),
    Picture("members", f"/groups/{WAREHOUSE}?tab=members", 560),
    Picture("transactions", "/transactions", 740),
    Picture(
        "abort", f"/transactions/{REFUNDS}", 820, act=_ask_to_abort, theme="dark", is_whole=True
    ),
    Picture("producers", "/producers", 640, width=WIDE),
    Picture("apps", "/apps", 420),
    Picture("letters", f"/apps/dead-letters/{quote(DEAD_LETTERS)}", 720),
    Picture("pipeline", f"/pipelines/{PIPELINE}", 820),
    Picture("schema-difference", f"/schemas/subjects/{PAYMENTS}-value?tab=difference", 720),
    Picture("broker", "/broker", 640),
    Picture("broker-log", "/broker?tab=log", 640),
    Picture("broker-loop", "/broker?tab=loop", 700),
)


@pytest.fixture(scope="module")
def shop_url() -> Iterator[str]:
    """A console of the shop, whose broker logs as `ottla serve` does."""
    logger = logging.getLogger("ottla")
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        with ottla_shop() as shop, serving(shop.servers, **shop.settings) as console:
            yield console.url
    finally:
        logger.setLevel(before)


def part_of(page: Page, picture: Picture) -> FloatRect:
    """The view without what stands around it, and no more of it than the picture is high."""
    if picture.is_whole:
        return {"x": 0, "y": 0, "width": picture.width, "height": picture.height}
    end = page.evaluate("document.querySelector('main > .view').getBoundingClientRect().bottom")
    height = min(picture.height, int(end) + 20) - BAR_PX
    return {"x": MENU_PX, "y": BAR_PX, "width": picture.width - MENU_PX, "height": height}


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_the_pictures_of_the_guide_are_drawn(
    browser: Browser, page: Page, shop_url: str, tmp_path: Path
) -> None:
    folder = FOLDER if os.environ.get("OTTLA_WRITE_FACTS") else tmp_path
    page.goto(f"{shop_url}/topics")  # somebody looks, so that the console does
    looked_since = time.monotonic()
    while time.monotonic() - looked_since < WATCHED_SECONDS:
        page.wait_for_timeout(1_000)
    for picture in PICTURES:
        use_theme(page, picture.theme)
        page.set_viewport_size({"width": picture.width, "height": picture.height})
        open_address(page, shop_url, picture.path)
        picture.act(page)
        page.mouse.move(0, 0)
        page.wait_for_timeout(2_500)  # parts that come later, and the next poll
        png = page.screenshot(clip=part_of(page, picture), animations="disabled")
        path = folder / f"{picture.name}.png"
        path.write_bytes(with_palette(browser, png))
        assert size_of(path)[0] in (picture.width, picture.width - MENU_PX)
