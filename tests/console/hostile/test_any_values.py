"""Every parameter of every request with values that nobody expects: the console refuses them, and never fails.

What can be asked is read from the OpenAPI document, so a new request is tried by itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
from tests.console.serving import serving
from tests.lasting import LASTING

import ottla
from ottla.admin import NewTopic

TOPIC: Final = "orders"
GROUP: Final = "billing"
FAILED: Final = "the console failed"
SECONDS: Final = 30
# Streams last: their first events are looked at, for so long.
STREAM_SECONDS: Final = 0.3
ANSWER_SECONDS: Final = 10
TEXTS: Final = (
    "",
    "../../etc/passwd",
    "<img src=x onerror=alert(1)>",
    "\0",
    "a\r\nx-forged: 1",
    "💥" * 300,
    "%",
    "*",
)
NUMBERS: Final = (0, -1, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**40)
NO_NUMBERS: Final = ("nan", "inf", "-inf", "1e400", "1_000", "\u0663", " 1", "", "9" * 4_096)
OTHERS: Final[tuple[Any, ...]] = (None, [], {}, [[]], "x", True, 1.5)
BODIES: Final = (b"", b"[", b"null", b"\xff", b'"\\ud800"', b"[" * 100_000, b"1" * 5_000)
GOOD: Final[dict[str, Any]] = {"topic": TOPIC, "id": GROUP, "partition": 0, "offset": 0}
# They last as long as the browser does, or begin and end sessions.
LEFT_OUT: Final = ("/api/live", "/api/login", "/api/logout")


class Document:
    """What the OpenAPI document says of a parameter or of the field of a body."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.paths: dict[str, dict[str, Any]] = found["paths"]
        self._schemas = found["components"]["schemas"]

    def kinds(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        """The schemas that a value may have, without references."""
        if "$ref" in schema:
            return self.kinds(self._schemas[schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return [each for some in schema["anyOf"] for each in self.kinds(some)]
        return [schema]

    def good(self, schema: dict[str, Any], name: str = "") -> Any:
        """A value that is taken."""
        kind = self.kinds(schema)[0]
        if "enum" in kind:
            return kind["enum"][0]
        match kind.get("type"):
            case "object":
                fields, needed = kind.get("properties", {}), kind.get("required", ())
                return {each: self.good(fields[each], each) for each in needed}
            case "array":
                return [self.good(kind["items"], name)]
            case "boolean":
                return True
            case "integer" | "number":
                return 0
        return GOOD.get(name, TOPIC)

    def hostile(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Values of its types that make no sense, and values of others."""
        yield from OTHERS
        for kind in self.kinds(schema):
            match kind.get("type"):
                case "string" if "enum" not in kind:
                    yield from TEXTS
                case "integer" | "number":
                    yield from NUMBERS
                case "array":
                    yield from ([each] for each in self.hostile(kind["items"]))
                    yield [self.good(kind["items"])] * 2_000
                case "object":
                    base = self.good(kind)
                    for name, each in kind.get("properties", {}).items():
                        for value in self.hostile(each):
                            yield {**base, name: value}


class Findings:
    """Requests whose answer is a failure of the console's, or takes long."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=SECONDS)
        self._http.headers["x-csrf-token"] = self._http.get("/api/session").json()["token"]
        self.document = Document(self._http.get("/api/openapi.json").json())
        self.count = 0
        self.found: list[str] = []

    def send(self, method: str, path: str, **given: Any) -> None:
        self.count += 1
        began = time.monotonic()
        text, is_stream = "", False
        try:
            with self._http.stream(method, path, timeout=STREAM_SECONDS, **given) as answer:
                is_stream = "event-stream" in answer.headers.get("content-type", "")
                text = str(answer.status_code)
                for some in answer.iter_text():
                    text += some
                    if len(text) > 2_000 or time.monotonic() - began > STREAM_SECONDS:
                        break
        except httpx.ReadTimeout:
            # Without a status, or in the middle of an answer: it is asked again and waited for.
            if not is_stream:
                text = self._in_the_end(method, path, given)
        except httpx.RemoteProtocolError as error:
            text = f"500 it broke off: {error}"
        if text.startswith("500") or FAILED in text:
            self.found.append(f"{method} {path[:200]} {str(given)[:300]}: {text[:300]}")
        elif not is_stream and time.monotonic() - began > ANSWER_SECONDS:
            self.found.append(f"{method} {path[:200]} {str(given)[:300]}: it took too long")

    def _in_the_end(self, method: str, path: str, given: dict[str, Any]) -> str:
        try:
            answer = self._http.request(method, path, **given)
        except httpx.RemoteProtocolError as error:
            return f"500 it broke off: {error}"
        return f"{answer.status_code}{answer.text[:2_000]}"

    def close(self) -> None:
        self._http.close()


@pytest.fixture(scope="module")
def findings() -> Iterator[Findings]:
    with (
        ottla.Broker(LASTING) as broker,
        ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ottla.SchemaRegistry(bootstrap_servers=broker.bootstrap_servers) as registry,
    ):
        admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
        with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send(TOPIC, b'{"n": 1}', key=b"k", partition=0).result(SECONDS)
        admin.alter_consumer_group_offsets(GROUP, {(TOPIC, 0): 0})
        with serving(broker.bootstrap_servers, registry_url=registry.url) as console:
            found = Findings(console.url)
            yield found
            found.close()


def requests_of(document: Document) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document.paths.items():
        if path not in LEFT_OUT:
            for method, operation in methods.items():
                yield method.upper(), path, operation


def filled(path: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    return path


@pytest.mark.long
def test_no_value_of_a_parameter_makes_the_console_fail(findings: Findings) -> None:
    document = findings.document
    for method, path, operation in requests_of(document):
        parameters = operation.get("parameters", [])
        places = {
            each["name"]: str(GOOD.get(each["name"], 1))
            for each in parameters
            if each["in"] == "path"
        }
        query = {
            each["name"]: document.good(each["schema"], each["name"])
            for each in parameters
            if each["in"] == "query" and each.get("required")
        }
        body = operation.get("requestBody")
        given: dict[str, Any] = {}
        if body is not None:
            given["json"] = document.good(body["content"]["application/json"]["schema"])
        for each in parameters:
            for value in (*TEXTS, *map(str, NUMBERS), *NO_NUMBERS):
                name = each["name"]
                if each["in"] == "path":
                    target = filled(path, {**places, name: value})
                    findings.send(method, target, params=query, **given)
                elif each["in"] == "query":
                    target = filled(path, places)
                    findings.send(method, target, params={**query, name: value}, **given)
    assert findings.count > 1_000
    assert not findings.found, "\n".join(findings.found)


@pytest.mark.long
def test_no_value_in_a_body_makes_the_console_fail(findings: Findings) -> None:
    """Only previews, so that nothing is changed."""
    document, before = findings.document, findings.count
    for method, path, operation in requests_of(document):
        if "requestBody" not in operation:
            continue
        target = filled(path, {"topic": TOPIC})
        (schema,) = document.kinds(
            operation["requestBody"]["content"]["application/json"]["schema"]
        )
        good = document.good(schema)
        preview = {"preview": True} if "preview" in schema["properties"] else {}
        for name, each in schema["properties"].items():
            for value in document.hostile(each):
                text = json.dumps({**good, **preview, name: value})
                if name != "preview":
                    headers = {"content-type": "application/json"}
                    findings.send(method, target, content=text.encode(), headers=headers)
        for data in BODIES:
            headers = {"content-type": "application/json"}
            findings.send(method, target, content=data, headers=headers)
    assert findings.count > before + 500
    assert not findings.found, "\n".join(findings.found)
