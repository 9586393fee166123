"""Copiers and brokers on shared storage are killed while a topic is copied: every record has exactly one copy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.faults.copies import Work
from tests.faults.processes import fault_rng
from tests.history.storage_verdict import check_storage
from tests.shared_brokers.broker_processes import BrokerProcesses, make_storage
from tests.shared_brokers.exact_copies import broker_options, run
from tests.storage.shared.s3_server import S3Server, shared_s3

__all__ = ["shared_s3"]


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("has_bucket", [False, True])
def test_a_hundred_thousand_records_have_one_copy_each_over_sixty_kills(
    storage_url: str, request: pytest.FixtureRequest, tmp_path: Path, has_bucket: bool
) -> None:
    objects = None
    if has_bucket:
        server: S3Server = request.getfixturevalue("shared_s3")
        objects = server.url("copies")
    urls = make_storage(storage_url, objects)
    brokers = BrokerProcesses(tmp_path, urls, 3)
    try:
        brokers.start_all(*broker_options())
        figures = run(brokers, tmp_path, fault_rng(), Work(4, 25_000), kill_count=30)
    finally:
        brokers.end()
    stored = asyncio.run(check_storage(urls))
    print(figures, dict(stored))
    assert (figures.broker_kills, figures.copier_kills) == (30, 30)
    # Else no kill met an open transaction.
    assert figures.aborted_records > 0
