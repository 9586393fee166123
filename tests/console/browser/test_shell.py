"""The frame around every view: paths, keys, theme, width, what it says when nothing answers."""

from __future__ import annotations

import re
import shlex
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.console.browser.looks import (
    NARROW,
    Theme,
    assert_accessible,
    assert_no_sideways_scroll,
    screenshot,
    use_theme,
)
from tests.console.browser.page_faults import PageFaults
from tests.console.serving import ServedConsole, serving

import ottla

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

VIEWS = {
    "/": "Overview",
    "/topics": "Topics",
    "/schemas": "Schemas",
    "/groups": "Groups",
    "/transactions": "Transactions",
    "/producers": "Producers",
    "/apps": "Apps and dead letters",
    "/pipelines": "Pipelines",
    "/broker": "Broker",
    "/json-api": "JSON API",
}


def heading(page: Page, title: str) -> None:
    """Wait until a view is there."""
    page.get_by_role("heading", level=1, name=title, exact=True).wait_for()


def test_every_view_has_a_path_a_link_and_a_title(page: Page, console_url: str) -> None:
    page.goto(console_url)
    heading(page, "Overview")
    menu = page.get_by_role("navigation", name="Views")
    for path, title in VIEWS.items():
        menu.get_by_role("link", name=title, exact=True).click()
        heading(page, title)
        assert page.url == console_url.rstrip("/") + path
        # The title is set in an effect, which may run after the heading was drawn.
        page.wait_for_function("title => document.title === title", arg=f"{title} · Ottla")
        current = menu.locator("[aria-current=page]")
        assert current.all_inner_texts() == [title]
    page.go_back()
    heading(page, [*VIEWS.values()][-2])


@pytest.mark.parametrize("path", [*VIEWS, "/topics/orders", "/topics/orders/records", "/groups/a"])
def test_a_view_can_be_opened_at_its_path_and_loaded_again(
    page: Page, console_url: str, faults: PageFaults, path: str
) -> None:
    faults.allow(r"404 \(Not Found\)")  # there is no such topic or group
    page.goto(console_url.rstrip("/") + path)
    first = page.get_by_role("heading", level=1).inner_text()
    page.reload()
    heading(page, first)


