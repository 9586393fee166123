"""Schemas of topics that a user may not see are not told by records that claim to have them."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import fastavro
import httpx
from tests.console.running_console import log_in, running_console
from tests.console.users import VIEWER, allow, user

import ottla
from ottla.admin import AclOperation, AclResourceType, NewTopic
from ottla.schemas import Schema, SchemaRegistryClient

SECRET = {"type": "record", "name": "Secret", "fields": [{"name": "hush", "type": "string"}]}
SECONDS = 20


def framed(schema_id: int, value: dict[str, Any]) -> bytes:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, SECRET, value)
    return b"\0" + schema_id.to_bytes(4, "big") + data.getvalue()


async def value_of(browser: httpx.AsyncClient, topic: str) -> dict[str, Any]:
    answer = await browser.get(f"/api/topics/{topic}/records/0/0")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["value"]
    return found


def test_a_record_is_decoded_by_schemas_of_topics_that_the_user_sees() -> None:
    async def ask(broker: ottla.Broker, url: str, form: dict[str, str]) -> None:
        options = broker.client_options()
        async with (
            running_console(options, login_options=options, registry_url=url) as console,
            console.browser() as browser,
        ):
            await log_in(browser, **form)
            hidden = await value_of(browser, "mine")
            assert hidden["format"] == "hex"
            assert hidden["schema"] is None
            assert "secret" not in json.dumps(hidden)
            assert "hush" not in json.dumps(hidden)
            allow(broker, form["user"], AclResourceType.TOPIC, "secret", AclOperation.DESCRIBE)
            async with console.browser() as again:
                await log_in(again, **form)
                async with asyncio.timeout(SECONDS):
                    while (seen := await value_of(again, "mine"))["schema"] is None:
                        await asyncio.sleep(0.2)
            assert seen["schema"]["subject"] == "secret-value"
            assert json.loads(seen["text"]) == {"hush": "x"}

    with ottla.Broker(security="scram") as broker:
        options = broker.client_options()
        with (
            ottla.SchemaRegistry(
                **{k.replace(".", "_"): v for k, v in options.items()}
            ) as registry,
            ottla.Admin(options) as admin,
            SchemaRegistryClient(schema_registry_url=registry.url) as schemas,
            ottla.Producer(options) as producer,
        ):
            admin.create_topics([NewTopic("mine", 1), NewTopic("secret", 1)])
            schema_id = schemas.register_schema("secret-value", Schema(json.dumps(SECRET))).id
            producer.send("mine", framed(schema_id, {"hush": "x"})).result(SECONDS)
            form = user(broker, "anna", *VIEWER)
            allow(
                broker,
                "anna",
                AclResourceType.TOPIC,
                "mine",
                AclOperation.DESCRIBE,
                AclOperation.READ,
            )
            asyncio.run(ask(broker, registry.url, form))
