"""Ways through a page: wait until it is there, its links, its tab stops, what of its state can be seen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Nothing is awaited any more, and what is drawn has its sizes.
_SETTLED: Final = """() => {
  const main = document.querySelector('main');
  return main !== null && main.querySelector('h1') !== null
    && main.querySelector('.loading, [aria-busy=true]') === null && document.fonts.status === 'loaded';
}"""

_LINKS: Final = """() => [...document.querySelectorAll('a[href]')]
  .filter((link) => link.origin === location.origin && !link.hash)
  .map((link) => ({ address: link.pathname + link.search, isDownload: link.hasAttribute('download') }))"""

_VISIBLE_STOPS: Final = """() => {
  const stops = [...document.querySelectorAll(
    'a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, summary, [tabindex="0"]')]
    .filter((each) => each.checkVisibility({ visibilityProperty: true }) && each.tabIndex >= 0)
    .filter((each) => each.type !== 'radio' || each.checked);
  window.stopsLeft = new Set(stops);
  return stops.length;
}"""

# What has the focus: nothing, a place that shows it, or one that does not.
_FOCUSED: Final = """() => {
  const element = document.activeElement;
  if (element === null || element === document.body) return null;
  window.stopsLeft.delete(element);
  const styles = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const hasOutline = styles.outlineStyle !== 'none' && parseFloat(styles.outlineWidth) > 0;
  const hasRing = hasOutline || styles.boxShadow !== 'none';
  return { html: element.outerHTML.slice(0, 160), hasRing, isSeen: box.width > 0 && box.height > 0 };
}"""

_LEFT: Final = """() => [...window.stopsLeft]
  .filter((each) => each.isConnected).map((each) => each.outerHTML.slice(0, 160))"""

# Numbers change while the shop is open.
_SIGNATURE: Final = r"""() => {
  const text = (element) => element.textContent.replace(/[\d.,:]+/g, '#').replace(/\s+/g, ' ').trim();
  const all = (selector) => [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility());
  const name = (field) => field.labels?.[0]?.textContent ?? field.getAttribute('aria-label');
  const value = (field) => (['checkbox', 'radio'].includes(field.type) ? field.checked : field.value);
  return {
    address: location.pathname + location.search,
    title: document.title,
    heading: all('main h1').map(text),
    parts: all('main h2, main h3').map(text).sort(),
    chosen: all('main [aria-current], main [aria-selected=true], main [aria-pressed=true]').map(text),
    sorted: all('main [aria-sort]').map((each) => `${text(each)} ${each.getAttribute('aria-sort')}`),
    fields: all('main input, main select, main textarea').map((each) => `${name(each)}=${value(each)}`),
    dialogs: all('dialog[open] h2').map(text),
  };
}"""

MAX_STOPS: Final = 600


def settle(page: Page) -> None:
    """Wait until the view is there, with what it shows."""
    page.wait_for_function(_SETTLED)


def open_address(page: Page, console_url: str, path: str) -> None:
    """Load a state of the page, and wait until it is there."""
    page.goto(console_url.rstrip("/") + path)
    settle(page)


def links_of(page: Page) -> list[str]:
    """The addresses in the console that the page links to, downloads and the API left out."""
    found = page.evaluate(_LINKS)
    return [
        link["address"]
        for link in found
        if not link["isDownload"] and not link["address"].startswith("/api/")
    ]


def kind_of_link(address: str) -> str:
    """Links that differ only in a name or a number are of one kind."""
    path, _, query = address.partition("?")
    parts = path.strip("/").split("/")
    shape = [part if index % 2 == 0 else "*" for index, part in enumerate(parts)]
    names = sorted(name for name in re.findall(r"(?:^|&)([^=&]+)=", query))
    return "/".join(shape) + "?" + "&".join(names)


def signature(page: Page) -> dict[str, Any]:
    """What of the page's state can be seen, without what changes by itself."""
    found: dict[str, Any] = page.evaluate(_SIGNATURE)
    return found


def assert_tab_reaches_everything(page: Page) -> None:
    """The Tab key goes through all links, buttons and fields, each shows the focus, and it comes out at the end."""
    page.evaluate("document.activeElement.blur()")
    count = page.evaluate(_VISIBLE_STOPS)
    unseen = []
    for _ in range(min(2 * count + 50, MAX_STOPS)):
        page.keyboard.press("Tab")
        focused = page.evaluate(_FOCUSED)
        if focused is None:
            break
        if not (focused["hasRing"] and focused["isSeen"]):
            unseen.append(focused["html"])
    else:
        raise AssertionError(f"Tab does not come to an end; {count} stops are expected")
    assert not unseen, "the focus cannot be seen:\n" + "\n".join(unseen)
    left = page.evaluate(_LEFT)
    assert not left, "Tab does not reach:\n" + "\n".join(left)


def assert_frame(page: Page) -> None:
    """One title, one heading, and the landmarks by which screen readers find their way."""
    heading = page.locator("h1")
    assert heading.count() == 1, heading.all_inner_texts()
    # The title is set in an effect, which may run after the heading was drawn.
    page.wait_for_function("t => document.title === t", arg=f"{heading.inner_text()} · Ottla")
    assert page.get_by_role("banner").count() == 1
    assert page.get_by_role("main").count() == 1
    assert page.locator("nav[aria-label=Views]").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
