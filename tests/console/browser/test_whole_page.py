"""The whole page over a busy cluster: what holds in every view, whatever it shows.

`make test` looks at each view once; a campaign at more of their states, in both themes and widths, at all links and
all dialogs, and at the same on Apache Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.apache_kafka.conftest import kafka_jars
from tests.apache_kafka.programs import running_kafka
from tests.console.browser.looks import (
    NARROW,
    WIDE,
    Theme,
    assert_accessible,
    assert_no_sideways_scroll,
    screenshot,
    use_theme,
)
from tests.console.browser.page_faults import PageFaults
from tests.console.browser.page_walks import (
    assert_frame,
    assert_tab_reaches_everything,
    kind_of_link,
    links_of,
    open_address,
    settle,
    signature,
)
from tests.console.browser.shop_console import Shop, ottla_shop
from tests.console.browser.shop_states import MORE, NOTHING_THERE, VIEWS, State
from tests.console.serving import serving
from tests.console.shop.opening import BROKER_OPTIONS
from tests.console.shop.process import shop_process

if TYPE_CHECKING:
    from playwright.sync_api import Page, Response

__all__ = ["kafka_jars"]

FAILED_HEADINGS = ("Nothing here", "This view failed", "Not loaded")
MAX_LINKS = 400
PARTS_SECONDS = 5.0
# Views whose every tab stop is visited in `make test`.
WALKED = ("topics", "records", "transactions")
EXISTING = [state for state in (*VIEWS, *MORE) if state.name not in NOTHING_THERE]


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.campaign)])
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    """On our broker and, in a campaign, on Apache Kafka."""
    if request.param == "ottla":
        with ottla_shop() as found:
            yield found
        return
    jars: Path = request.getfixturevalue("kafka_jars")
    folder = tmp_path_factory.mktemp("kafka")
    with (
        running_kafka(jars, folder, BROKER_OPTIONS) as address,
        shop_process(address) as registry_url,
    ):
        yield Shop(address, {"registry_url": registry_url})


@pytest.fixture(scope="module")
def shop_url(shop: Shop) -> Iterator[str]:
    """A console of the shop."""
    with serving(shop.servers, **shop.settings) as console:
        yield console.url


class Findings:
    """What is wrong in which state: a test goes on, and tells all at its end."""

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            self._found.append(f"== {what}: {error}")

    def check(self) -> None:
        assert not self._found, "\n".join(self._found)


@pytest.mark.long
def test_every_view_is_sound(page: Page, shop_url: str) -> None:
    findings = Findings()
    links: dict[str, str] = {}
    for state in VIEWS:
        page.set_viewport_size(WIDE)
        use_theme(page, "light")
        open_address(page, shop_url, state.path)
        links.update((kind_of_link(each), each) for each in links_of(page))
        with findings.of(f"{state.name}, frame"):
            assert_frame(page)
        with findings.of(f"{state.name}, light"):
            assert_accessible(page)
        use_theme(page, "dark")
        with findings.of(f"{state.name}, dark"):
            assert_accessible(page, "color-contrast")
        page.set_viewport_size(NARROW)
        with findings.of(f"{state.name}, narrow"):
            assert_no_sideways_scroll(page)
        if state.name in WALKED:
            page.set_viewport_size(WIDE)
            with findings.of(f"{state.name}, keyboard"):
                assert_tab_reaches_everything(page)
    page.set_viewport_size(WIDE)
    for address in links.values():
        with findings.of(f"link to {address}"):
            assert_leads_to_view(page, shop_url, address)
    findings.check()


def assert_leads_to_view(page: Page, shop_url: str, address: str) -> None:
    """The address has a view, and what the view shows is there."""
    open_address(page, shop_url, address)
    heading = page.locator("h1").inner_text()
    assert heading not in FAILED_HEADINGS, heading
    alerts = page.locator("main [role=alert]").all_inner_texts()
    assert not alerts, alerts


@pytest.mark.campaign
@pytest.mark.parametrize("state", [*VIEWS, *MORE], ids=lambda state: state.name)
def test_a_state_is_sound_in_both_themes_and_widths(
    page: Page, shop_url: str, faults: PageFaults, state: State, tmp_path: Path
) -> None:
    if state.name in NOTHING_THERE:
        faults.allow(r"404 \(Not Found\)")
    findings = Findings()
    themes: tuple[Theme, ...] = ("light", "dark")
    for theme in themes:
        use_theme(page, theme)
        for width, size in (("wide", WIDE), ("narrow", NARROW)):
            page.set_viewport_size(size)
            open_address(page, shop_url, state.path)
            with findings.of(f"{theme}, {width}"):
                assert_accessible(page)
                assert_frame(page)
                assert_no_sideways_scroll(page)
            screenshot(page, f"{state.name}-{theme}-{width}", tmp_path)
    findings.check()


@pytest.mark.campaign
@pytest.mark.parametrize("state", EXISTING, ids=lambda state: state.name)
def test_the_keyboard_reaches_everything(page: Page, shop_url: str, state: State) -> None:
    open_address(page, shop_url, state.path)
    assert_tab_reaches_everything(page)


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_every_link_leads_to_a_view(page: Page, shop_url: str) -> None:
    """Three links of each kind, from wherever they are found."""
    findings = Findings()
    todo = [state.path for state in EXISTING]
    seen: set[str] = set()
    counts: dict[str, int] = {}
    while todo and len(seen) < MAX_LINKS:
        address = todo.pop(0)
        if address in seen:
            continue
        seen.add(address)
        with findings.of(address):
            assert_leads_to_view(page, shop_url, address)
        for link in links_of(page):
            kind = kind_of_link(link)
            if link not in seen and counts.get(kind, 0) < 3:
                counts[kind] = counts.get(kind, 0) + 1
                todo.append(link)
    assert len(seen) > len(EXISTING)
    findings.check()


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("state", EXISTING, ids=lambda state: state.name)
def test_what_is_chosen_is_in_the_address(page: Page, shop_url: str, state: State) -> None:
    """Each tab, each sorted column and a search are the same after the page is loaded again."""
    open_address(page, shop_url, state.path)
    findings = Findings()
    tabs = page.locator("main nav.tabs a")
    columns = page.locator("main th button.sort")
    searches = page.locator("main [data-search]")
    for number in range(tabs.count()):
        open_address(page, shop_url, state.path)
        tabs.nth(number).click()
        with findings.of(f"tab {number}"):
            assert_same_after_reload(page)
    open_address(page, shop_url, state.path)
    for number in range(columns.count()):
        open_address(page, shop_url, state.path)
        columns.nth(number).click()
        with findings.of(f"column {number}"):
            assert_same_after_reload(page)
    if searches.count():
        open_address(page, shop_url, state.path)
        searches.first.fill("e")
        page.keyboard.press("Enter")
        with findings.of("search"):
            assert_same_after_reload(page)
    findings.check()


def assert_same_after_reload(page: Page) -> None:
    settle(page)
    before = signature(page)
    page.reload()
    settle(page)
    # Parts of a view may come later than it does.
    deadline = time.monotonic() + PARTS_SECONDS
    while (after := signature(page)) != before and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    assert after == before


def buttons_of(page: Page) -> list[str]:
    """The labels of the view's buttons that can be pressed, but for those that sort."""
    found: list[str] = page.evaluate(
        """() => [...new Set([...document.querySelectorAll('main button:enabled:not(.sort)')]
            .filter((each) => each.checkVisibility())
            .map((each) => each.getAttribute('aria-label') ?? each.textContent.trim()))]"""
    )
    return found


