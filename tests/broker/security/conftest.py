"""Certificates once for all, and a broker that several modules log in to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker.security.sasl_stage import Stage, sasl_stage
from tests.client.security.conftest import certificates

__all__ = ["certificates"]


@pytest.fixture(scope="session")
def shared_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with sasl_stage(tmp_path_factory.mktemp("sasl")) as stage:
        yield stage
