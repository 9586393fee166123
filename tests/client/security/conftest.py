"""Certificates once for all, and both event loops."""

from __future__ import annotations

import pytest
from tests.client.network.conftest import run
from tests.client.security.certificates import Certificates, make_certificates

__all__ = ["certificates", "run"]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))
