"""A registry that the tests can make fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.schemas.fake_registry import FakeRegistry, fake_registry


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running
