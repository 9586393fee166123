"""The records of `__consumer_offsets` and `__transaction_state`, decoded for people and programs."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from ottla.core.catalog import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.core.txn.states import TxnState
from ottla.model import topic_id_text
from ottla.wire.compile import decode_stored, stored_version
from ottla.wire.declare import fields_of, stored_info_of
from ottla.wire.stored.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from ottla.wire.stored.group_metadata import GroupMetadataKey, GroupMetadataValue
from ottla.wire.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.wire.stored.transaction_log import TransactionLogKey, TransactionLogValue
from ottla.wire.types import MalformedMessageError

Buffer: TypeAlias = bytes | bytearray | memoryview

_CONSUMER: Final = "consumer"  # the protocol type of groups of consumers


class _Format(NamedTuple):
    kind: str
    key: type | None = None  # None: known by name only
    value: type | None = None


_OFFSET: Final = _Format("offset_commit", OffsetCommitKey, OffsetCommitValue)
_FORMATS: Final[Mapping[str, Mapping[int, _Format]]] = {
    GROUPS_TOPIC: {
        0: _OFFSET,
        1: _OFFSET,
        2: _Format("group_metadata", GroupMetadataKey, GroupMetadataValue),
        # KIP-848; kind 4 only before Kafka 4.1.
        3: _Format("consumer_group_metadata", ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        4: _Format("consumer_group_partition_metadata"),
        5: _Format(
            "consumer_group_member_metadata",
            ConsumerGroupMemberMetadataKey,
            ConsumerGroupMemberMetadataValue,
        ),
        6: _Format(
            "consumer_group_target_assignment_metadata",
            ConsumerGroupTargetAssignmentMetadataKey,
            ConsumerGroupTargetAssignmentMetadataValue,
        ),
        7: _Format(
            "consumer_group_target_assignment_member",
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupTargetAssignmentMemberValue,
        ),
        8: _Format(
            "consumer_group_current_member_assignment",
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupCurrentMemberAssignmentValue,
        ),
        # KIP-932: other brokers write them.
        9: _Format("share_group_partition_metadata"),
        10: _Format("share_group_member_metadata"),
        11: _Format("share_group_metadata"),
        12: _Format("share_group_target_assignment_metadata"),
        13: _Format("share_group_target_assignment_member"),
        14: _Format("share_group_current_member_assignment"),
        15: _Format("share_group_state_partition_metadata"),
        16: _Format(
            "consumer_group_regular_expression",
            ConsumerGroupRegularExpressionKey,
            ConsumerGroupRegularExpressionValue,
        ),
        # KIP-1071
        17: _Format("streams_group_metadata"),
        18: _Format("streams_group_partition_metadata"),
        19: _Format("streams_group_member_metadata"),
        20: _Format("streams_group_target_assignment_metadata"),
        21: _Format("streams_group_target_assignment_member"),
        22: _Format("streams_group_current_member_assignment"),
        23: _Format("streams_group_topology"),
        24: _Format("streams_group_target_assignment_resolved_topic_ids"),
    },
    TRANSACTIONS_TOPIC: {0: _Format("transaction", TransactionLogKey, TransactionLogValue)},
}
_UNKNOWN: Final = _Format("unknown")


class StoredRecord(NamedTuple):
    """A record of an internal topic; the data of kinds that are known only by name are bytes.

    A record without a value deletes the one with the same key.
    """

    kind: str
    key_version: int
    key: dict[str, Any] | bytes
    value_version: int | None
    value: dict[str, Any] | bytes | None

    def as_data(self) -> dict[str, Any]:
        """The record in the types of JSON."""
        return {
            "kind": self.kind,
            "key": {"version": self.key_version, "data": _plain(self.key)},
            "value": None
            if self.value is None
            else {"version": self.value_version, "data": _with_state(_plain(self.value))},
        }


def is_decodable(topic: str) -> bool:
    """Whether records of the topic can be decoded."""
    return topic in _FORMATS


def read_stored_record(topic: str, key: Buffer | None, value: Buffer | None) -> StoredRecord:
    """Decode a record of an internal topic. Raises MalformedMessageError."""
    if key is None:
        raise MalformedMessageError("a record of an internal topic has no key")
    key_version = stored_version(key)
    form = _FORMATS[topic].get(key_version, _UNKNOWN)
    value_version = None if value is None else stored_version(value)
    if form.key is None or form.value is None:
        return StoredRecord(
            form.kind,
            key_version,
            bytes(key),
            value_version,
            None if value is None else bytes(value),
        )
    return StoredRecord(
        form.kind,
        key_version,
        _read(form.key, key),
        value_version,
        None if value is None else _read(form.value, value),
    )


def kafka_texts(record: StoredRecord, offset: int) -> tuple[str, str | None]:
    """Key and value in the format of kafka-dump-log."""
    if isinstance(record.key, bytes):
        return f"Unknown record type {record.key_version} at offset {offset}, skipping.", None
    value = "<DELETE>"
    if record.value is not None:
        value = _in_kafkas_words({"version": str(record.value_version), "data": record.value})
    return _in_kafkas_words({"type": str(record.key_version), "data": record.key}), value


def _in_kafkas_words(value: Any) -> str:
    return json.dumps(_camel_case(_plain(value)), ensure_ascii=False, separators=(",", ":"))


def _read(cls: type[Any], data: Buffer) -> dict[str, Any]:
    version = min(stored_version(data), stored_info_of(cls).versions.last)
    found = _fields(decode_stored(cls, data), version)
    if cls is GroupMetadataValue and found["protocol_type"] == _CONSUMER:
        found["members"] = [_member(member) for member in found["members"]]
    return found


def _fields(message: Any, version: int) -> dict[str, Any]:
    """The fields that a version has; tagged ones only if they are set, as on the wire."""
    found: dict[str, Any] = {}
    cls: type = type(message)
    for field in fields_of(cls):
        value = getattr(message, field.name)
        if not field.present_in(version):
            continue
        if field.tagged_in(version) and field.default is not None and value == field.default():
            continue
        found[field.name] = _field(value, version)
    return found


def _field(value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_field(each, version) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return _fields(value, version)
    return bytes(value) if isinstance(value, memoryview) else value


def _member(member: dict[str, Any]) -> dict[str, Any]:
    """A member with its subscription and assignment decoded, if they can be."""
    forms = {"subscription": ConsumerProtocolSubscription, "assignment": ConsumerProtocolAssignment}
    for name, cls in forms.items():
        try:
            version = min(stored_version(member[name]), stored_info_of(cls).versions.last)
            member[name] = _fields(decode_stored(cls, member[name]), version)
        except MalformedMessageError:
            continue
    return member


def _plain(value: Any) -> Any:
    """The value in the types of JSON."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return topic_id_text(value) if isinstance(value, UUID) else value


def _camel_case(value: Any) -> Any:
    if isinstance(value, dict):
        return {_camel(name): _camel_case(each) for name, each in value.items()}
    return [_camel_case(each) for each in value] if isinstance(value, list) else value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _with_state(data: Any) -> Any:
    """The value of a transactional id with the name of its state."""
    number = data.get("transaction_status") if isinstance(data, dict) else None
    if number is None or number not in TxnState._value2member_map_:
        return data
    return {**data, "state": TxnState(number).title}
