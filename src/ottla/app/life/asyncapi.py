"""The AsyncAPI 3 document of an app: its topics, what it receives and sends, and the schemas of the values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.app.life.value_schemas import class_schema, value_schema

ASYNCAPI_VERSION: Final = "3.0.0"
KAFKA_BINDING_VERSION: Final = "0.5.0"
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class SentType:
    """What goes to a topic, as a handler's return annotation says."""

    topic: str
    wanted: Any


@dataclass(frozen=True, kw_only=True)
class DocumentedListener:
    """A listener as the document shows it."""

    name: str
    topics: tuple[str, ...] | re.Pattern[str]
    group: str
    value_type: Any
    key_type: Any = bytes
    header_types: Mapping[str, Any] = field(default_factory=dict)
    sends: Sequence[SentType] = ()
    is_batch: bool = False
    description: str | None = None
    replies_with: Any = None
    """The type of its reply to requests; None without one."""


@dataclass(frozen=True, kw_only=True)
class DocumentedTopic:
    """A topic that the app declares."""

    name: str
    partitions: int | None = None
    replicas: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DocumentedApp:
    """An app as the document shows it."""

    title: str
    version: str
    bootstrap_servers: Sequence[str]
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    listeners: Sequence[DocumentedListener]
    topics: Sequence[DocumentedTopic] = ()
    description: str | None = None


def document_of(app: DocumentedApp) -> dict[str, Any]:
    """The document as a dict, in an order that does not change from run to run."""
    return _Document(app).write()


class _Document:
    """Writes a document; components are named when they are first used."""

    def __init__(self, app: DocumentedApp) -> None:
        self._app = app
        self._channels: dict[str, dict[str, Any]] = {}
        self._operations: dict[str, dict[str, Any]] = {}
        self._messages: dict[str, dict[str, Any]] = {}
        self._schemas: dict[str, dict[str, Any]] = {}

    def write(self) -> dict[str, Any]:
        for topic in self._app.topics:
            self._declare(topic)
        for listener in self._app.listeners:
            self._receive(listener)
            for number, sent in enumerate(listener.sends, 1):
                self._send(listener, sent, number)
        info: dict[str, Any] = {"title": self._app.title, "version": self._app.version}
        if self._app.description:
            info["description"] = self._app.description
        document: dict[str, Any] = {
            "asyncapi": ASYNCAPI_VERSION,
            "info": info,
            "defaultContentType": "application/json",
            "servers": self._servers(),
            "channels": self._channels,
            "operations": self._operations,
            "components": {"messages": self._messages, "schemas": self._schemas},
        }
        if self._app.sasl_mechanism is not None:
            document["components"]["securitySchemes"] = {"sasl": _sasl(self._app.sasl_mechanism)}
        return document

    def _servers(self) -> dict[str, Any]:
        is_secure = self._app.security_protocol.endswith("SSL")
        servers = {}
        for number, host in enumerate(self._app.bootstrap_servers, 1):
            server: dict[str, Any] = {
                "host": host,
                "protocol": "kafka-secure" if is_secure else "kafka",
            }
            if self._app.sasl_mechanism is not None:
                server["security"] = [{"$ref": "#/components/securitySchemes/sasl"}]
            servers[f"kafka{number}"] = server
        return servers

    # Channels

    def _channel(self, topic: str) -> str:
        """The id of a topic's channel."""
        self._channels.setdefault(topic, {"address": topic, "messages": {}})
        return topic

    def _declare(self, topic: DocumentedTopic) -> None:
        kafka: dict[str, Any] = {"topic": topic.name, "bindingVersion": KAFKA_BINDING_VERSION}
        if topic.partitions is not None:
            kafka["partitions"] = topic.partitions
        if topic.replicas is not None:
            kafka["replicas"] = topic.replicas
        if topic.configs:
            kafka["topicConfiguration"] = {
                name: _config_value(name, value) for name, value in sorted(topic.configs.items())
            }
        self._channels[self._channel(topic.name)]["bindings"] = {"kafka": kafka}

    def _pattern_channel(self, listener: DocumentedListener, pattern: str) -> str:
        """The id of a channel that stands for all topics that match."""
        name = _id_of(f"{listener.name}.topics")
        self._channels[name] = {
            "address": None,
            "title": f"topics that match {pattern}",
            "messages": {},
        }
        return name

    # Operations

    def _receive(self, listener: DocumentedListener) -> None:
        if isinstance(listener.topics, re.Pattern):
            channels = [self._pattern_channel(listener, listener.topics.pattern)]
        else:
            channels = [self._channel(topic) for topic in listener.topics]
        message = self._message(
            listener.value_type, listener.key_type, headers=listener.header_types
        )
        for channel in channels:
            name = listener.name if len(channels) == 1 else f"{listener.name}.{channel}"
            operation = self._operation("receive", channel, message)
            if listener.description:
                operation["summary"] = listener.description.strip().splitlines()[0]
                operation["description"] = listener.description.strip()
            operation["bindings"] = {
                "kafka": {
                    "groupId": {"type": "string", "enum": [listener.group]},
                    "bindingVersion": KAFKA_BINDING_VERSION,
                }
            }
            if listener.is_batch:
                operation["tags"] = [{"name": "batch"}]
            if listener.replies_with is not None:
                operation["reply"] = self._reply(listener)
            self._operations[_id_of(name)] = operation

    def _send(self, listener: DocumentedListener, sent: SentType, number: int) -> None:
        channel = self._channel(sent.topic)
        message = self._message(sent.wanted, None)
        name = f"{listener.name}.sends.{number}"
        self._operations[_id_of(name)] = self._operation("send", channel, message)

    def _operation(self, action: str, channel: str, message: str) -> dict[str, Any]:
        messages = self._channels[channel]["messages"]
        messages[message] = {"$ref": f"#/components/messages/{message}"}
        return {
            "action": action,
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
        }

    def _reply(self, listener: DocumentedListener) -> dict[str, Any]:
        channel = _id_of(f"{listener.name}.replies")
        message = self._message(listener.replies_with, None)
        self._channels[channel] = {
            "address": None,
            "messages": {message: {"$ref": f"#/components/messages/{message}"}},
        }
        return {
            "address": {"location": "$message.header#/kafka_replyTopic"},
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
        }

    # Messages and schemas

    def _message(self, wanted: Any, key_type: Any, headers: Mapping[str, Any] | None = None) -> str:
        schema = value_schema(wanted, self._add_class)
        message: dict[str, Any] = {"name": schema.name, "contentType": schema.content_type}
        if schema.schema is not None:
            message["payload"] = schema.schema
        if headers:
            message["headers"] = {
                "type": "object",
                "properties": {
                    name: value_schema(kind, self._add_class).schema or {}
                    for name, kind in headers.items()
                },
            }
        key = None if key_type is None else value_schema(key_type, self._add_class).schema
        if key is not None:
            message["bindings"] = {
                "kafka": {
                    "key": key,
                    "bindingVersion": KAFKA_BINDING_VERSION,
                }
            }
        return _named(self._messages, schema.name, message)

    def _add_class(self, wanted: type) -> dict[str, Any]:
        """A reference to a class among the components; the classes in its `$defs` become components too."""
        schema = class_schema(wanted)
        inner = dict(schema.get("$defs", {}))
        own = {key: each for key, each in schema.items() if key not in ("$defs", "$schema", "$id")}
        # Names are decided before references to them are written: classes may refer to each other.
        places = {"": _free_name(self._schemas, wanted.__name__, _with_parts(own, inner))}
        for each, part in inner.items():
            places[each] = _free_name(self._schemas, each, _with_parts(part, inner))
        for each, part in {"": own, **inner}.items():
            self._schemas[places[each]] = _Component(
                _pointed_at_components(part, places), _with_parts(part, inner)
            )
        return {"$ref": f"#/components/schemas/{places['']}"}


