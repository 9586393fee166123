"""The same requests at this registry and at Apicurio's, a registry of other people with Confluent's API.

Where the two differ, FINDINGS.md says what Confluent's documents and source have: this registry follows these.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests import maven
from tests.waiting import in_time

# The newest release on Maven Central that runs with Java 17; later ones need Java 21.
APICURIO = "io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all"
START_SECONDS = 120
MEDIA_TYPE = {"content-type": "application/vnd.schemaregistry.v1+json"}


def record(name: str, *fields: str) -> dict[str, Any]:
    made = [
        {"name": each.rstrip("?"), "type": "int", **({"default": 0} if "?" in each else {})}
        for each in fields
    ]
    return {"schema": json.dumps({"type": "record", "name": name, "fields": made})}


PROTO = {
    "schema": 'syntax = "proto3";\n\nmessage M {\n  int32 a = 1;\n}\n',
    "schemaType": "PROTOBUF",
}
WIDER = {**PROTO, "schema": PROTO["schema"].replace("int32", "int64")}
JSON = {
    "schema": '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}',
    "schemaType": "JSON",
}
UNRESOLVED = {**record("U"), "references": [{"name": "n", "subject": "nope", "version": 1}]}

# Requests in their order, and whether the two answer alike.
REQUESTS: list[tuple[str, str, dict[str, Any] | None, bool]] = [
    ("GET", "/subjects", None, True),
    ("GET", "/schemas/types", None, True),
    ("GET", "/config", None, False),
    ("GET", "/mode", None, False),
    ("GET", "/subjects/nope/versions", None, True),
    ("GET", "/subjects/nope/versions/1", None, True),
    ("GET", "/schemas/ids/99", None, True),
    ("POST", "/subjects/a/versions", record("A", "x"), True),
    ("POST", "/subjects/a/versions", record("A", "x"), True),
    ("POST", "/subjects/a/versions", record("A", "x", "y?"), True),
    ("POST", "/subjects/a/versions", {"schema": "{"}, True),
    ("POST", "/subjects/a/versions", UNRESOLVED, True),
    ("PUT", "/config/a", {"compatibility": "BACKWARD"}, True),
    ("POST", "/subjects/a/versions", record("A", "x", "y?", "z"), False),
    ("POST", "/compatibility/subjects/a/versions/latest", record("A", "z"), True),
    ("POST", "/compatibility/subjects/a/versions/latest", record("A", "x", "z?"), True),
    ("POST", "/compatibility/subjects/a/versions/9", record("A", "x"), True),
    ("GET", "/subjects/a/versions", None, True),
    ("GET", "/subjects/a/versions/1", None, True),
    ("GET", "/subjects/a/versions/latest", None, True),
    ("GET", "/subjects/a/versions/9", None, True),
    ("GET", "/subjects/a/versions/abc", None, False),
    ("GET", "/subjects/a/versions/1/schema", None, True),
    ("POST", "/subjects/a", record("A", "x"), True),
    ("POST", "/subjects/a", record("A", "q"), True),
    ("POST", "/subjects/nope", record("A", "q"), True),
    ("GET", "/schemas/ids/1", None, True),
    ("GET", "/schemas/ids/1/versions", None, True),
    ("GET", "/schemas/ids/1/subjects", None, False),
    ("PUT", "/config/a", {"compatibility": "FULL"}, True),
    ("GET", "/config/a", None, True),
    ("PUT", "/config/a", {"compatibility": "WHAT"}, False),
    ("GET", "/config/none", None, False),
    ("DELETE", "/config/a", None, True),
    ("GET", "/config/a", None, False),
    ("POST", "/subjects/b/versions", record("A", "x"), True),
    ("DELETE", "/subjects/a/versions/1", None, True),
    ("GET", "/subjects/a/versions/1", None, True),
    ("GET", "/subjects/a/versions?deleted=true", None, True),
    ("DELETE", "/subjects/a/versions/1", None, False),
    ("DELETE", "/subjects/a/versions/1?permanent=true", None, True),
    ("DELETE", "/subjects/a/versions/2?permanent=true", None, False),
    ("DELETE", "/subjects/a", None, True),
    ("DELETE", "/subjects/a", None, True),
    ("GET", "/subjects", None, True),
    ("GET", "/subjects?deleted=true", None, True),
    ("DELETE", "/subjects/a?permanent=true", None, True),
    ("DELETE", "/subjects/nope", None, True),
    ("GET", "/subjects?deleted=true", None, True),
    ("POST", "/subjects/p/versions", PROTO, True),
    ("GET", "/subjects/p/versions/1", None, True),
    ("POST", "/subjects/j/versions", JSON, True),
    ("GET", "/subjects/j/versions/1", None, True),
    ("PUT", "/config/p", {"compatibility": "BACKWARD"}, True),
    ("POST", "/subjects/p/versions", WIDER, False),
]  # fmt: skip


@contextmanager
def running_apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apicurio's registry in memory; the address of its API like Confluent's."""
    tmp_path = tmp_path_factory.mktemp("apicurio")
    file = maven.archive("apicurio", APICURIO, tmp_path_factory.getbasetemp().parent)
    with tarfile.open(file) as packed:
        packed.extractall(tmp_path, filter="data")
    (jar,) = tmp_path.glob("*-runner.jar")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            ["java", "-Xmx512m", "-jar", str(jar)],
            env={**os.environ, "QUARKUS_HTTP_PORT": str(port), "QUARKUS_HTTP_HOST": "127.0.0.1"},
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
    try:
        base = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        with httpx.Client(base_url=base, timeout=30) as client:
            deadline = time.monotonic() + START_SECONDS
            while True:
                try:
                    if client.get("/subjects").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
                in_time(deadline, "Apicurio did not start")
                time.sleep(0.2)
        yield base
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with (
        running_apicurio(tmp_path_factory) as base,
        httpx.Client(base_url=base, timeout=30) as client,
    ):
        yield client


def plain(answer: httpx.Response, ids: dict[int, int]) -> Any:
    """An answer without what is a matter of taste: white space in schemas, empty lists, the words of errors.

    Ids are counted as they appear: Apicurio uses some up for schemas that it refuses.
    """
    try:
        value = answer.json()
    except ValueError:
        return answer.status_code, answer.text.split()
    if not isinstance(value, dict):
        return answer.status_code, value
    if "error_code" in value:
        return answer.status_code, value["error_code"]
    value = {name: each for name, each in value.items() if each not in ([], None)}
    if "id" in value:
        value["id"] = ids.setdefault(value["id"], len(ids))
    if "schema" in value:
        try:
            value["schema"] = json.loads(value["schema"])
        except ValueError:
            value["schema"] = value["schema"].split()
    return answer.status_code, value


@pytest.mark.campaign
def test_the_answers_are_those_of_apicurio(apicurio: httpx.Client, fresh: httpx.Client) -> None:
    # Apicurio compares nothing by default.
    fresh.put("/config", json={"compatibility": "NONE"})
    fresh.delete("/config")
    fresh.put("/config/b", json={"compatibility": "NONE"})
    wrong = []
    known: dict[httpx.Client, dict[int, int]] = {fresh: {}, apicurio: {}}
    for method, path, body, alike in REQUESTS:
        ours, theirs = (
            plain(each.request(method, path, json=body, headers=MEDIA_TYPE), ids)
            for each, ids in known.items()
        )
        if (ours == theirs) is not alike:
            wrong.append((method, path, ours, theirs))
    assert not wrong, "\n".join(map(str, wrong))
