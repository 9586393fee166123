"""The asyncio face."""

from __future__ import annotations

import asyncio

import pytest

import ottla
from ottla.admin import NewTopic
from ottla.client.aio.admin.client import Admin
from ottla.client.blocking.admin import Admin as BlockingAdmin
from ottla.errors import ConfigError, IllegalStateError


def test_calls_run_side_by_side(ottla_broker: ottla.Broker, ottla_topic: str) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic(ottla_topic, 2)])
            topics, cluster, groups = await asyncio.gather(
                admin.list_topics(), admin.describe_cluster(), admin.list_groups()
            )
            assert ottla_topic in topics
            assert len(cluster.nodes) == 1
            assert isinstance(groups, dict)

    asyncio.run(work())


def test_it_is_made_in_a_running_loop() -> None:
    with pytest.raises(IllegalStateError, match="running event loop"):
        Admin(bootstrap_servers="127.0.0.1:1")


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"default\.api\.timeout\.ms"):
        BlockingAdmin({"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.m": 1})


def test_a_call_under_way_fails_when_the_client_is_closed() -> None:
    async def work() -> None:
        admin = Admin(bootstrap_servers="127.0.0.1:1")
        calling = asyncio.create_task(admin.list_topics())
        await asyncio.sleep(0.05)
        await admin.close()
        async with asyncio.timeout(5):
            with pytest.raises(IllegalStateError, match="closed"):
                await calling
            with pytest.raises(IllegalStateError, match="closed"):
                await admin.list_topics()

    asyncio.run(work())


def test_the_blocking_face_has_every_call_of_the_asynchronous_one() -> None:
    def public(cls: type) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")}

    assert public(Admin) == public(BlockingAdmin)
    for name in public(BlockingAdmin):
        if name != "close":
            assert getattr(BlockingAdmin, name).__doc__ == getattr(Admin, name).__doc__