def pressed(page: Page, label: str) -> bool:
    """Presses a button, if it is still there: what a view offers can depend on what happens in the shop."""
    button = page.locator("main").get_by_role("button", name=label, exact=True).first
    if button.count() == 0 or not button.is_enabled():
        return False
    button.click()
    return True


@pytest.mark.campaign
@pytest.mark.parametrize("state", EXISTING, ids=lambda state: state.name)
def test_dialogs_are_accessible_and_close_with_escape(
    page: Page, shop_url: str, state: State
) -> None:
    """Each button of a view that opens a dialog; nothing is confirmed."""
    open_address(page, shop_url, state.path)
    findings = Findings()
    for label in buttons_of(page):
        open_address(page, shop_url, state.path)
        if not pressed(page, label):
            continue
        dialog = page.locator("dialog[open]")
        if dialog.count() == 0:
            continue
        page.wait_for_function("() => !document.querySelector('dialog[open] .loading')")
        with findings.of(f"dialog of {label!r}"):
            assert_accessible(page)
            page.keyboard.press("Escape")
            dialog.wait_for(state="detached")
            button = page.locator("main").get_by_role("button", name=label, exact=True).first
            assert button.evaluate("each => each === document.activeElement"), "where is the focus?"
    findings.check()


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_a_read_only_page_offers_nothing_that_is_refused(page: Page, shop: Shop) -> None:
    """Each button of each view is pressed, and of each dialog the last one: no answer is 403."""
    refused: list[str] = []

    def look(response: Response) -> None:
        if response.status == HTTPStatus.FORBIDDEN:
            refused.append(f"{response.request.method} {response.url}")

    page.on("response", look)
    findings = Findings()
    with serving(shop.servers, is_read_only=True, **shop.settings) as console:
        for state in EXISTING:
            open_address(page, console.url, state.path)
            for label in buttons_of(page):
                open_address(page, console.url, state.path)
                if not pressed(page, label):
                    continue
                if page.locator("dialog[open]").count():
                    page.wait_for_function("() => !document.querySelector('dialog[open] .loading')")
                    last = page.locator("dialog[open] footer button").last
                    if last.count() and last.is_enabled():
                        last.click()
                        page.wait_for_function(
                            "() => !document.querySelector('dialog[open] [aria-busy=true]')"
                        )
                with findings.of(f"{state.name}, {label}"):
                    assert not refused, refused
                refused.clear()
        page.goto("about:blank")  # the console ends before the page
    findings.check()
