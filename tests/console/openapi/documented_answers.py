"""Checks answers of the API against what its OpenAPI document says of them."""

from __future__ import annotations

import copy
import re
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ottla.console.api.all_routes import ALL_ROUTES
from ottla.console.openapi.document import openapi_document

_VARIABLE = re.compile(r"\{\w+\}")


@cache
def document() -> dict[str, Any]:
    """What the console says of its API."""
    return openapi_document(ALL_ROUTES)


def check_answer(method: str, path: str, answer: Any) -> None:
    """Fails where an answer of JSON has fields that are not described, lacks one, or has other values."""
    template = _template_of(path)
    if template is None or method.lower() not in document()["paths"][template]:
        return
    error = best_match(_validator(method.lower(), template).iter_errors(answer))
    assert error is None, f"{method} {path}: {error.json_path}: {error.message}"[:2000]


@cache
def _validator(method: str, template: str) -> Draft202012Validator:
    found = document()["paths"][template][method]["responses"]
    content = found["200"]["content"] if "200" in found else {}
    assert "application/json" in content, f"{method} {template} answers no JSON: {found}"
    schema = content["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": {"schemas": _closed_schemas()}})


@cache
def _closed_schemas() -> dict[str, Any]:
    """The schemas, with no fields but those that are described."""
    schemas: dict[str, Any] = copy.deepcopy(document()["components"]["schemas"])
    for schema in schemas.values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    return schemas


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    # What is written out goes before what is variable.
    templates = sorted(document()["paths"], key=lambda path: path.count("{"))
    return [(re.compile(_VARIABLE.sub("[^/]+", path)), path) for path in templates]


def _template_of(path: str) -> str | None:
    path = path.partition("?")[0]
    return next((found for pattern, found in _patterns() if pattern.fullmatch(path)), None)
