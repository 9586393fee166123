"""The clusters and the console of the tests of transactions: topics show what holds them up."""

from __future__ import annotations

from tests.console.transactions.conftest import api, cluster, kafka_jars

__all__ = ["api", "cluster", "kafka_jars"]
