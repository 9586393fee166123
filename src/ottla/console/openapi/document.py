"""The OpenAPI document of a table of routes."""

from __future__ import annotations

import dataclasses
import re
import sys
import types
import typing
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, get_args, get_origin

from ottla.console.access.access import CSRF_HEADER
from ottla.console.access.roles import Role
from ottla.console.http.answers import EVENT_STREAM, JSON
from ottla.console.http.parameters import MAX_VALUE_CHARS
from ottla.console.http.routes import Download, Route
from ottla.console.openapi.field_texts import field_texts, in_one_line
from ottla.console.openapi.json_schemas import JsonSchemas, Schema, has_default, hints_of
from ottla.errors import ConfigError
from ottla.version import VERSION

OPENAPI: Final = "3.1.1"
_DESCRIPTION: Final = (
    "What the page of the console asks. Reads take and answer JSON; `/api/live` and the other streams are server-sent "
    "events. Where the console has logins, a session's cookie or a token says who asks; each change needs the token of "
    f"`GET /api/session` in the header `{CSRF_HEADER}`, but for requests with a bearer token."
)
_VARIABLE: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
_PROBLEM: Final = "Problem"
_ERRORS: Final = {
    HTTPStatus.BAD_REQUEST: "the request is not as it should be",
    HTTPStatus.UNAUTHORIZED: "nobody is logged in",
    HTTPStatus.FORBIDDEN: "the role or an ACL of the cluster does not allow it",
    HTTPStatus.NOT_FOUND: "what the path names is not there",
}


@dataclass(frozen=True)
class ProblemText:
    """Why a request was not answered."""

    error: str
    """A sentence."""
    advice: str | None
    """What to do about it, if anything is known."""


def openapi_document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document; ConfigError where an annotation has no schema."""
    schemas = JsonSchemas()
    problem = schemas.of_answer(ProblemText)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _VARIABLE.sub(r"{\1}", route.path)
        try:
            paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, schemas)
        except ConfigError as error:
            raise ConfigError(f"{route.method} {route.path}: {error}") from error
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "Ottla console",
            "version": VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in _tags(routes).items()],
        "paths": paths,
        "components": {
            "schemas": schemas.components(),
            "responses": {
                _PROBLEM: {"description": "A problem", "content": {JSON: {"schema": problem}}}
            },
            "securitySchemes": {
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "ottla-console",
                    "description": "The cookie that a login sets; its name also has the console's port.",
                },
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(route: Route, path: str, schemas: JsonSchemas) -> dict[str, Any]:
    needs_login = route.role is not Role.STRANGER
    operation: dict[str, Any] = {
        "operationId": _operation_id(route, path),
        "tags": [_tag(route)],
        "summary": route.summary,
        "description": _description(route),
        "x-role": route.role.title,
        "x-has-preview": route.is_preview is not None,
        "security": [{"session": []}, {"token": []}] if needs_login else [{}],
        "parameters": [*_parameters(route, schemas)],
        "responses": _responses(route, schemas),
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "description": f"At most {route.max_body_bytes} bytes.",
            "content": {JSON: {"schema": schemas.of_body(route.body)}},
        }
    return operation


def _operation_id(route: Route, path: str) -> str:
    words = re.findall(r"\w+", path.removeprefix("/api/"))
    return "_".join([route.method.lower(), *words])


def _description(route: Route) -> str:
    found = [in_one_line(route.handler.__doc__ or f"{route.summary}.")]
    if route.role > Role.VIEWER:
        found.append(f"Needs the role {route.role.title}.")
    if route.is_preview is not None:
        found.append("A preview, which changes nothing, may be asked by every viewer.")
    return " ".join(found)


# Tags are the modules of the API


def _tag(route: Route) -> str:
    _, _, rest = route.handler.__module__.partition(".console.api.")
    return rest.partition(".")[0] or route.handler.__module__


def _tags(routes: Sequence[Route]) -> dict[str, str]:
    modules = {_tag(route): sys.modules[route.handler.__module__] for route in routes}
    return {name: in_one_line(module.__doc__ or name) for name, module in modules.items()}


# Parameters


def _parameters(route: Route, schemas: JsonSchemas) -> Iterator[dict[str, Any]]:
    for name in _VARIABLE.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    if route.query is not None:
        yield from _query_parameters(route.query, schemas)
    if route.method != "GET" and route.role > Role.STRANGER:
        yield {
            "name": CSRF_HEADER,
            "in": "header",
            "required": False,
            "description": "The token of GET /api/session; not needed with a bearer token.",
            "schema": {"type": "string"},
        }


def _query_parameters(query: type, schemas: JsonSchemas) -> Iterator[dict[str, Any]]:
    hints, texts = hints_of(query), field_texts(query)
    for field in dataclasses.fields(query):
        schema = schemas.parameter(field, hints[field.name])
        if schema.get("type") == "string" and "enum" not in schema:
            schema["maxLength"] = MAX_VALUE_CHARS
        parameter: dict[str, Any] = {
            "name": field.name,
            "in": "query",
            "required": not has_default(field),
            "schema": schema,
        }
        if field.name in texts:
            parameter["description"] = texts[field.name]
        yield parameter


# Answers


def _responses(route: Route, schemas: JsonSchemas) -> dict[str, Any]:
    wanted = hints_of(route.handler).get("return", Any)
    kinds = get_args(wanted) if get_origin(wanted) in (typing.Union, types.UnionType) else (wanted,)
    content: dict[str, Any] = {}
    responses: dict[str, Any] = {}
    plain: list[Any] = []
    for kind in kinds:
        if kind is types.NoneType:
            responses["204"] = {"description": "Done."}
        elif kind is Download:
            content["*/*"] = {"schema": {"description": "A file."}}
        elif get_origin(kind) is AsyncIterator:
            content[EVENT_STREAM] = _stream(route, schemas)
        else:
            plain.append(kind)
    if plain:
        content[JSON] = {"schema": _any_of([schemas.of_answer(each) for each in plain])}
    if content:
        responses["200"] = {"description": "The answer.", "content": content}
    for status, text in _ERRORS.items():
        if _may_be(status, route):
            responses[str(status.value)] = _problem(text)
    responses["default"] = _problem("the cluster or the console could not answer")
    return dict(sorted(responses.items()))


def _any_of(found: Sequence[Schema]) -> Schema:
    return found[0] if len(found) == 1 else {"anyOf": list(found)}


def _stream(route: Route, schemas: JsonSchemas) -> dict[str, Any]:
    """A stream of events; OpenAPI has no words for what they carry."""
    events = {name: schemas.of_answer(each) for name, each in (route.events or {}).items()}
    return {
        "schema": {"type": "string", "description": "Server-sent events, whose data is JSON."},
        **({"x-events": events} if events else {}),
    }


def _may_be(status: HTTPStatus, route: Route) -> bool:
    match status:
        case HTTPStatus.BAD_REQUEST:
            return route.query is not None or route.body is not None
        case HTTPStatus.NOT_FOUND:
            return "{" in route.path
    return route.role > Role.STRANGER


def _problem(text: str) -> dict[str, Any]:
    return {"$ref": f"#/components/responses/{_PROBLEM}", "description": text}
