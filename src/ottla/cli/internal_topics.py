"""What the records of `__consumer_offsets` and `__transaction_state` say."""

from __future__ import annotations

import dataclasses
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from ottla.core.txn.states import State
from ottla.model import topic_id_text
from ottla.wire.compile import decode_stored, stored_version
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from ottla.wire.stored.group_metadata import GroupMetadataKey, GroupMetadataValue
from ottla.wire.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.wire.stored.transaction_log import TransactionLogKey, TransactionLogValue
from ottla.wire.types import ZERO_UUID, MalformedMessageError

Said = dict[str, Any]
Decode = Callable[[bytes | None, bytes | None], tuple[Said | None, Said | None]]

_OFFSET_COMMIT, _GROUP_METADATA = "offset_commit", "group_metadata"
# The keys' versions say what a record is. Those from 3 on are of the new groups (KIP-848, KIP-932, KIP-1071).
_GROUP_KINDS: Final = {
    0: _OFFSET_COMMIT,
    1: _OFFSET_COMMIT,
    2: _GROUP_METADATA,
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    9: "share_group_partition_metadata",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
}
_TRANSACTION: Final = "transaction"


def of_group(key: bytes | None, value: bytes | None) -> tuple[Said | None, Said | None]:
    """A record of `__consumer_offsets`; kinds that are not decoded are named, with their bytes."""
    kind = _kind(key, _GROUP_KINDS)
    if kind == _OFFSET_COMMIT:
        return _said(kind, OffsetCommitKey, key), _value(OffsetCommitValue, value)
    if kind == _GROUP_METADATA:
        found = _value(GroupMetadataValue, value)
        if found is not None:
            for member in found.get("members", ()):
                _open_member(member, str(found["protocol_type"]))
        return _said(kind, GroupMetadataKey, key), found
    return _bytes(key, kind), _bytes(value)


def of_transaction(key: bytes | None, value: bytes | None) -> tuple[Said | None, Said | None]:
    """A record of `__transaction_state`."""
    kind = _kind(key, {0: _TRANSACTION})
    if kind != _TRANSACTION:
        return _bytes(key, kind), _bytes(value)
    found = _value(TransactionLogValue, value)
    if found is not None and "transaction_status" in found:
        found["transaction_status"] = _state(found["transaction_status"])
    return _said(kind, TransactionLogKey, key), found


DECODERS: Final[Mapping[str, Decode]] = {
    "__consumer_offsets": of_group,
    "__transaction_state": of_transaction,
}


def _plain(value: Any) -> Any:
    """A decoded value in dicts and lists, with bytes as such."""
    if dataclasses.is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, UUID):
        return topic_id_text(value) if value != ZERO_UUID else None
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def _kind(key: bytes | None, kinds: Mapping[int, str]) -> str:
    if key is None or len(key) < 2:
        return "unknown"
    return kinds.get(stored_version(key), "unknown")


def _said(kind: str, declared: type[Any], data: bytes | None) -> Said:
    assert data is not None
    try:
        fields = _plain(decode_stored(declared, data))
    except MalformedMessageError:
        return _bytes(data, "unreadable") or {}
    return {"type": kind, "version": stored_version(data), **fields}


def _value(declared: type[Any], data: bytes | None) -> Said | None:
    if data is None:
        return None
    try:
        fields = _plain(decode_stored(declared, data))
    except MalformedMessageError:
        return _bytes(data, "unreadable")
    return {"version": stored_version(data), **fields}


def _bytes(data: bytes | None, kind: str | None = None) -> Said | None:
    """What could not be read, as it is."""
    if data is None:
        return None
    said: Said = {} if kind is None else {"type": kind}
    if len(data) >= 2:
        said["version"] = stored_version(data)
    return {**said, "base64": b64encode(data).decode()}


def _open_member(member: Said, protocol_type: str) -> None:
    """Subscription and assignment, which are in the consumer protocol where the group is one of consumers."""
    for name, declared in (
        ("subscription", ConsumerProtocolSubscription),
        ("assignment", ConsumerProtocolAssignment),
    ):
        data = bytes(member[name])
        found: Any = None
        if data and protocol_type == "consumer":
            try:
                found = _plain(decode_stored(declared, data))
            except MalformedMessageError:
                found = None
        if found is not None and found.get("user_data") is not None:
            found["user_data"] = b64encode(bytes(found["user_data"])).decode()
        member[name] = found if found is not None else {"base64": b64encode(data).decode()}


def _state(number: int) -> str:
    try:
        return State(number).title
    except ValueError:
        return f"unknown ({number})"
