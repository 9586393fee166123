"""Retry topics and dead-letter topics on a broker."""

from __future__ import annotations

import asyncio
import logging
from uuid import uuid4

import pytest

from ottla import aio
from ottla.admin import ConfigResource, NewTopic
from ottla.app.letters import MAX_HISTORY_BYTES, create_letter_topics
from ottla.testing import Broker


def test_missing_topics_are_created_like_their_source(ottla_broker: Broker) -> None:
    source = f"orders-{uuid4().hex[:8]}"

    async def run() -> None:
        async with aio.Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
            nothing = await create_letter_topics(
                admin, [source], "billing", retries=2, has_dead_letters=True
            )
            assert nothing == {}, "the source does not exist yet"
            configs = {"max.message.bytes": "5000", "retention.ms": "1000"}
            await admin.create_topics([NewTopic(source, num_partitions=3, configs=configs)])
            both = await asyncio.gather(
                *(
                    create_letter_topics(
                        admin, [source], "billing", retries=2, has_dead_letters=True
                    )
                    for _ in range(2)
                )
            )
            dead = f"{source}.billing.dlt"
            names = [f"{source}.billing.retry.1", f"{source}.billing.retry.2", dead]
            assert both == [dict.fromkeys(names, 3)] * 2
            found = await admin.describe_configs([ConfigResource.topic(name) for name in names])
            for name in names:
                entries = found[ConfigResource.topic(name)]
                assert entries["max.message.bytes"].value == str(5000 + MAX_HISTORY_BYTES)
                assert entries["cleanup.policy"].value == "delete"
                expected = "-1" if name == dead else str(7 * 24 * 3600 * 1000)
                assert entries["retention.ms"].value == expected

    asyncio.run(run())


def test_topics_that_exist_stay_as_they_are(ottla_broker: Broker) -> None:
    source = f"orders-{uuid4().hex[:8]}"

    async def run() -> None:
        async with aio.Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
            await admin.create_topics(
                [NewTopic(source, num_partitions=3), NewTopic(f"{source}.g.dlt", num_partitions=1)]
            )
            counts = await create_letter_topics(
                admin, [source], "g", retries=0, has_dead_letters=True
            )
            assert counts == {f"{source}.g.dlt": 1}

    asyncio.run(run())


def test_names_that_differ_from_the_rule_are_told(
    ottla_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    source = f"orders-{uuid4().hex[:8]}"

    async def run() -> dict[str, int]:
        async with aio.Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic(source, num_partitions=1)])
            return await create_letter_topics(
                admin, [source], "team a", retries=0, has_dead_letters=True
            )

    with caplog.at_level(logging.WARNING):
        (name,) = asyncio.run(run())
    assert name in caplog.text
    assert "team a" in caplog.text