def test_the_keyboard_alone_is_enough(page: Page, console_url: str) -> None:
    page.goto(console_url)
    heading(page, "Overview")
    page.keyboard.press("g")
    page.keyboard.press("t")
    heading(page, "Topics")
    assert page.evaluate("document.activeElement.textContent") == "Topics", (
        "the heading is read out"
    )
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    dialog.wait_for()
    assert_accessible(page)
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.reload()
    heading(page, "Topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_the_theme_follows_the_system_until_one_is_chosen(page: Page, console_url: str) -> None:
    def background() -> str:
        found = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert isinstance(found, str)
        return found

    use_theme(page, "dark")
    page.goto(console_url)
    heading(page, "Overview")
    dark = background()
    use_theme(page, "light")
    light = background()
    assert dark != light
    page.get_by_role("button", name="Theme: as the system").click()
    page.get_by_role("button", name="Theme: light").click()
    page.get_by_role("button", name="Theme: dark").wait_for()
    assert background() == dark
    page.reload()
    heading(page, "Overview")
    assert background() == dark, "the choice is kept"


def test_views_are_accessible(page: Page, console_url: str, tmp_path: Path) -> None:
    """In the dark only contrast is looked at again: a theme changes colours and nothing else."""
    rules: dict[Theme, tuple[str, ...]] = {"light": (), "dark": ("color-contrast",)}
    for path, title in VIEWS.items():
        page.goto(console_url.rstrip("/") + path)
        heading(page, title)
        for theme, chosen in rules.items():
            use_theme(page, theme)
            assert_accessible(page, *chosen)
            screenshot(page, f"empty-{path.strip('/') or 'overview'}-{theme}", tmp_path)


def test_a_telephone_is_wide_enough(page: Page, console_url: str, tmp_path: Path) -> None:
    page.set_viewport_size(NARROW)
    page.goto(console_url)
    heading(page, "Overview")
    menu = page.get_by_role("navigation", name="Views")
    assert not menu.is_visible()
    for path, title in VIEWS.items():
        page.get_by_role("button", name="Views").click()
        menu.get_by_role("link", name=title, exact=True).click()
        heading(page, title)
        assert not menu.is_visible(), "the menu folds again"
        assert_no_sideways_scroll(page)
        screenshot(page, f"empty-{path.strip('/') or 'overview'}-narrow", tmp_path)
    assert_accessible(page)


def test_the_page_says_that_the_console_is_gone_and_recovers(
    page: Page, console: ServedConsole, faults: PageFaults
) -> None:
    faults.allow(
        r"ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET"
    )
    page.goto(console.url)
    page.get_by_text("Live").wait_for()
    console.stop()
    banner = page.get_by_text("The console has not answered since")
    banner.wait_for()
    console.start()
    banner.wait_for(state="detached")
    page.get_by_text("Live").wait_for()


def test_the_page_says_that_the_cluster_is_gone(
    page: Page, broker: ottla.Broker, faults: PageFaults
) -> None:
    faults.allow(r"50[0-9] \(")
    # An admin client tries for a minute by default.
    options = {"default.api.timeout.ms": 2000, "request.timeout.ms": 1000}
    with serving(broker.bootstrap_servers, options=options) as console:
        page.goto(console.url)
        page.get_by_text("Live").wait_for()
        broker.stop()
        page.get_by_text("The cluster has not answered since").wait_for()


def test_a_path_without_a_view_leads_back(page: Page, console_url: str) -> None:
    page.goto(f"{console_url.rstrip('/')}/nowhere/at/all")
    page.get_by_text("There is no view at /nowhere/at/all").wait_for()
    page.get_by_role("link", name="Go to the overview").click()
    heading(page, "Overview")


def test_nothing_in_the_page_is_inline(page: Page, console_url: str) -> None:
    text = page.request.get(console_url, headers={"accept": "text/html"}).text()
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script(?![^>]*src=)", text)


def test_nothing_is_called_well_before_it_was_looked_at(page: Page, console_url: str) -> None:
    """A console that has just begun has not been told everything: it says what it has looked at."""

    def with_few_parts(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        found["parts"] = [each for each in found["parts"] if each["part"] == "topics"]
        route.fulfill(response=answer, json=found)

    page.route("**/api/overview", with_few_parts)
    page.goto(console_url)
    page.get_by_text("Nothing wrong was found yet.").wait_for()
    page.get_by_text("still looking").wait_for()
    assert page.get_by_text("no group is stuck").count() == 0
    page.unroute("**/api/overview")
    page.reload()
    page.get_by_text("Nothing is wrong.").wait_for()
    page.get_by_text("nothing wrong", exact=True).wait_for()


def test_a_cluster_that_never_answered_is_told_with_the_reason(
    page: Page, faults: PageFaults
) -> None:
    faults.allow(r"503 \(Service Unavailable\)")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
    with serving(address) as console:
        page.goto(console.url)
        banner = page.get_by_role("status").filter(has_text="The cluster has not answered since")
        banner.wait_for()
        text = banner.inner_text()
        assert address in text, "what could not be reached"
        assert "The page tries again by itself" in text
        assert "from before" not in text, "there is nothing from before"
        page.get_by_text("The cluster has not answered yet").wait_for()
        page.goto("about:blank")  # the console ends before the page


def test_commands_of_the_json_api_work_as_they_are_copied(
    page: Page, broker: ottla.Broker, console_url: str
) -> None:
    page.goto(f"{console_url.rstrip('/')}/json-api?open=post_topics")
    page.get_by_label("Command", exact=True).wait_for()
    command = page.get_by_label("Command", exact=True).inner_text()
    answer = answer_to(command)
    assert answer.status_code == 200, answer.text
    assert answer.json()["plan"]["name"] == "NAME"
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert "NAME" not in admin.list_topics(), "it is a preview"
    # What belongs into the path and the query stands there, to be replaced.
    page.goto(f"{console_url.rstrip('/')}/json-api?open=get_group")
    command = page.get_by_label("Command", exact=True).inner_text()
    answer = answer_to(command)
    assert (answer.status_code, "no group 'ID'" in answer.text) == (404, True), command
    # Texts of the document are Markdown: no backtick is shown.
    assert "`" not in page.locator("main").inner_text()


def answer_to(command: str) -> httpx.Response:
    """What the console answers to a command for curl."""
    program, url, *options = shlex.split(command.replace("\\\n", " "))
    given = list(zip(options[::2], options[1::2], strict=True))
    headers = dict(text.split(": ", 1) for name, text in given if name == "-H")
    bodies = [text for name, text in given if name == "-d"]
    assert program == "curl"
    return httpx.request(
        "POST" if bodies else "GET",
        url,
        headers=headers,
        content=bodies[0].encode() if bodies else None,
        trust_env=False,
    )


def test_a_cluster_that_tells_nothing_new_is_not_called_live(page: Page, console_url: str) -> None:
    page.goto(console_url)
    page.locator(".live-text", has_text="Live").wait_for()
    # A snapshot that came 20 seconds ago; the next one comes within two.
    late = """async () => {
        const { live } = await import("/app/live.js");
        live.update({ heardAt: Date.now() - 20_000 });
        await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 50)));
        return document.querySelector(".top-state").innerText;
    }"""
    assert "slow, as of" in page.evaluate(late)
    page.locator(".live-text", has_text="Live").wait_for()
