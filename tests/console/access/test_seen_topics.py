"""Topics as users with few rights get them: what they may not describe is not there, and is not changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest
from tests.console.quick_polls import quick_polls
from tests.console.running_console import log_in, running_console
from tests.console.users import ADMIN, CLUSTER, VIEWER, allow, user
from tests.waiting import in_time

import ottla
from ottla.admin import AclOperation, AclResourceType, NewTopic

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
DESCRIBE, READ = AclOperation.DESCRIBE, AclOperation.READ
SECONDS = 20
OF_A_TOPIC = ("", "/partitions", "/history", "/groups", "/configs")


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    """Two topics, a group that reads both, and a transaction that is open on both."""
    with quick_polls(), ottla.Broker(security="scram") as found:
        options = found.client_options()
        with ottla.Admin(options) as admin:
            admin.create_topics([NewTopic("open", num_partitions=1), NewTopic("secret")])
            admin.alter_consumer_group_offsets("secret-group", {("open", 0): 0, ("secret", 0): 0})
        with ottla.Producer({**options, "transactional.id": "secret-payments"}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for topic in ("open", "secret"):
                producer.send(topic, b"1").result(SECONDS)
            yield found
            producer.abort_transaction()


@asynccontextmanager
async def logged_in(broker: ottla.Broker, form: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of a user, at a console that knows what is open on both topics."""
    options = broker.client_options()
    async with (
        running_console(options, login_options=options) as console,
        console.browser() as browser,
    ):
        found = console.console
        deadline = asyncio.get_running_loop().time() + SECONDS
        while len(found.open_transactions.latest.by_partition) < 2:
            in_time(deadline, "the console knows what is open")
            await asyncio.sleep(0.05)
        await log_in(browser, **form)
        yield browser


def test_who_may_describe_nothing_is_told_of_no_topic(broker: ottla.Broker) -> None:
    form = user(broker, "nobody", *VIEWER)

    async def ask() -> None:
        async with logged_in(broker, form) as browser:
            page = (await browser.get("/api/topics?internal=true")).json()
            assert (page["total"], page["rows"], page["counts"]["all"]) == (0, [], 0)
            for part in OF_A_TOPIC:
                answer = await browser.get(f"/api/topics/secret{part}")
                assert answer.status_code == 404, (part, answer.text)

    asyncio.run(ask())


def test_who_may_describe_one_topic_is_told_of_it_without_groups_and_transactions(
    broker: ottla.Broker,
) -> None:
    form = user(broker, "some", *VIEWER)
    allow(broker, "some", TOPIC, "open", DESCRIBE)

    async def ask() -> None:
        async with logged_in(broker, form) as browser:
            page = (await browser.get("/api/topics?internal=true")).json()
            (row,) = page["rows"]
            assert (row["name"], row["lag"], row["group_count"]) == ("open", None, 0)
            for part in OF_A_TOPIC[:-1]:
                answer = await browser.get(f"/api/topics/open{part}")
                assert answer.status_code == 200, (part, answer.text)
                assert "secret" not in answer.text, part
            answer = await browser.get("/api/topics/open/configs")
            assert answer.status_code == 403, "DescribeConfigs is a right of its own"
            history = (await browser.get("/api/topics/open/history")).json()
            assert not any(history["values"]["lag"])
            # Producers are told only to those who may read.
            places = (await browser.get("/api/topics/open/partitions?show=held")).json()
            assert [each["transactions"] for each in places["rows"]] == [[]]
            assert places["problems"]
            allow(broker, "some", TOPIC, "open", READ)
            places = (await browser.get("/api/topics/open/partitions?show=held")).json()
            (holder,) = places["rows"][0]["transactions"]
            assert (holder["transactional_id"], holder["is_hanging"]) == (None, False)
            assert holder["holds_last_stable_offset"]

    asyncio.run(ask())


def test_the_role_of_an_admin_is_not_enough_without_rights_on_the_topic(
    broker: ottla.Broker,
) -> None:
    form = user(broker, "keeper", *ADMIN)
    allow(broker, "keeper", TOPIC, "open", DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    changes: dict[str, dict[str, object]] = {
        "/api/topics": {"name": "new"},
        "/api/topics/open/delete": {},
        "/api/topics/open/partitions": {"total_count": 3},
        "/api/topics/open/configs": {"changes": [{"name": "retention.ms", "value": "5"}]},
        "/api/topics/open/delete-records": {"partitions": [{"partition": 0, "before_offset": 0}]},
    }

    async def ask() -> None:
        async with logged_in(broker, form) as browser:
            for path, body in changes.items():
                answer = await browser.post(path, json=body)
                assert answer.status_code == 403, (path, answer.text)
                assert "ACL" in answer.json()["advice"], path
                if path != "/api/topics":
                    hidden = path.replace("open", "secret")
                    answer = await browser.post(hidden, json=body)
                    assert answer.status_code == 404, (hidden, answer.text)
            allow(broker, "keeper", *CLUSTER, AclOperation.CREATE)
            answer = await browser.post("/api/topics", json={"name": "new"})
            assert answer.status_code == 200, answer.text

    asyncio.run(ask())
