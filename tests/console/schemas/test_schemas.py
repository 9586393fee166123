"""Subjects, versions, levels and modes as the API of the console tells and changes them."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
from tests.console.api_client import SOON_SECONDS, ApiClient
from tests.console.running_console import log_in, running_console
from tests.console.schemas.conftest import Registry, console_of, record
from tests.console.users import ADMIN, VIEWER, allow, user
from tests.waiting import in_time

import ottla
from ottla.admin import AclOperation, AclResourceType, NewTopic
from ottla.console.registry.schema_difference import difference_of
from ottla.console.registry.seen_subjects import topic_of_subject

PROTO = 'syntax = "proto3";\n\nmessage M {\n  int32 a = 1;\n}\n'
JSON = '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","maximum":1.10}'


def test_subjects_are_listed_with_their_topic_and_rules(registry: Registry, api: ApiClient) -> None:
    topic = registry.topic("listed")
    id_ = registry.register(f"{topic}-value", record("A", "x"))
    registry.register(f"{topic}-value", record("A", "x", "y?"))
    registry.register(f"{topic}-com.acme.B", PROTO, "PROTOBUF")
    api.soon("/api/topics", lambda page: topic in str(page), q=topic)

    def rows(**query: object) -> list[dict[str, object]]:
        found = api.soon("/api/schemas", lambda page: page["rows"], q=topic, **query)
        return [dict(row) for row in found]

    other, value = rows()
    assert (value["name"], value["topic"], value["part"]) == (f"{topic}-value", topic, "value")
    assert (value["type"], value["version"], value["version_count"]) == ("AVRO", 2, 2)
    assert (value["compatibility"], value["mode"], value["is_deleted"]) == ("BACKWARD", None, False)
    assert (other["topic"], other["part"], other["type"]) == (topic, None, "PROTOBUF")
    assert [row["name"] for row in rows(order="desc")] == [value["name"], other["name"]]
    assert len(rows(type="PROTOBUF")) == 1
    found = api.get("/api/schemas/id", id=id_)
    assert {"subject": f"{topic}-value", "version": 1} in found["places"]
    assert api.refused("GET", "/api/schemas/id", id=987_654)[0] == 404
    assert api.refused("GET", "/api/schemas", limit=0)[0] == 400


def test_subjects_are_found_by_the_text_of_their_schema(registry: Registry, api: ApiClient) -> None:
    name = registry.name("searched")
    # What is registered by the console itself is in its list at once.
    text = record("Voucher", "very_special_field")
    api.post("/api/schemas/register", subject=name, text=text, preview=False)
    page = api.get("/api/schemas", q="Very_Special", where="text")
    assert [row["name"] for row in page["rows"]] == [name]
    assert api.get("/api/schemas", q="very_special")["total"] == 0


def test_a_version_shows_its_text_references_and_users(registry: Registry, api: ApiClient) -> None:
    base, user_ = registry.name("base"), registry.name("user")
    registry.register(base, record("com.acme.Base", "x"))
    references = [{"name": "com.acme.Base", "subject": base, "version": 1}]
    text = '{"type":"record","name":"U","fields":[{"name":"b","type":"com.acme.Base"}]}'
    registry.register(user_, text, references=references)
    found = api.get("/api/schemas/version", subject=user_)
    assert (found["version"], found["is_deleted"]) == (1, False)
    assert found["schema"]["references"] == references
    assert found["schema"]["pretty"].startswith('{\n  "type": "record",\n  "name": "U"')
    found = api.get("/api/schemas/version", subject=base, version=1)
    assert found["referenced_by"] == [{"subject": user_, "version": 1}]
    assert api.refused("GET", "/api/schemas/version", subject=base, version=9)[0] == 404
    assert api.refused("GET", "/api/schemas/subject", name="no-such-subject")[0] == 404
    # Who deletes it is told who uses it.
    plan = api.post("/api/schemas/delete", subject=base)["plan"]
    assert plan["referenced_by"] == [{"subject": user_, "version": 1}]
    assert "refuse" in plan["warnings"][0]


def test_versions_are_compared_line_by_line(registry: Registry, api: ApiClient) -> None:
    name = registry.name("compared")
    registry.register(name, record("A", "x"))
    registry.register(name, record("A", "x", "y?"))
    found = api.get("/api/schemas/difference", subject=name, old=1, new=2)
    added = [line["text"].strip() for line in found["lines"] if line["kind"] == "added"]
    assert '"name": "y",' in added
    assert found["removed_count"] <= 1
    assert api.refused("GET", "/api/schemas/difference", subject=name, old=1, new=7)[0] == 404


def test_texts_are_laid_out_and_never_changed(registry: Registry, api: ApiClient) -> None:
    name = registry.name("json")
    registry.register(name, JSON, "JSON")
    schema = api.get("/api/schemas/version", subject=name)["schema"]
    assert json.loads(schema["text"]) == json.loads(JSON)
    assert '"maximum": 1.10' in schema["pretty"] or '"maximum": 1.1' in schema["pretty"]


def test_a_schema_is_checked_then_registered(registry: Registry, api: ApiClient) -> None:
    topic = registry.topic("grown")
    name = f"{topic}-value"
    registry.register(name, record("A", "x"))
    refused = api.post("/api/schemas/check", subject=name, text=record("A", "x", "y"))
    assert (refused["is_valid"], refused["is_compatible"]) == (True, False)
    assert (refused["compatibility"], refused["compared_versions"]) == ("BACKWARD", [1])
    if registry.tells_reasons:
        assert refused["messages"], "the registry says why"
    status, text = api.refused(
        "POST", "/api/schemas/register", subject=name, text=record("A", "x", "y"), preview=False
    )
    assert (status, "change the schema, or the level" in text) == (409, True)
    better = record("A", "x", "y?")
    checked = api.post("/api/schemas/register", subject=name, text=better)
    assert checked["id"] is None
    assert (checked["check"]["is_compatible"], checked["check"]["next_version"]) == (True, 2)
    done = api.post("/api/schemas/register", subject=name, text=better, preview=False)
    assert done["version"] == 2
    again = api.post("/api/schemas/check", subject=name, text=better)
    assert (again["registered_version"], again["registered_id"]) == (2, done["id"])
    assert api.get("/api/schemas/subject", name=name)["versions"] == [2, 1]
    new = api.post("/api/schemas/check", subject=registry.name("new"), text=better)
    assert (new["is_new_subject"], new["is_compatible"], new["next_version"]) == (True, True, 1)


def test_a_schema_that_cannot_be_read_is_not_valid(registry: Registry, api: ApiClient) -> None:
    name = registry.name("broken")
    registry.register(name, record("A", "x"))
    found = api.post("/api/schemas/check", subject=name, text='{"type": "recor')
    assert (found["is_valid"], found["is_compatible"]) == (False, False)
    assert found["messages"]
    assert api.refused("POST", "/api/schemas/check", subject=name, text=" ")[0] == 400


def test_levels_are_changed_after_a_preview(registry: Registry, api: ApiClient) -> None:
    name = registry.name("level")
    registry.register(name, record("A", "x"))
    path = "/api/schemas/compatibility"
    preview = api.post(path, subject=name, level="FULL")
    assert (preview["old"], preview["new"], preview["is_done"]) == ("BACKWARD", "FULL", False)
    assert api.get("/api/schemas/subject", name=name)["compatibility"] == "BACKWARD"
    assert api.post(path, subject=name, level="FULL", preview=False)["is_done"]
    assert api.get("/api/schemas/subject", name=name)["compatibility"] == "FULL"
    api.post(path, subject=name, level=None, preview=False)
    assert api.get("/api/schemas/subject", name=name)["compatibility"] == registry.no_level
    assert api.refused("POST", path, subject=None, level=None)[0] == 400
    assert api.refused("POST", path, subject=name, level="WHAT")[0] == 400


def test_versions_and_subjects_are_deleted_softly_and_for_good(
    registry: Registry, api: ApiClient
) -> None:
    topic = registry.topic("deleted")
    name = f"{topic}-value"
    registry.register(name, record("A", "x"))
    registry.register(name, record("A", "x", "y?"))
    api.soon("/api/topics", lambda page: topic in str(page), q=topic)
    plan = api.post("/api/schemas/delete", subject=name, version=1)["plan"]
    assert (plan["versions"], plan["topic"], plan["record_count"]) == ([1], topic, 0)
    done = api.post("/api/schemas/delete", subject=name, version=1, preview=False)
    assert done["deleted"] == [1]
    found = api.get("/api/schemas/subject", name=name)
    assert (found["versions"], found["deleted_versions"]) == ([2], [1])
    api.post("/api/schemas/delete", subject=name, preview=False)
    rows = api.get("/api/schemas", q=name, deleted=True)["rows"]
    assert [row["is_deleted"] for row in rows] == [True]
    assert api.get("/api/schemas", q=name)["total"] == 0
    plan = api.post("/api/schemas/delete", subject=name, permanent=True)["plan"]
    assert (plan["versions"], plan["softly_deleted"]) == ([1, 2], [1, 2])
    assert "cannot be undone" in plan["warnings"][-1]
    api.post("/api/schemas/delete", subject=name, permanent=True, preview=False)
    assert api.get("/api/schemas", q=name, deleted=True)["total"] == 0


def test_the_state_of_the_registry_is_told(registry: Registry, api: ApiClient) -> None:
    found = api.get("/api/schemas/registry")
    assert found["is_configured"]
    assert found["health"]["is_up"]
    assert {"AVRO", "JSON", "PROTOBUF"} <= set(found["types"])
    assert found["addresses"] == [registry.url.rstrip("/")]
    assert api.get("/api/session")["has_registry"]


# Ours alone: modes differ among registries


def test_a_mode_that_refuses_is_told_before(registry: Registry, api: ApiClient) -> None:
    name = registry.name("readonly")
    registry.register(name, record("A", "x"))
    if "apicurio" in registry.url or "/apis/" in registry.url:
        pytest.skip("Apicurio has no modes of subjects")
    assert api.post("/api/schemas/mode", subject=name, mode="READONLY", preview=False)["is_done"]
    found = api.post("/api/schemas/check", subject=name, text=record("A", "x", "y?"))
    assert found["is_refused_by_mode"] == "READONLY"
    status, text = api.refused(
        "POST", "/api/schemas/register", subject=name, text=record("A", "x", "y?"), preview=False
    )
    assert (status, "the schema registry refuses this" in text) == (409, True)


# Registries that do not answer


@pytest.fixture
def deaf_registry() -> Iterator[str]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        for each in kept:
            each.close()


def test_a_registry_that_hangs_holds_nothing_up(registry: Registry, deaf_registry: str) -> None:
    options = {"http.read.timeout.ms": 300}
    with console_of(
        registry.servers, registry_url=deaf_registry, registry_options=options
    ) as client:
        assert client.refused("GET", "/api/schemas")[0] == 503
        began = time.monotonic()
        status, text = client.refused("GET", "/api/schemas")
        # It is not asked again at once.
        assert time.monotonic() - began < 0.3
        assert (status, "does not answer" in text, "is asked again in" in text) == (503, True, True)
        found = client.get("/api/schemas/registry")
        assert (found["health"]["is_up"], found["problems"] != []) == (False, True)
        client.get("/api/session")


def test_without_a_registry_the_console_says_how_to_get_one(registry: Registry) -> None:
    with console_of(registry.servers) as client:
        assert not client.get("/api/schemas/registry")["is_configured"]
        status, text = client.refused("GET", "/api/schemas")
        assert (status, "--registry URL" in text) == (404, True)


def test_a_read_only_console_checks_and_changes_nothing(registry: Registry) -> None:
    name = registry.name("untouched")
    registry.register(name, record("A", "x"))
    with console_of(registry.servers, registry_url=registry.url, is_read_only=True) as client:
        assert client.post("/api/schemas/check", subject=name, text=record("A", "x", "y?"))[
            "is_compatible"
        ]
        for path, body in (
            ("register", {"text": record("A", "x", "y?")}),
            ("delete", {}),
            ("compatibility", {"level": "NONE"}),
            ("mode", {"mode": "READONLY"}),
        ):
            status, _ = client.refused(
                "POST", f"/api/schemas/{path}", subject=name, preview=False, **body
            )
            assert status == 403, path


# Users


def test_subjects_of_topics_that_a_user_may_not_see_are_hidden() -> None:
    asyncio.run(_hidden_subjects())


async def _hidden_subjects() -> None:
    with (
        ottla.Broker(security="scram") as broker,
        ottla.SchemaRegistry(broker.client_options()) as registry,
    ):
        with ottla.Admin(broker.client_options()) as admin:
            admin.create_topics([NewTopic("open"), NewTopic("secret"), NewTopic("secret-shown")])
        names = [
            "open-value",
            "secret-value",
            "secret-com.acme.X",
            "secret-shown-value",
            "com.acme.X",
        ]
        ids = {}
        with httpx.Client(base_url=registry.url, timeout=30) as http:
            for number, name in enumerate(names):
                body = {"schema": record(f"R{number}", "x")}
                ids[name] = http.post(f"/subjects/{name}/versions", json=body).json()["id"]
        viewer, admin_user = user(broker, "vera", *VIEWER), user(broker, "ada", *ADMIN)
        for who in ("vera", "ada"):
            for topic in ("open", "secret-shown"):
                allow(broker, who, AclResourceType.TOPIC, topic, AclOperation.DESCRIBE)
        async with running_console(
            broker.client_options(),
            registry_url=registry.url,
            login_options=broker.client_options(),
        ) as console:
            async with console.browser() as browser:
                await log_in(browser, **viewer)
                deadline = time.monotonic() + SOON_SECONDS
                while (answer := await browser.get("/api/schemas")).status_code == 503:
                    in_time(deadline, "the console does not see its cluster")
                    await asyncio.sleep(0.05)
                page = answer.json()
                seen = [row["name"] for row in page["rows"]]
                assert seen == ["com.acme.X", "open-value", "secret-shown-value"]
                for name in names:
                    hidden = name not in seen
                    for path, query in (
                        ("subject", {"name": name}),
                        ("version", {"subject": name}),
                        ("id", {"id": ids[name]}),
                    ):
                        answer = await browser.get(f"/api/schemas/{path}", params=query)
                        assert (answer.status_code == 404) == hidden, (path, name)
                for preview, status in ((True, 200), (False, 403)):
                    answer = await browser.post(
                        "/api/schemas/compatibility",
                        json={"subject": "open-value", "level": "NONE", "preview": preview},
                    )
                    assert answer.status_code == status
            async with console.browser() as browser:
                await log_in(browser, **admin_user)
                for name, status in (("open-value", 200), ("secret-value", 404)):
                    answer = await browser.post(
                        "/api/schemas/delete", json={"subject": name, "preview": False}
                    )
                    assert answer.status_code == status, answer.text


def test_the_topic_of_a_subject_is_the_longest_that_fits() -> None:
    topics = {"a", "a-b", "c.d"}
    assert topic_of_subject("a-b-value", topics) == ("a-b", "value")
    assert topic_of_subject("a-b", topics) == ("a", None)
    assert topic_of_subject("c.d-key", topics) == ("c.d", "key")
    assert topic_of_subject("c.d.E", topics) is None
    assert topic_of_subject("-value", topics) is None


def test_a_difference_has_every_line_of_both_texts() -> None:
    found = difference_of("a\nb\nc", "a\nx\nc\nd")
    assert [(each.kind, each.text) for each in found.lines] == [
        ("same", "a"),
        ("removed", "b"),
        ("added", "x"),
        ("same", "c"),
        ("added", "d"),
    ]
    assert (found.added_count, found.removed_count, found.is_cut) == (2, 1, False)
