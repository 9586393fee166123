"""The OpenAPI document: valid, whole, and what the server does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.console.openapi.documented_answers import check_answer, document
from tests.console.serving import serving

from ottla.app.declarations.json_conversion import dump_json, load_json
from ottla.console.access.roles import Role
from ottla.console.api.all_routes import ALL_ROUTES
from ottla.console.http.routes import Call, Download, Route, ServerEvent
from ottla.console.openapi.document import openapi_document
from ottla.errors import ConfigError


class Colour(StrEnum):
    """A colour."""

    RED = "red"


class Place(NamedTuple):
    """Where it is."""

    topic: str
    partition: int


@dataclass
class Leaf:
    """It has defaults."""

    name: str
    """What it is called."""
    size: int = 1


@dataclass
class Tree:
    places: list[Place]
    colour: Colour | None
    leaf: Leaf
    by_name: dict[str, tuple[int, ...]]
    parent: Tree | None = None


@dataclass
class Query:
    q: str
    sort: Literal["name", "size"] = "name"
    partitions: list[int] = field(default_factory=list)
    limit: int | None = None


def make_route(handler: Any, **given: Any) -> dict[str, Any]:
    """What the document says of a route with this handler."""
    route = Route("POST", "/api/trees/{name}", handler, "Trees", **given)
    found = openapi_document([route])
    OpenAPIV31SpecValidator(found).validate()
    return found


async def grow(call: Call[Query, Tree]) -> Tree | None:
    """Grows."""
    return call.body


def events(call: Call[None, None]) -> AsyncIterator[ServerEvent]:
    raise AssertionError


async def export(call: Call[None, None]) -> Download:
    raise AssertionError


def test_the_document_is_valid_and_has_every_route() -> None:
    OpenAPIV31SpecValidator(document()).validate()
    found = {
        (method.upper(), path) for path, item in document()["paths"].items() for method in item
    }
    assert found == {(route.method, route.path) for route in ALL_ROUTES}


def test_every_operation_says_who_may_use_it() -> None:
    for route in ALL_ROUTES:
        operation = document()["paths"][route.path][route.method.lower()]
        assert operation["x-role"] == route.role.title
        assert operation["description"], route.path
        is_open = operation["security"] == [{}]
        assert is_open == (route.role is Role.STRANGER), route.path


def test_the_console_serves_its_document() -> None:
    with serving("127.0.0.1:1") as console:
        answer = httpx.get(f"{console.url}/api/openapi.json", trust_env=False)
        assert answer.status_code == 200
        assert answer.json() == load_json(dump_json(document()))


def test_answers_have_all_fields_and_bodies_need_those_without_a_default() -> None:
    found = make_route(grow, query=Query, body=Tree)
    schemas = found["components"]["schemas"]
    assert schemas["Leaf"]["required"] == ["name", "size"]
    assert schemas["LeafInput"]["required"] == ["name"]
    assert schemas["LeafInput"]["properties"]["size"]["default"] == 1
    assert schemas["TreeInput"]["additionalProperties"] is False
    assert schemas["TreeInput"]["required"] == ["places", "colour", "leaf", "by_name"]
    assert "additionalProperties" not in schemas["Tree"]
    operation = found["paths"]["/api/trees/{name}"]["post"]
    assert sorted(operation["responses"]) == ["200", "204", "400", "401", "403", "404", "default"]


def test_schemas_are_those_of_what_is_written() -> None:
    schemas = make_route(grow, query=Query, body=Tree)["components"]["schemas"]
    tree = schemas["Tree"]["properties"]
    assert tree["places"]["items"] == {"$ref": "#/components/schemas/Place"}
    assert schemas["Place"]["prefixItems"] == [
        {"title": "topic", "type": "string"},
        {"title": "partition", "type": "integer"},
    ]
    assert schemas["Colour"] == {"type": "string", "enum": ["red"], "description": "A colour."}
    assert tree["colour"]["anyOf"] == [{"$ref": "#/components/schemas/Colour"}, {"type": "null"}]
    assert tree["by_name"]["additionalProperties"] == {
        "type": "array",
        "items": {"type": "integer"},
    }
    assert tree["parent"]["anyOf"][0] == {"$ref": "#/components/schemas/Tree"}


def test_parameters_are_those_of_the_query_and_the_path() -> None:
    operation = make_route(grow, query=Query, body=Tree)["paths"]["/api/trees/{name}"]["post"]
    found = {each["name"]: each for each in operation["parameters"]}
    assert list(found) == ["name", "q", "sort", "partitions", "limit", "x-csrf-token"]
    assert found["name"]["in"] == "path"
    assert found["q"]["required"]
    assert found["sort"]["schema"] == {
        "type": "string",
        "enum": ["name", "size"],
        "default": "name",
    }
    assert found["partitions"]["schema"] == {"type": "array", "items": {"type": "integer"}}
    assert found["limit"]["schema"] == {"type": "integer"}


def test_streams_and_downloads_are_no_json() -> None:
    stream = make_route(events, events={"leaf": Leaf})
    content = stream["paths"]["/api/trees/{name}"]["post"]["responses"]["200"]["content"]
    assert content["text/event-stream"]["x-events"] == {
        "leaf": {"$ref": "#/components/schemas/Leaf"}
    }
    download = make_route(export)["paths"]["/api/trees/{name}"]["post"]["responses"]["200"]
    assert list(download["content"]) == ["*/*"]


def test_texts_below_fields_are_descriptions() -> None:
    route = next(route for route in ALL_ROUTES if route.path == "/api/session")
    schema = openapi_document([route])["components"]["schemas"]["Session"]["properties"]
    assert "X-CSRF-Token" in schema["token"]["description"]


def test_an_annotation_without_a_schema_is_refused() -> None:
    async def odd(call: Call[None, None]) -> complex:
        raise AssertionError

    with pytest.raises(ConfigError, match=r"POST /api/trees/\{name\}: complex has no schema"):
        make_route(odd)


def test_an_answer_that_is_not_as_described_is_found() -> None:
    answer = {"user": "ada", "unknown": 1}
    with pytest.raises(AssertionError, match="GET /api/session"):
        check_answer("GET", "/api/session", answer)
