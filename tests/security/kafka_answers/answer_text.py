"""Answers as text that is the same for every cluster: ids have names, codes are words, hash tables have an order."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container, Mapping
from typing import Any
from uuid import UUID

from ottla.access import Operation
from ottla.errors import ErrorCode
from ottla.wire.columns import Columns
from ottla.wire.declare import Field, fields_of
from ottla.wire.types import ZERO_UUID

# Measured, different between two clusters, or the same in every answer.
_LEFT_OUT = {
    "leader_id",
    "replica_nodes",
    "isr_nodes",
    "partition_index",
    "partition",
    "partition_id",
    "throttle_time_ms",
    "host",
    "port",
    "cluster_id",
    "leader_epoch",
    "rack",
    "base_offset",
    "node_endpoints",
    "log_append_time_ms",
    "transaction_start_time_ms",
    "last_timestamp",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "high_watermark",
    "log_end_offset",
    "current_txn_start_offset",
    "log_dir",
    "partition_size",
    "total_bytes",
    "usable_bytes",
    "finalized_features_epoch",
    "finalized_features",
    "supported_features",
    "api_keys",
    "listeners",
}
# The producer id that questions make up; those that a cluster gave out are different in each.
MADE_UP = 987
# What says no more than the code: Kafka has it in some answers, and leaves it out in others.
_SAYS_NOTHING = {
    "Topic authorization failed.",
    "Group authorization failed.",
    "Cluster authorization failed.",
    "Transactional Id authorization failed.",
    *(code.text for code in ErrorCode),
}
REFUSALS = {code for code in ErrorCode if code.name.endswith("_AUTHORIZATION_FAILED")}
# Kafka shows an object of its own in some.
_INTERNAL = re.compile(r"Request Request\(.*\) needs [A-Z_]+ permission\.")
_UNASKED = -(1 << 31)


class AnswerText:
    """Writes answers down; knows the topics by their ids. Errors `with_messages` are those whose texts are compared."""

    def __init__(
        self,
        topics: Mapping[UUID, str],
        names: Mapping[str, str],
        with_messages: Container[ErrorCode],
    ) -> None:
        self._topics = topics
        self._names = names
        self._with_messages = with_messages

    def lines(self, answer: Any) -> list[str]:
        """A line for the answer as a whole, and one for each element of its lists."""
        head, elements = [], []
        for field in _fields(answer):
            value = getattr(answer, field.name)
            if field.name in _LEFT_OUT:
                continue
            if isinstance(value, list | Columns) and isinstance(field.type.element, type):
                elements += sorted(self._text(one, field.name) for one in value)
            elif text := self._named(field, value, _code(answer)):
                head.append(text)
        return [line for line in (" ".join(head), *elements) if line] or ["nothing"]

    def _named(self, field: Field, value: Any, code: object) -> str:
        """Nothing of what says nothing."""
        name = field.name
        if name == "error_code":
            return ErrorCode(value).name
        if name in _LEFT_OUT or value is None or value == ZERO_UUID or value in ("", []):
            return ""
        if name.endswith("authorized_operations"):
            return "" if value == _UNASKED else f"may={_operations(value)}"
        if name == "error_message":
            says = code in self._with_messages and value not in _SAYS_NOTHING
            return f'"{self._renamed(value)}"' if says and not _INTERNAL.fullmatch(value) else ""
        if field.default is not None and value == field.default():
            return ""
        return f"{name}={self._text(value, name)}"

    def _text(self, value: Any, name: str) -> str:
        if dataclasses.is_dataclass(value):
            parts = (
                self._named(field, getattr(value, field.name), _code(value))
                for field in _fields(value)
            )
            # What topics are made with is not the same, and not what the table is about.
            if type(value).__name__ == "CreatableTopicConfigs":
                return "…"
            return "(" + " ".join(part for part in parts if part) + ")"
        if isinstance(value, list | Columns):
            return "[" + ", ".join(sorted({self._text(one, name) for one in value})) + "]"
        if isinstance(value, UUID):
            return self._topics.get(value, "an-id")
        if isinstance(value, bytes | bytearray | memoryview):
            return f"{len(value)} bytes"
        if name.endswith("error_code"):
            return ErrorCode(value).name
        if name == "producer_id" and value not in (-1, MADE_UP):
            return "ID"
        if name == "session_id" and value != 0:
            return "SESSION"
        return self._renamed(str(value))

    def _renamed(self, text: str) -> str:
        for found, name in self._names.items():
            text = text.replace(found, name)
        return text


def _code(message: object) -> object:
    return getattr(message, "error_code", None)


def _fields(message: object) -> tuple[Field, ...]:
    cls: type = type(message)
    return fields_of(cls)


def _operations(bits: int) -> str:
    names = [operation.name for operation in Operation if bits & 1 << operation]
    return "{" + " ".join(names) + "}"
