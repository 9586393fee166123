"""The pictures of the guide. A campaign takes them, so that each shows what it is about.

    OTTLA_WRITE_PICTURES=1 python -m pytest -m campaign tests/console/browser/test_pictures.py

writes them into the guide's folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.console.browser.looks import Theme, use_theme
from tests.console.browser.page_faults import PageFaults
from tests.console.browser.page_walks import open_address
from tests.console.browser.small_png import size_of, with_palette
from tests.console.serving import serving
from tests.console.shop.names import PAYMENTS, REFUNDS, SEARCH_INDEX
from tests.console.shop.opening import BROKER_OPTIONS
from tests.console.shop.process import shop_process
from tests.lasting import LASTING

import ottla

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "console.md"
FOLDER = GUIDE.parent / "images"
MAX_BYTES = 150_000
WIDTH = 1280


class Picture(NamedTuple):
    """A picture `console-<name>.png`: an address, texts that it has to show, and its height."""

    name: str
    path: str
    shows: tuple[str, ...]
    height: int = 800
    theme: Theme = "light"


PICTURES = (
    Picture("overview", "/", ("Overview",)),
    Picture("topic", f"/topics/{PAYMENTS}", (PAYMENTS,)),
    Picture("records", f"/topics/{PAYMENTS}/records", (PAYMENTS,)),
    Picture("group", f"/groups/{SEARCH_INDEX}", (SEARCH_INDEX,)),
    Picture("transactions", "/transactions", (REFUNDS,)),
    Picture("broker", "/broker", ("Broker",), theme="dark"),
)


@pytest.fixture(scope="module")
def shop_url() -> Iterator[str]:
    with (
        ottla.Broker({**LASTING, **BROKER_OPTIONS}, metrics="127.0.0.1:0") as broker,
        shop_process(broker.bootstrap_servers) as registry_url,
        serving(
            broker.bootstrap_servers,
            registry_url=registry_url,
            internals_url=broker.metrics_url.removesuffix("/metrics"),
        ) as console,
    ):
        yield console.url


@pytest.mark.campaign
@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_shows_what_it_is_about(
    browser: Browser, faults: PageFaults, shop_url: str, picture: Picture, tmp_path: Path
) -> None:
    with closing(browser.new_context(viewport={"width": WIDTH, "height": picture.height})) as tab:
        page = tab.new_page()
        faults.watch(page)
        use_theme(page, picture.theme)
        open_address(page, shop_url, picture.path)
        wait_for_texts(page, picture.shows)
        png = with_palette(browser, page.screenshot(animations="disabled"))
    assert len(png) <= MAX_BYTES, picture.name
    folder = FOLDER if os.environ.get("OTTLA_WRITE_PICTURES") else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"console-{picture.name}.png").write_bytes(png)
    faults.check()


def wait_for_texts(page: Page, texts: tuple[str, ...]) -> None:
    for text in texts:
        page.locator("main").get_by_text(text).first.wait_for()


def test_the_guide_has_its_pictures() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(images/(console-[\w-]+\.png)\)", text)
    assert set(shown) == {f"console-{picture.name}.png" for picture in PICTURES}
    assert len(set(shown)) == len(shown)
    heights = {f"console-{picture.name}.png": picture.height for picture in PICTURES}
    for name in shown:
        assert size_of(FOLDER / name) == (WIDTH, heights[name]), name
        assert (FOLDER / name).stat().st_size <= MAX_BYTES, name
    assert {path.name for path in FOLDER.glob("console-*")} == set(shown)
