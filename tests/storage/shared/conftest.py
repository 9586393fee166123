"""The servers that the tests of the shared engine have in common."""

from __future__ import annotations

from tests.storage.shared.postgres_server import shared_postgres
from tests.storage.shared.s3_server import shared_s3

__all__ = ["shared_postgres", "shared_s3"]
