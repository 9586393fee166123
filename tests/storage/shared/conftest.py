"""The server that the tests of the shared engine have in common."""

from __future__ import annotations

from tests.storage.shared.postgres_server import shared_postgres

__all__ = ["shared_postgres"]
