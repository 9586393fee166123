"""A broker of its own for every test: topics and groups have the same names in all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker
