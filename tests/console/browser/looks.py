"""How a page looks, and whether all can use it: accessibility, width, pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

Theme = Literal["light", "dark"]
# Best practices are included; what axe cannot decide (`incomplete`) is not.
AXE_OPTIONS: dict[str, Any] = {"resultTypes": ["violations"]}
NARROW: ViewportSize = {"width": 360, "height": 740}
WIDE: ViewportSize = {"width": 1440, "height": 900}


def assert_accessible(page: Page, *rules: str) -> None:
    """Axe finds nothing in what the page shows now; with `rules`, it looks only for these."""
    from axe_playwright_python.sync_playwright import Axe

    options = {**AXE_OPTIONS, "runOnly": rules} if rules else AXE_OPTIONS
    violations = Axe().run(page, options=options).response["violations"]
    report = [
        f"{each['id']} ({each['impact']}): {each['help']}\n    "
        + "\n    ".join(node["html"][:300] for node in each["nodes"][:5])
        for each in violations
    ]
    assert not report, "\n".join(report)


def assert_no_sideways_scroll(page: Page) -> None:
    """The page is not wider than its window; tables scroll in themselves."""
    wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window, f"the page is {wide} wide, the window {window}"


def use_theme(page: Page, theme: Theme) -> None:
    """As if the system were light or dark."""
    page.emulate_media(color_scheme=theme)


def screenshot(page: Page, name: str, folder: Path) -> Path:
    """Keep a picture of the whole page: in OTTLA_SCREENSHOTS if that is set, in `folder` otherwise."""
    kept = Path(os.environ.get("OTTLA_SCREENSHOTS") or folder)
    kept.mkdir(parents=True, exist_ok=True)
    path = kept / f"{name}.png"
    page.screenshot(path=path, full_page=True, animations="disabled")
    return path
