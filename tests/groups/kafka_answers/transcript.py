"""Answers as text that is the same in every run: ids become names, codes become words, hash tables get an order."""

from __future__ import annotations

import dataclasses
from typing import Any
from uuid import UUID

from ottla.errors import ErrorCode
from ottla.wire.columns import Columns
from ottla.wire.compile import decode_stored
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from ottla.wire.types import ZERO_UUID

# Measured, or different between two clusters: no part of an answer.
LEFT_OUT = {"throttle_time_ms", "port", "host", "node_id", "producer_id"}
EMBEDDED: dict[str, type[Any]] = {
    "metadata": ConsumerProtocolSubscription,
    "member_metadata": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
    "member_assignment": ConsumerProtocolAssignment,
}
# Our words about options and coordinators are our own.
OWN_WORDS = {"AlterConfigsResourceResponse", "DescribeConfigsResult", "Coordinator"}
TOPIC_FIELDS = ("topic_name", "topic_id", "topic", "name")


class Transcript:
    """What was asked and answered, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[str, str] = {}
        self._topics: dict[UUID, str] = {}

    def call(self, text: str, name: str) -> None:
        """Give a name to a text that differs from run to run."""
        self._names[text] = name

    def call_topic(self, topic_id: UUID, name: str) -> None:
        self._topics[topic_id] = name

    def add(self, step: str, answer: Any) -> None:
        said = answer if isinstance(answer, str) else self.shown(answer)
        self.lines.append(self.renamed(f"{step}: {said}"))

    def renamed(self, text: str) -> str:
        for found in sorted(self._names, key=len, reverse=True):
            text = text.replace(found, self._names[found])
        return text

    def shown(self, value: Any, field: str = "") -> str:
        """The text of any part of an answer."""
        if dataclasses.is_dataclass(value):
            return self._struct(value)
        if isinstance(value, list | Columns):
            return "[" + ", ".join(sorted(self.shown(one, field) for one in value)) + "]"
        if isinstance(value, UUID):
            return self._topic(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(bytes(value), field)
        if field.endswith("error_code"):
            return ErrorCode(value).name
        if isinstance(value, str):
            return repr(self.renamed(value))
        return str(value)

    def _struct(self, value: Any) -> str:
        found = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        if compact := self._partitions(found):
            return compact
        # Where there is nothing to say, Kafka says "NONE" or "" in some answers.
        if not found.get("error_code") or type(value).__name__ in OWN_WORDS:
            found.pop("error_message", None)
        shown = [
            f"{name}={self.shown(part, name)}"
            for name, part in found.items()
            if part is not None and part != ZERO_UUID and name not in LEFT_OUT
        ]
        return "(" + " ".join(shown) + ")" if shown else "()"

    def _partitions(self, found: dict[str, Any]) -> str | None:
        """Partitions of a topic, which most answers are full of, in few words."""
        partitions = found.get("partitions")
        if not isinstance(partitions, list) or not set(found) <= {*TOPIC_FIELDS, "partitions"}:
            return None
        if not all(isinstance(one, int) for one in partitions):
            return None
        topics = {self._named(found[one]) for one in TOPIC_FIELDS if one in found}
        numbers = " ".join(map(str, sorted(partitions)))
        return f"{'/'.join(sorted(topics))}[{numbers}]"

    def _named(self, topic: str | UUID) -> str:
        return self._topic(topic) if isinstance(topic, UUID) else self.renamed(topic)

    def _topic(self, topic_id: UUID) -> str:
        return self._topics.get(topic_id, "no-topic" if topic_id.int == 0 else "unknown-topic")

    def _bytes(self, value: bytes, field: str) -> str:
        if value and field in EMBEDDED:
            try:
                decoded = decode_stored(EMBEDDED[field], value)
            except Exception:
                return repr(value)
            version = int.from_bytes(value[:2], "big")
            return f"v{version}{self._struct(decoded)}"
        return repr(value)
