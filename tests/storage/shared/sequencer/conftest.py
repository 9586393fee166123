"""Both sequencers: the tests of the contract run on each."""

from __future__ import annotations

import pytest
from tests.storage.shared.sequencer.backends import Place, memory_place, postgres_place


@pytest.fixture(params=["memory", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "memory":
        return memory_place()
    return postgres_place(request.getfixturevalue("shared_postgres"))


@pytest.fixture
def postgres(shared_postgres: str) -> Place:
    return postgres_place(shared_postgres)
