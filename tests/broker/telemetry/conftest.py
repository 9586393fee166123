"""A broker with a metrics page and a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.metrics import pages
from ottla.testing import Broker


@pytest.fixture(autouse=True)
def fresh_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scrape gets a page of its own."""
    monkeypatch.setattr(pages, "PAGE_SECONDS", 0)


@pytest.fixture
def measured() -> Iterator[Broker]:
    with Broker(metrics="127.0.0.1:0") as broker:
        broker.clock.freeze()
        yield broker
