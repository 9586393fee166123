"""What requests of the API say: parameters, bodies and names, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from ottla.schemas.registry import errors
from ottla.schemas.registry.decisions import LATEST, MAX_ID
from ottla.schemas.registry.model import (
    DEFAULT_TYPE,
    CompatibilityLevel,
    Mode,
    Reference,
    SubjectConfig,
)
from ottla.schemas.registry.service import MAX_REFERENCES, GivenSchema

T = TypeVar("T")

# A record with the schema has to fit into a batch of Kafka's default size.
MAX_SCHEMA_BYTES: Final = 900_000
MAX_SUBJECT_CHARS: Final = 1_000
MAX_METADATA_BYTES: Final = 50_000

_SCHEMA_FIELDS: Final = frozenset(
    ("schema", "schemaType", "references", "metadata", "ruleSet", "version", "id")
)
# Confluent's API knows these too; here they would have no effect.
_UNSUPPORTED: Final = frozenset(
    (
        "schemaTagsToAdd",
        "schemaTagsToRemove",
        "propagateSchemaTags",
        "alias",
        "aliasForDeks",
        "validateFields",
        "validateNewSchemas",
        "validateRules",
        "compatibilityPolicy",
        "defaultMetadata",
        "overrideMetadata",
        "defaultRuleSet",
        "overrideRuleSet",
    )
)
_CONFIG_FIELDS: Final = frozenset(("compatibility", "normalize", "compatibilityGroup"))


class Parameters:
    """The query of a request."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str, default: str = "") -> str:
        """A parameter as it is."""
        return self._values.get(name, default)

    def flag(self, name: str) -> bool:
        """Whether a parameter is true; as in Java, anything else than true is false."""
        return self._values.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """A parameter that is a number."""
        text = self._values.get(name)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise errors.RegistryError(404, 404, "HTTP 404 Not Found") from None

    def page(self, items: Sequence[T]) -> list[T]:
        """The part of a list that offset and limit choose; a negative limit is none."""
        start = max(self.number("offset", 0), 0)
        limit = self.number("limit", -1)
        return list(items[start:] if limit < 0 else items[start : start + limit])


def read_json(body: bytes) -> dict[str, Any]:
    """The object in a body."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise errors.RegistryError(400, 400, f"The body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise errors.RegistryError(400, 400, "The body is not a JSON object")
    return value


def check_subject(subject: str) -> str:
    """A subject's name that a schema or a setting may have."""
    if not subject or len(subject) > MAX_SUBJECT_CHARS:
        raise errors.invalid_subject(subject[:50], f"it has 1 to {MAX_SUBJECT_CHARS} characters")
    if subject.startswith((":.", ":*:")):
        raise errors.invalid_subject(subject, "this registry has no contexts")
    if subject in ("__GLOBAL", "__EMPTY") or any(ord(char) < 32 for char in subject):
        raise errors.invalid_subject(subject, "the name is reserved or has control characters")
    return subject


def version_number(text: str) -> int:
    """A version, or LATEST."""
    if text == "latest":
        return LATEST
    try:
        number = int(text)
    except ValueError:
        raise errors.invalid_version(text) from None
    if number != LATEST and not 1 <= number <= MAX_ID:
        raise errors.invalid_version(text)
    return number


def schema_id(text: str) -> int:
    """The id in a path."""
    if not (text.isascii() and text.isdigit()) or int(text[:11]) > MAX_ID:
        raise errors.RegistryError(404, 404, "HTTP 404 Not Found")
    return int(text)


def given_schema(body: bytes) -> GivenSchema:
    """The schema of a registration, a look-up or a comparison."""
    fields = read_json(body)
    _check_fields(fields, _SCHEMA_FIELDS)
    text = fields.get("schema")
    if not isinstance(text, str) or not text.strip():
        raise errors.RefusedSchemaError("Empty schema")
    if len(text.encode(errors="replace")) > MAX_SCHEMA_BYTES:
        raise errors.schema_too_large()
    return GivenSchema(
        _text_or(fields, "schemaType", DEFAULT_TYPE).upper(),
        text,
        _references(fields.get("references")),
        _object(fields, "metadata"),
        _object(fields, "ruleSet"),
        _optional_number(fields, "id", 0),
        _optional_number(fields, "version", 1),
    )


def _check_fields(fields: Mapping[str, Any], known: frozenset[str]) -> None:
    for name, value in fields.items():
        if name in known:
            continue
        if name in _UNSUPPORTED:
            if value:
                raise errors.bad_request(f"{name} is not supported by this registry: leave it out")
            continue
        raise errors.bad_request(f"Unrecognized field: {name}")


def _text_or(fields: Mapping[str, Any], name: str, default: str) -> str:
    value = fields.get(name) or default
    if not isinstance(value, str):
        raise errors.bad_request(f"{name} is text, not {value!r}")
    return value


def _optional_number(fields: Mapping[str, Any], name: str, least: int) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value > MAX_ID:
        raise errors.bad_request(f"{name} is a number up to 2^31-1, not {value!r}")
    # Clients send -1 or 0 for none.
    return value if value >= least else None


def _object(fields: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise errors.bad_request(f"{name} is an object, not {value!r}")
    if len(json.dumps(value)) > MAX_METADATA_BYTES:
        raise errors.bad_request(f"{name} has more than {MAX_METADATA_BYTES} bytes")
    return value


def _references(value: Any) -> tuple[Reference, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise errors.bad_request("references is a list")
    if len(value) > MAX_REFERENCES:
        raise errors.RefusedSchemaError(f"A schema has at most {MAX_REFERENCES} references")
    found = []
    for each in value:
        match each:
            case {"name": str() as name, "subject": str() as subject, "version": int() as version}:
                found.append(Reference(name, subject, version))
            case _:
                raise errors.bad_request(
                    "a reference has a name, a subject and a version, as in "
                    '{"name": "…", "subject": "…", "version": 1}'
                )
    return tuple(found)


def given_config(body: bytes) -> SubjectConfig:
    """What a request changes in a configuration."""
    fields = read_json(body)
    if "compatibilityLevel" in fields and "compatibility" not in fields:
        fields["compatibility"] = fields.pop("compatibilityLevel")
    _check_fields(fields, _CONFIG_FIELDS)
    level = fields.get("compatibility")
    if level is not None:
        try:
            level = CompatibilityLevel(str(level).upper())
        except ValueError:
            raise errors.invalid_level() from None
    normalize = fields.get("normalize")
    if normalize is not None and not isinstance(normalize, bool):
        raise errors.bad_request(f"normalize is true or false, not {normalize!r}")
    group = fields.get("compatibilityGroup")
    if group is not None and not isinstance(group, str):
        raise errors.bad_request(f"compatibilityGroup is text, not {group!r}")
    return SubjectConfig(level, normalize, group)


def given_mode(body: bytes) -> Mode:
    """The mode of a request."""
    fields = read_json(body)
    _check_fields(fields, frozenset(("mode",)))
    try:
        return Mode(str(fields.get("mode")).upper())
    except ValueError:
        raise errors.invalid_mode() from None
