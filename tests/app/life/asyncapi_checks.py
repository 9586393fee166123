"""AsyncAPI 3.0's rules for a document, as far as its specification states them; read strictly."""

from __future__ import annotations

import re
from typing import Any

from jsonschema import Draft202012Validator

COMPONENT_NAME = re.compile(r"[\w.\-]+", re.ASCII)
# The fixed fields of the specification's objects, those that must be there first.
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "document": (
        {"asyncapi", "info"},
        {"id", "servers", "defaultContentType", "channels", "operations", "components"},
    ),
    "info": (
        {"title", "version"},
        {"description", "termsOfService", "contact", "license", "tags", "externalDocs"},
    ),
    "server": (
        {"host", "protocol"},
        {
            "protocolVersion",
            "pathname",
            "description",
            "title",
            "summary",
            "variables",
            "security",
            "tags",
            "externalDocs",
            "bindings",
        },
    ),
    "channel": (
        set(),
        {
            "address",
            "messages",
            "title",
            "summary",
            "description",
            "servers",
            "parameters",
            "tags",
            "externalDocs",
            "bindings",
        },
    ),
    "operation": (
        {"action", "channel"},
        {
            "title",
            "summary",
            "description",
            "security",
            "tags",
            "externalDocs",
            "bindings",
            "traits",
            "messages",
            "reply",
        },
    ),
    "reply": (set(), {"address", "channel", "messages"}),
    "message": (
        set(),
        {
            "headers",
            "payload",
            "correlationId",
            "contentType",
            "name",
            "title",
            "summary",
            "description",
            "tags",
            "externalDocs",
            "bindings",
            "examples",
            "traits",
        },
    ),
    "kafka channel binding": (
        set(),
        {"topic", "partitions", "replicas", "topicConfiguration", "bindingVersion"},
    ),
    "kafka operation binding": (set(), {"groupId", "clientId", "bindingVersion"}),
    "kafka message binding": (
        set(),
        {
            "key",
            "schemaIdLocation",
            "schemaIdPayloadEncoding",
            "schemaLookupStrategy",
            "bindingVersion",
        },
    ),
}


def check(document: dict[str, Any]) -> None:
    """AssertionError if the document violates a rule."""
    _fields("document", document)
    assert document["asyncapi"] == "3.0.0"
    _fields("info", document["info"])
    for server in document["servers"].values():
        _fields("server", server)
        assert "://" not in server["host"]
        assert server["protocol"] in ("kafka", "kafka-secure")
        for reference in server.get("security", []):
            _resolve(document, reference, "#/components/securitySchemes/")
    for channel in document["channels"].values():
        _check_channel(document, channel)
    for operation in document["operations"].values():
        _check_operation(document, operation)
    for kind, components in document["components"].items():
        for name in components:
            assert COMPONENT_NAME.fullmatch(name), f"{kind} {name}"
    for message in document["components"]["messages"].values():
        _check_message(document, message)
    for schema in document["components"]["schemas"].values():
        _check_schema(document, schema)


def _fields(kind: str, value: dict[str, Any]) -> None:
    required, optional = FIELDS[kind]
    missing = required - set(value)
    assert not missing, f"{kind} without {missing}"
    unknown = {name for name in set(value) - required - optional if not name.startswith("x-")}
    assert not unknown, f"{kind} with {unknown}"


def _resolve(document: dict[str, Any], reference: dict[str, Any], prefix: str) -> Any:
    assert set(reference) == {"$ref"}, reference
    target = reference["$ref"]
    assert target.startswith(prefix), target
    found: Any = document
    for part in target.removeprefix("#/").split("/"):
        assert part in found, f"{target} leads nowhere"
        found = found[part]
    return found


def _check_channel(document: dict[str, Any], channel: dict[str, Any]) -> None:
    _fields("channel", channel)
    assert channel["address"] is None or isinstance(channel["address"], str)
    for reference in channel["messages"].values():
        _resolve(document, reference, "#/components/messages/")
    if "bindings" in channel:
        kafka = channel["bindings"]["kafka"]
        _fields("kafka channel binding", kafka)
        assert isinstance(kafka.get("partitions", 1), int)


def _check_operation(document: dict[str, Any], operation: dict[str, Any]) -> None:
    _fields("operation", operation)
    assert operation["action"] in ("send", "receive")
    _resolve(document, operation["channel"], "#/channels/")
    # The messages must be among those of the operation's own channel.
    own = operation["channel"]["$ref"] + "/messages/"
    for reference in operation["messages"]:
        _resolve(document, reference, own)
    if "bindings" in operation:
        kafka = operation["bindings"]["kafka"]
        _fields("kafka operation binding", kafka)
        _check_schema(document, kafka["groupId"])
    if "reply" in operation:
        reply = operation["reply"]
        _fields("reply", reply)
        assert re.fullmatch(r"\$message\.(header|payload)#(/[^/]+)*", reply["address"]["location"])
        channel = _resolve(document, reply["channel"], "#/channels/")
        assert channel["address"] is None, "an address of the channel contradicts that of the reply"
        for reference in reply["messages"]:
            _resolve(document, reference, reply["channel"]["$ref"] + "/messages/")


def _check_message(document: dict[str, Any], message: dict[str, Any]) -> None:
    _fields("message", message)
    assert re.fullmatch(r"[\w-]+/[\w.+-]+", message["contentType"])
    if "payload" in message:
        _check_schema(document, message["payload"])
    if "headers" in message:
        assert message["headers"]["type"] == "object"
        _check_schema(document, message["headers"])
    if "bindings" in message:
        _fields("kafka message binding", message["bindings"]["kafka"])
        _check_schema(document, message["bindings"]["kafka"]["key"])


def _check_schema(document: dict[str, Any], schema: Any) -> None:
    Draft202012Validator.check_schema(schema)
    for part in _parts(schema):
        if "$ref" in part:
            _resolve(document, {"$ref": part["$ref"]}, "#/components/schemas/")
        assert "$defs" not in part, "a reference into $defs would lead nowhere in the document"


def _parts(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, dict):
        return [schema, *(part for each in schema.values() for part in _parts(each))]
    if isinstance(schema, list):
        return [part for each in schema for part in _parts(each)]
    return []