class _Component(dict[str, Any]):
    """A schema among the components, with what it was made of, so that the same class is found again."""

    def __init__(self, schema: dict[str, Any], made_of: str) -> None:
        super().__init__(schema)
        self.made_of = made_of


def _with_parts(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    """What tells two classes of one name apart: the schema and all that it may refer to."""
    return json.dumps([schema, parts], sort_keys=True)


def _free_name(taken: Mapping[str, dict[str, Any]], name: str, made_of: str) -> str:
    """The name of the same class, or the first one with a number that is free."""
    base, number = _id_of(name), 1
    name = base
    while name in taken and getattr(taken[name], "made_of", None) != made_of:
        number += 1
        name = f"{base}_{number}"
    return name


def _named(found: dict[str, dict[str, Any]], name: str, content: dict[str, Any]) -> str:
    """The name under which the content stands, which may have a number."""
    base, number = _id_of(name), 1
    name = base
    while name in found and found[name] != content:
        number += 1
        name = f"{base}_{number}"
    found[name] = content
    return name


def _pointed_at_components(part: Any, places: Mapping[str, str]) -> Any:
    if isinstance(part, Mapping):
        changed = {key: _pointed_at_components(each, places) for key, each in part.items()}
        target = part.get("$ref")
        if isinstance(target, str) and (target == "#" or target.startswith("#/$defs/")):
            place = places[target.removeprefix("#/$defs/") if target != "#" else ""]
            changed["$ref"] = f"#/components/schemas/{place}"
        return changed
    if isinstance(part, list):
        return [_pointed_at_components(each, places) for each in part]
    return part


def _id_of(name: str) -> str:
    return _NOT_IN_IDS.sub("_", name)


def _config_value(name: str, value: str) -> Any:
    if name == "cleanup.policy":
        return [part.strip() for part in value.split(",")]
    return int(value) if value.lstrip("-").isdigit() else value


def _sasl(mechanism: str) -> dict[str, str]:
    kinds = {"PLAIN": "plain", "SCRAM-SHA-256": "scramSha256", "SCRAM-SHA-512": "scramSha512"}
    if mechanism in kinds:
        return {"type": kinds[mechanism]}
    # OAUTHBEARER has no type of its own: it is a token of the bearer.
    return {"type": "gssapi"} if mechanism == "GSSAPI" else {"type": "http", "scheme": "bearer"}
