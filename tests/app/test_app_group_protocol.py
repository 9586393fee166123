"""Apps whose listeners are members of KIP-848 (group.protocol=consumer)."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import pytest
from tests.waiting import in_time

import ottla
from ottla.admin import GroupType
from ottla.app import App, To

WAIT_SECONDS = 30.0
NEW = {"group.protocol": "consumer"}


@pytest.mark.parametrize(("of_app", "of_listener"), [(NEW, {}), ({}, NEW)])
def test_an_app_under_test_takes_the_option(
    of_app: dict[str, Any], of_listener: dict[str, Any]
) -> None:
    app = App("billing", of_app)
    seen: list[str] = []

    @app.listener("orders", options=of_listener)
    async def bill(order: str) -> None:
        seen.append(order)

    with app.test() as t:
        t.blocking.send("orders", "tea")
        t.blocking.settled()
        assert seen == ["tea"]
        assert group_types(t.broker.bootstrap_servers) == {GroupType.CONSUMER}


def group_types(address: str) -> set[GroupType | None]:
    with ottla.Admin(bootstrap_servers=address) as admin:
        return {each.type for each in admin.list_groups().values()}


def test_apps_that_come_and_go_copy_each_record_once() -> None:
    def app_at(address: str) -> App:
        app = App("copying", {"bootstrap.servers": address, "auto.offset.reset": "earliest", **NEW})

        @app.listener("source", delivery="exactly-once")
        async def copy(value: str) -> Annotated[str, To("target")]:
            return value

        return app

    async def scenario(address: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        async with (
            ottla.aio.Producer(bootstrap_servers=address) as producer,
            ottla.aio.Consumer(
                bootstrap_servers=address,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
            ) as reader,
        ):
            reader.assign([("target", number) for number in range(4)])
            copied: list[bytes] = []

            async def write(first: int, last: int) -> None:
                for i in range(first, last):
                    await producer.send("source", b"%d" % i, partition=i % 4)

            async def wait_for(count: int) -> None:
                while len(copied) < count:
                    in_time(deadline, f"{len(copied)} of {count} records were copied")
                    copied.extend(each.value or b"" for each in await reader.poll(0.1))

            first, second = app_at(address), app_at(address)
            await first.start()
            await write(0, 200)
            await wait_for(50)
            await second.start()
            await write(200, 400)
            await wait_for(400)
            await first.stop()
            await write(400, 500)
            await wait_for(500)
            await second.stop()
            copied.extend(each.value or b"" for each in await reader.poll(0.1))
            assert sorted(copied) == sorted(b"%d" % i for i in range(500))

    with ottla.Broker() as broker, ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic(name, 4, 1) for name in ("source", "target")])
        asyncio.run(scenario(broker.bootstrap_servers))
