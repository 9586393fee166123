"""The declarations against kio's schemas: versions, keys, flexibility and the names of fields."""

from __future__ import annotations

import dataclasses
import enum
import typing
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType
from tests.wire.every_message import (
    CASES,
    KNOWN_TO_KIO,
    MESSAGES,
    Case,
    is_nullable,
    kio_struct,
    kio_versions,
    paired,
)

from ottla.wire.compile import compile_codec
from ottla.wire.declare import info_of
from ottla.wire.framing import API_VERSIONS_KEY, response_header_is_flexible
from ottla.wire.types import ZERO_UUID

# kio says None where the wire has a zero uuid or a time of -1.
KIO_USES_NONE_FOR = ("uuid", "datetime_i64")
KIO_NONE: dict[Any, None] = {ZERO_UUID: None, -1: None}
# Versions that Kafka 4.4 added.
NEWER_THAN_KIO = {
    "ApiVersions": [5],
    "DeleteGroups": [3],
    "StreamsGroupDescribe": [1],
    "StreamsGroupHeartbeat": [1],
    "StreamsGroupTopologyDescriptionUpdate": [0],
    "TxnOffsetCommit": [6],
}
# Fields that Kafka has renamed since.
RENAMED = {"acceptable_recovery_lag_legacy": "acceptable_recovery_lag"}
# Kafka gives a struct of the request and another of the response the same name.
OTHER_NAMES = {
    "TopicDataResult": "TopicData",
    "PartitionDataResult": "PartitionData",
    "EntryDataResult": "EntryData",
}


def comparable(name: str) -> str:
    """A name without what differs between two ways to snake_case it; kio leaves units out."""
    return name.removesuffix("_ms").replace("_", "")


def comparable_default(value: Any) -> Any:
    """A default as plain numbers, text and tuples."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, timedelta):
        return comparable_default(value // timedelta(milliseconds=1))
    if dataclasses.is_dataclass(value):
        return tuple(
            comparable_default(getattr(value, field.name)) for field in dataclasses.fields(value)
        )
    if isinstance(value, list):
        return tuple(map(comparable_default, value))
    return KIO_NONE.get(value, value)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_has_the_versions_of_kafka(cls: type[Any]) -> None:
    info = info_of(cls)
    kind = EntityType.request if info.name.endswith("Request") else EntityType.response
    newer = NEWER_THAN_KIO.get(info.name.removesuffix("Request").removesuffix("Response"), [])
    ours = list(range(info.versions.first, info.versions.last + 1))
    assert ours == kio_versions(cls) + newer
    if info.api_key in api_key_map:
        theirs = schema_name_map[api_key_map[info.api_key]]
        assert all(kind in theirs[version] for version in theirs)


def test_every_request_has_a_response_with_the_same_versions() -> None:
    infos = {info_of(cls).name: info_of(cls) for cls in MESSAGES}
    requests = {name for name in infos if name.endswith("Request")}
    assert len(requests) * 2 == len(infos)
    for name in requests:
        response = infos[name.replace("Request", "Response")]
        assert infos[name]._replace(name=response.name) == response


@pytest.mark.parametrize("case", KNOWN_TO_KIO, ids=str)
def test_key_and_flexibility_and_header_are_those_of_kafka(case: Case) -> None:
    assert case.kio.__name__ == case.info.name
    assert case.kio.__api_key__ == case.info.api_key
    assert case.kio.__flexible__ == case.flexible
    header = case.kio.__header_schema__.__version__
    if case.is_request:
        assert header == (2 if case.flexible else 1)
    else:
        assert header == int(response_header_is_flexible(case.info.api_key, case.flexible))
        assert case.info.api_key != API_VERSIONS_KEY or header == 0


@pytest.mark.parametrize("case", KNOWN_TO_KIO, ids=str)
def test_fields_have_the_order_names_tags_nulls_and_defaults_of_kafka(case: Case) -> None:
    compare_struct(case.cls, case.version, case.kio)


def compare_struct(cls: type[Any], version: int, kio: type[Any]) -> None:
    assert OTHER_NAMES.get(cls.__name__, cls.__name__) == kio.__name__
    for ours, theirs in paired(cls, version, kio):
        assert comparable(RENAMED.get(ours.name, ours.name)) == comparable(theirs.name)
        tag = ours.presence.tag if ours.tagged_in(version) else None
        assert tag == theirs.metadata.get("tag")
        if theirs.metadata.get("kafka_type") not in KIO_USES_NONE_FOR:
            assert is_nullable(ours, version) == (type(None) in typing.get_args(theirs.type))
        if ours.default is not None and theirs.default is not dataclasses.MISSING:
            assert comparable_default(ours.default()) == comparable_default(theirs.default)
        nested = kio_struct(theirs.type)
        element = ours.type.element
        assert isinstance(element, type) == (nested is not None)
        if isinstance(element, type) and nested is not None:
            compare_struct(element, version, nested)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_version_compiles(case: Case) -> None:
    codec = compile_codec(case.cls, case.version, case.flexible)
    assert callable(codec.encode)
    assert callable(codec.decode)
