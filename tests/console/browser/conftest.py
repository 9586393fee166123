"""A real browser, a real broker, and a console between them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.console.browser.page_faults import PageFaults
from tests.console.serving import ServedConsole, serving
from tests.lasting import LASTING

import ottla

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Nothing but the console is asked: no update, no sync, no first-run page.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DEADLINE_MS = 15_000


# Of the package and not of the session: while playwright runs, no other test of this process can use asyncio.run().
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium; without it, or without playwright, the tests are skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"there is no browser: none of {', '.join(PROGRAMS)} is in PATH")
    with (
        playwright.sync_playwright() as running,
        closing(running.chromium.launch(executable_path=program, args=ARGUMENTS)) as browser,
    ):
        yield browser


@pytest.fixture
def faults() -> PageFaults:
    """What goes wrong in the page; a test that provokes something allows it here."""
    return PageFaults()


@pytest.fixture
def page(browser: Browser, faults: PageFaults, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A fresh tab; errors in its console, uncaught exceptions and violations of its CSP fail the test."""
    if "console" in request.fixturenames:
        # It starts before the tab, so that it ends after it: a tab without its console has errors.
        request.getfixturevalue("console")
    with closing(browser.new_context(viewport={"width": 1280, "height": 900})) as context:
        context.set_default_timeout(DEADLINE_MS)
        page = context.new_page()
        faults.watch(page)
        yield page
    faults.check()


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    """A broker of its own for each test."""
    with ottla.Broker(LASTING) as broker:
        yield broker


@pytest.fixture
def console(broker: ottla.Broker) -> Iterator[ServedConsole]:
    """A console for the broker, which the test may stop and start."""
    with serving(broker.bootstrap_servers) as console:
        yield console


@pytest.fixture
def console_url(console: ServedConsole) -> str:
    return console.url
