"""Certificates once for all."""

from __future__ import annotations

from tests.client.security.conftest import certificates

__all__ = ["certificates"]
