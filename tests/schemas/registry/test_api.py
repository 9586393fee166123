"""The REST API over HTTP, on the embedded broker."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from typing import Any

import httpx
import pytest

import ottla

V1 = "application/vnd.schemaregistry.v1+json"


@pytest.fixture
def subject() -> str:
    return f"s-{uuid.uuid4().hex[:10]}"


def record(name: str, *fields: str) -> dict[str, Any]:
    made = [
        {"name": each.rstrip("?"), "type": "int", **({"default": 0} if "?" in each else {})}
        for each in fields
    ]
    return {"schema": json.dumps({"type": "record", "name": name, "fields": made})}


def code(answer: httpx.Response) -> tuple[int, int]:
    return answer.status_code, answer.json()["error_code"]


def test_a_schema_is_registered_found_and_compared(http: httpx.Client, subject: str) -> None:
    name = f"R{uuid.uuid4().hex}"
    answer = http.post(f"/subjects/{subject}/versions", json=record(name, "a"))
    assert answer.headers["content-type"] == V1
    schema_id = answer.json()["id"]
    stored = http.get(f"/schemas/ids/{schema_id}").json()
    text = f'{{"type":"record","name":"{name}","fields":[{{"name":"a","type":"int"}}]}}'
    assert stored == {"schema": text}
    assert http.get(f"/schemas/ids/{schema_id}/schema").text == text
    version = {"subject": subject, "version": 1, "id": schema_id, "schema": text}
    assert http.get(f"/subjects/{subject}/versions/latest").json() == version
    assert http.post(f"/subjects/{subject}", json=record(name, "a")).json() == version
    compared = http.post(
        f"/compatibility/subjects/{subject}/versions/latest?verbose=true",
        json=record(name, "a", "b"),
    ).json()
    assert compared["is_compatible"] is False
    assert (
        "The field 'b' at path '/fields/1' in the new schema has no default"
        in compared["messages"][0]
    )
    refused = http.post(f"/subjects/{subject}/versions", json=record(name, "a", "b"))
    assert code(refused) == (409, 40901)
    assert (
        http.post(f"/subjects/{subject}/versions", json=record(name, "a", "b?")).status_code == 200
    )
    assert http.get(f"/subjects/{subject}/versions").json() == [1, 2]


def test_lists_have_filters_and_pages(fresh: httpx.Client) -> None:
    for name in ("a1", "a2", "b1"):
        fresh.post(f"/subjects/{name}/versions", json=record("A", "x"))
    fresh.post("/subjects/a1/versions", json=record("A", "x", "y?"))
    fresh.delete("/subjects/a2")
    fresh.delete("/subjects/a1/versions/1")
    assert fresh.get("/subjects").json() == ["a1", "b1"]
    assert fresh.get("/subjects?deleted=true").json() == ["a1", "a2", "b1"]
    assert fresh.get("/subjects?deletedOnly=true").json() == ["a2"]
    assert fresh.get("/subjects?subjectPrefix=a&deleted=true").json() == ["a1", "a2"]
    assert fresh.get("/subjects?deleted=true&offset=1&limit=1").json() == ["a2"]
    assert fresh.get("/subjects/a1/versions").json() == [2]
    assert fresh.get("/subjects/a1/versions?deleted=true").json() == [1, 2]
    assert fresh.get("/subjects/a1/versions?deletedOnly=true").json() == [1]
    assert fresh.get("/subjects/a1/versions?deletedAsNegative=true").json() == [-1, 2]
    assert fresh.get("/schemas/ids/1/versions").json() == [{"subject": "b1", "version": 1}]
    assert fresh.get("/schemas/ids/1/subjects?deleted=true").json() == ["a1", "a2", "b1"]
    assert fresh.get("/schemas/ids/1?fetchMaxId=true").json()["maxId"] == 2
    assert [each["subject"] for each in fresh.get("/schemas?latestOnly=true").json()] == [
        "a1",
        "b1",
    ]
    assert code(fresh.get("/subjects/a1/versions/1")) == (404, 40402)
    assert fresh.get("/subjects/a1/versions/1?deleted=true").json()["deleted"] is True


def test_configuration(fresh: httpx.Client) -> None:
    assert fresh.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert code(fresh.get("/config/a")) == (404, 40408)
    assert fresh.put("/config/a", json={"compatibility": "full"}).json() == {
        "compatibility": "FULL"
    }
    assert fresh.put("/config", json={"normalize": True}).json() == {"normalize": True}
    assert fresh.get("/config/a").json() == {"compatibilityLevel": "FULL"}
    assert fresh.get("/config/a?defaultToGlobal=true").json() == {
        "compatibilityLevel": "FULL",
        "normalize": True,
    }
    assert code(fresh.put("/config/a", json={"compatibility": "SOME"})) == (422, 42203)
    assert code(fresh.put("/config/a", json={"alias": "b"})) == (422, 422)
    assert code(fresh.put("/config/a", json={"colour": "b"})) == (422, 422)
    assert fresh.delete("/config/a").json() == {"compatibilityLevel": "FULL"}
    assert code(fresh.delete("/config/a")) == (404, 40401)


def test_normalized_schemas_differ_in_nothing_but_order(fresh: httpx.Client) -> None:
    one = {"schema": '{"type": "object", "title": "T"}', "schemaType": "JSON"}
    other = {"schema": '{"title": "T", "type": "object"}', "schemaType": "JSON"}
    assert fresh.post("/subjects/a/versions?normalize=true", json=one).json() == {"id": 1}
    assert fresh.post("/subjects/a/versions?normalize=true", json=other).json() == {"id": 1}
    assert fresh.post("/subjects/a/versions", json=one).json() == {"id": 2}
    fresh.put("/config", json={"normalize": True})
    assert fresh.post("/subjects/b/versions", json=one).json() == {"id": 1}


def test_modes(fresh: httpx.Client) -> None:
    assert fresh.get("/mode").json() == {"mode": "READWRITE"}
    assert code(fresh.get("/mode/a")) == (404, 40409)
    assert fresh.get("/mode/a?defaultToGlobal=true").json() == {"mode": "READWRITE"}
    assert fresh.put("/mode/a", json={"mode": "READONLY"}).json() == {"mode": "READONLY"}
    assert code(fresh.post("/subjects/a/versions", json=record("A", "x"))) == (422, 42205)
    assert code(fresh.put("/mode/a", json={"mode": "WHAT"})) == (422, 42204)
    assert fresh.delete("/mode/a").json() == {"mode": "READONLY"}
    assert fresh.put("/mode/a", json={"mode": "IMPORT"}).status_code == 200
    imported = {**record("A", "x"), "id": 40, "version": 7}
    assert fresh.post("/subjects/a/versions", json=imported).json() == {"id": 40}
    assert fresh.get("/subjects/a/versions").json() == [7]
    assert fresh.post("/subjects/b/versions", json=record("B", "x")).json() == {"id": 41}
    assert code(fresh.put("/mode", json={"mode": "IMPORT"})) == (422, 42205)
    assert fresh.put("/mode?force=true", json={"mode": "IMPORT"}).status_code == 200


def test_references(http: httpx.Client, subject: str) -> None:
    name = f"Item{uuid.uuid4().hex}"
    http.post(f"/subjects/{subject}-i/versions", json=record(name, "n"))
    references = [{"name": name, "subject": f"{subject}-i", "version": 1}]
    order = {
        "schema": json.dumps({"type": "array", "items": name}),
        "references": references,
    }
    schema_id = http.post(f"/subjects/{subject}/versions", json=order).json()["id"]
    assert http.get(f"/subjects/{subject}-i/versions/1/referencedby").json() == [schema_id]
    assert http.get(f"/schemas/ids/{schema_id}").json()["references"] == references
    resolved = http.get(f"/schemas/ids/{schema_id}?format=resolved").json()["schema"]
    assert json.loads(resolved)["items"]["name"] == name
    missing = {**order, "references": [{**references[0], "version": 9}]}
    assert code(http.post(f"/subjects/{subject}/versions", json=missing)) == (422, 42201)


def test_metadata_and_rules_are_kept(http: httpx.Client, subject: str) -> None:
    schema = {**record("M", "x"), "metadata": {"properties": {"owner": subject}}}
    schema["ruleSet"] = {"domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL"}]}
    http.post(f"/subjects/{subject}/versions", json=schema)
    stored = http.get(f"/subjects/{subject}/versions/1").json()
    assert stored["metadata"] == schema["metadata"]
    assert stored["ruleSet"] == schema["ruleSet"]
    plain = http.post(f"/subjects/{subject}/versions", json=record("M", "x")).json()
    assert plain["id"] != stored["id"]


def test_subjects_may_have_any_characters(http: httpx.Client, subject: str) -> None:
    path = f"{subject}%2F%C3%A4 b"
    assert http.post(f"/subjects/{path}/versions", json=record("A", "x")).status_code == 200
    assert f"{subject}/ä b" in http.get("/subjects").json()
    assert http.get(f"/subjects/{path}/versions").json() == [1]
    assert http.delete(f"/subjects/{path}").json() == [1]
    assert code(http.post("/subjects/:.ctx:a/versions", json=record("A", "x"))) == (422, 42208)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{", (400, 400)),
        (b"[]", (400, 400)),
        (b"{}", (422, 42201)),
        (b'{"schema": "{"}', (422, 42201)),
        (b'{"schema": "{}", "schemaType": "XML"}', (422, 42201)),
        (b'{"schema": "\\"int\\"", "colour": 1}', (422, 422)),
        (b'{"schema": "\\"int\\"", "references": [1]}', (422, 422)),
        (
            b'{"schema": "{\\"type\\":\\"enum\\",\\"name\\":\\"E\\",\\"symbols\\":[],\\"doc\\":\\"\\\\ud800\\"}"}',
            (422, 42201),
        ),
        (b'{"schema": "' + b"[" * 100_000 + b'"}', (422, 42201)),
        (b'{"schema": "' + b'{\\"a\\":' * 5_000 + b'"}', (422, 42201)),
        (b'{"schema": ' + b"[" * 100_000, (400, 400)),
        (b'{"schema": "' + b" " * 950_000 + b'\\"int\\""}', (422, 42209)),
        (b'{"schema": "' + b" " * 5_000_000 + b'"}', (422, 42209)),
    ],
    ids=range(13),
)
def test_bad_bodies_are_refused(
    http: httpx.Client, subject: str, body: bytes, expected: tuple[int, int]
) -> None:
    headers = {"content-type": V1}
    answer = http.post(f"/subjects/{subject}/versions", content=body, headers=headers)
    assert code(answer) == expected


def test_paths_methods_and_types_that_do_not_exist(http: httpx.Client, subject: str) -> None:
    assert code(http.get("/nothing")) == (404, 404)
    assert code(http.get("/schemas/ids/abc")) == (404, 404)
    assert code(http.put("/subjects", json={})) == (405, 405)
    assert code(http.get("/subjects/a/versions/abc")) == (422, 42202)
    assert code(http.get("/subjects/a/versions/0")) == (422, 42202)
    text = {"content-type": "text/plain"}
    answer = http.post(f"/subjects/{subject}/versions", content=b"x", headers=text)
    assert code(answer) == (415, 415)


def test_the_server_tells_what_it_is(http: httpx.Client) -> None:
    assert http.get("/").json() == {}
    assert http.get("/contexts").json() == ["."]
    assert http.get("/schemas/types").json() == ["JSON", "PROTOBUF", "AVRO"]
    clusters = http.get("/v1/metadata/id").json()["scope"]["clusters"]
    assert clusters["schema-registry-cluster"] == "schema-registry"
    assert http.get("/v1/metadata/version").json()["version"].startswith("ottla-")


def test_hostile_schemas_do_not_hold_up_others(http: httpx.Client, subject: str) -> None:
    """Comparisons that would take for ever are refused within seconds, and reads go on."""
    # Unions of records that contain each other: every pair of branches leads to all others.
    names = [f"N{number}" for number in range(40)]
    types: list[Any] = []
    for name in names:
        fields = [{"name": f"f{each}", "type": ["null", "N0"]} for each in range(10)]
        types.append({"type": "record", "name": name, "fields": fields if types else []})
    big = {"schema": json.dumps(types)}
    assert http.post(f"/subjects/{subject}/versions", json=big).status_code == 200
    parts = [{"properties": {f"p{a}": {"$ref": "#"}}} for a in range(60)]
    deep = {"schema": json.dumps({"anyOf": parts}), "schemaType": "JSON"}
    other = {"schema": json.dumps({"anyOf": parts, "title": "T"}), "schemaType": "JSON"}
    assert http.post(f"/subjects/{subject}-j/versions", json=deep).status_code == 200
    answer = http.post(f"/subjects/{subject}-j/versions", json=other)
    assert answer.status_code in (200, 409, 422)
    assert answer.elapsed.total_seconds() < 20


def test_a_registry_says_what_is_wrong_with_its_options(registry_broker: ottla.Broker) -> None:
    servers = registry_broker.bootstrap_servers
    with pytest.raises(ottla.ConfigError, match="bootstrap"):
        ottla.SchemaRegistry()
    with pytest.raises(ottla.ConfigError, match="acks"):
        ottla.SchemaRegistry({"bootstrap.servers": servers, "acks": "all"})
    with pytest.raises(ottla.ConfigError, match="HOST:PORT"):
        ottla.SchemaRegistry(bootstrap_servers=servers, listen="8081")
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([ottla.admin.NewTopic("plain", 1), ottla.admin.NewTopic("wide", 2)])
    with pytest.raises(ottla.ConfigError, match="set it to compact"):
        ottla.SchemaRegistry(bootstrap_servers=servers, topic="plain").start()
    with pytest.raises(ottla.ConfigError, match="has 2 partitions"):
        ottla.SchemaRegistry(bootstrap_servers=servers, topic="wide").start()


def test_without_the_extra_a_sentence_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['uvicorn'] = None; import ottla;"
        "ottla.SchemaRegistry(bootstrap_servers='127.0.0.1:1')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "ConfigError" in done.stderr
    assert "pip install 'ottla[schemas]'" in done.stderr


def test_a_registry_that_starts_again_knows_everything(registry_broker: ottla.Broker) -> None:
    options = {"bootstrap.servers": registry_broker.bootstrap_servers}
    for number in range(3):
        with (
            ottla.SchemaRegistry(options, topic="_schemas-again", group="again") as registry,
            httpx.Client(base_url=registry.url, timeout=30) as client,
        ):
            assert client.get("/subjects").json() == [f"s{each}" for each in range(number)]
            answer = client.post(f"/subjects/s{number}/versions", json=record(f"R{number}", "x"))
            assert answer.json() == {"id": number + 1}
