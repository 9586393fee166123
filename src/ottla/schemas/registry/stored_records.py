"""The records of the `_schemas` topic, in the formats of Confluent's registry: keys and values are JSON.

A record that this module does not know (a context, an association, a key type of a later release) is skipped on reading
and left in the topic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ottla.schemas.registry.model import (
    DEFAULT_TYPE,
    CompatibilityLevel,
    Mode,
    Reference,
    SchemaContent,
    StoredVersion,
    SubjectConfig,
    SubjectVersion,
)


class SchemaStored(NamedTuple):
    """A version exists, or is soft deleted."""

    version: StoredVersion


class SchemaRemoved(NamedTuple):
    """A version was deleted for good."""

    place: SubjectVersion


class SubjectDeleted(NamedTuple):
    """The versions of a subject up to this one are soft deleted."""

    subject: str
    version: int


class SubjectCleared(NamedTuple):
    """Nothing of a subject, or of all, is left; written before a change to IMPORT."""

    subject: str | None


class ConfigSet(NamedTuple):
    """The configuration of a subject, or of all."""

    subject: str | None
    config: SubjectConfig | None


class ModeSet(NamedTuple):
    """The mode of a subject, or of all."""

    subject: str | None
    mode: Mode | None


class HighestId(NamedTuple):
    """No id up to this one may be given again, although compaction may drop the schema that had it.

    It is the value of a NOOP record, whose value Confluent's registry does not read.
    """

    schema_id: int


StoredRecord: TypeAlias = (
    SchemaStored | SchemaRemoved | SubjectDeleted | SubjectCleared | ConfigSet | ModeSet | HighestId
)


class EncodedRecord(NamedTuple):
    """Key and value as the topic has them."""

    key: bytes
    value: bytes | None


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _key(keytype: str, magic: int, **fields: Any) -> bytes:
    # Compaction compares bytes: the order of the fields is that of Confluent's registry.
    present = {name: value for name, value in fields.items() if value is not None}
    return _json({"keytype": keytype, **present, "magic": magic})


def encode(record: StoredRecord) -> EncodedRecord:
    """The bytes of a record."""
    match record:
        case SchemaStored(version):
            return EncodedRecord(_schema_key(version.place), _json(_schema_value(version)))
        case SchemaRemoved(place):
            return EncodedRecord(_schema_key(place), None)
        case SubjectDeleted(subject, number):
            key = _key("DELETE_SUBJECT", 0, subject=subject)
            return EncodedRecord(key, _json({"subject": subject, "version": number}))
        case SubjectCleared(name):
            key = _key("CLEAR_SUBJECT", 0, subject=name)
            return EncodedRecord(key, _json({} if name is None else {"subject": name}))
        case ConfigSet(name, config):
            key = _key("CONFIG", 0, subject=name)
            value = None if config is None else _json(_with_subject(name, config.to_json()))
            return EncodedRecord(key, value)
        case ModeSet(name, mode):
            key = _key("MODE", 0, subject=name)
            value = None if mode is None else _json(_with_subject(name, {"mode": mode.value}))
            return EncodedRecord(key, value)
        case HighestId(schema_id):
            return EncodedRecord(_key("NOOP", 0), _json({"maxId": schema_id}))


def _schema_key(place: SubjectVersion) -> bytes:
    return _key("SCHEMA", 1, subject=place.subject, version=place.version)


def _schema_value(version: StoredVersion) -> dict[str, Any]:
    content = version.content
    value: dict[str, Any] = {
        "subject": version.subject,
        "version": version.version,
        "id": version.schema_id,
    }
    value |= content.to_json()
    value["deleted"] = version.is_deleted
    return value


def _with_subject(subject: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    return fields if subject is None else {"subject": subject, **fields}


def decode(key: bytes | None, value: bytes | None) -> StoredRecord | None:
    """What a record says; None if it is not one of these, which is no error."""
    if key is None:
        return None
    try:
        fields = json.loads(key)
        body = None if value is None else json.loads(value)
        if not isinstance(fields, dict) or not isinstance(body, dict | None):
            return None
        return _decode(fields, body)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _decode(key: dict[str, Any], value: dict[str, Any] | None) -> StoredRecord | None:
    subject = key.get("subject")
    if not isinstance(subject, str | None):
        return None
    match key.get("keytype"):
        case "SCHEMA":
            place = SubjectVersion(str(subject), int(key["version"]))
            return SchemaRemoved(place) if value is None else SchemaStored(_version(place, value))
        case "CONFIG":
            return ConfigSet(subject, None if value is None else config_of(value))
        case "MODE":
            return ModeSet(subject, None if value is None else Mode(value["mode"]))
        case "DELETE_SUBJECT" if value is not None:
            return SubjectDeleted(str(subject), int(value["version"]))
        case "CLEAR_SUBJECT" if value is not None:
            return SubjectCleared(subject)
        case "NOOP" if value is not None:
            return HighestId(int(value["maxId"]))
    return None


def config_of(fields: Mapping[str, Any]) -> SubjectConfig:
    """The configuration in a record; what this registry does not know of it has no effect."""
    level = fields.get("compatibilityLevel")
    return SubjectConfig(
        None if level is None else CompatibilityLevel(str(level).upper()),
        fields.get("normalize"),
        fields.get("compatibilityGroup"),
    )


def _version(place: SubjectVersion, value: dict[str, Any]) -> StoredVersion:
    if not isinstance(value["schema"], str):
        raise TypeError("a schema is text")
    references = tuple(
        Reference(each["name"], each["subject"], int(each["version"]))
        for each in value.get("references") or ()
    )
    content = SchemaContent(
        value.get("schemaType") or DEFAULT_TYPE,
        value["schema"],
        references,
        value.get("metadata"),
        value.get("ruleSet"),
    )
    return StoredVersion(
        place.subject,
        place.version,
        int(value["id"]),
        content,
        bool(value.get("deleted", False)),
    )
