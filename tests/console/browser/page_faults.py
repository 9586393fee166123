"""What goes wrong in a page without being seen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page
    from playwright.sync_api import Error as PageError


class PageFaults:
    """Collects errors of the browser's console, to which violations of the CSP belong, and uncaught exceptions."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._allowed: list[re.Pattern[str]] = []

    def watch(self, page: Page) -> None:
        """Listen to a page from now on."""
        page.on("console", self._hear)
        page.on("pageerror", self._catch)

    def allow(self, pattern: str) -> None:
        """Errors that the test provokes: `503 \\(Service Unavailable\\)`, `ERR_CONNECTION_REFUSED`."""
        self._allowed.append(re.compile(pattern))

    def check(self) -> None:
        """Fail if anything was found that the test does not allow."""
        unexpected = [
            text
            for text in self._found
            if not any(pattern.search(text) for pattern in self._allowed)
        ]
        assert not unexpected, "the page has errors:\n" + "\n".join(unexpected)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._found.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def _catch(self, error: PageError) -> None:
        self._found.append(f"uncaught: {error.message}")
