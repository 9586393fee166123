"""Requests by the name of their API, from nested dictionaries; a field that is not given is zero, empty or null."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from ottla.broker.requests.apis import SERVED
from ottla.testing.kafka_releases import KafkaRelease
from ottla.wire.declare import FieldType, fields_of, info_of
from ottla.wire.types import ZERO_UUID, BytesType, Fixed, RecordsType, StringType

# What the recorded Kafka and our broker both serve.
APIS = KafkaRelease("4.3").restrict(SERVED)

_EMPTY: Mapping[type, Any] = {Fixed: 0, StringType: "", BytesType: b"", RecordsType: b""}


@cache
def classes_of(api: str) -> tuple[type, type]:
    """The classes of an API's request and response."""
    module_name = re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower()
    module = importlib.import_module(f"ottla.wire.messages.{module_name}")
    return getattr(module, f"{api}Request"), getattr(module, f"{api}Response")


def request_of(api: str, fields: Mapping[str, Any]) -> Any:
    return _struct(classes_of(api)[0], fields)


def last_version(api: str) -> int:
    return APIS[info_of(classes_of(api)[0]).api_key].last_version


def _struct(cls: type, given: Mapping[str, Any]) -> Any:
    unknown = set(given) - {field.name for field in fields_of(cls)}
    assert not unknown, f"{cls.__name__} has no {sorted(unknown)}"
    values = {
        field.name: _value(field.type, given[field.name])
        if field.name in given
        else _empty(field.type)
        for field in fields_of(cls)
        if field.name in given or field.default is None
    }
    return cls(**values)


def _value(field_type: FieldType, given: Any) -> Any:
    if given is None or not isinstance(field_type.element, type):
        return given
    if field_type.is_list:
        return [_struct(field_type.element, one) for one in given]
    return _struct(field_type.element, given)


def _empty(field_type: FieldType) -> Any:
    if field_type.is_nullable:
        return None
    if field_type.is_list:
        return []
    if isinstance(field_type.element, type):
        return _struct(field_type.element, {})
    return _EMPTY.get(type(field_type.element), ZERO_UUID)
