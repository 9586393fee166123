"""Subject name strategies: under which subject the schema of a topic's keys or values is registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ottla.client.plugins.object_lookup import find
from ottla.errors import ConfigError

SubjectStrategy: TypeAlias = Callable[[str, bool, str | None], str]
"""The subject for a topic, whether it is for keys, and the name of the record (None if it has none)."""

_OPTION = "subject.name.strategy"


def topic_name(topic: str, is_key: bool, record_name: str | None) -> str:
    """The topic with -key or -value: one schema for each topic."""
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(topic: str, is_key: bool, record_name: str | None) -> str:
    """The name of the record, wherever it is sent."""
    return _named(record_name, "record")


def topic_record_name(topic: str, is_key: bool, record_name: str | None) -> str:
    """The topic and the name of the record: several types of records in a topic."""
    return f"{topic}-{_named(record_name, 'topic_record')}"


def _named(name: str | None, strategy: str) -> str:
    if name is None:
        raise ConfigError(
            f"{_OPTION}={strategy} needs a schema with a name: give a record (in JSON Schema, a title), "
            f"or set {_OPTION} to topic"
        )
    return name


_BY_NAME: Mapping[str, SubjectStrategy] = {
    "topic": topic_name,
    "record": record_name,
    "topic_record": topic_record_name,
}
_JAVA = "io.confluent.kafka.serializers.subject"
_JAVA_NAMES: Mapping[str, SubjectStrategy] = {
    f"{package}{name}": strategy
    for package in ("", f"{_JAVA}.")
    for name, strategy in (
        ("TopicNameStrategy", topic_name),
        ("RecordNameStrategy", record_name),
        ("TopicRecordNameStrategy", topic_record_name),
    )
}


def strategy_of(named: object) -> SubjectStrategy:
    """The strategy of an option: a name of ours or of Confluent's, a dotted path or a function."""
    if isinstance(named, str) and named in _JAVA_NAMES:
        return _JAVA_NAMES[named]
    found = find(_OPTION, named, _BY_NAME)
    if not callable(found) or isinstance(found, type):
        raise ConfigError(f"{_OPTION}: {named!r} is no function of topic, is_key and record name")
    strategy: SubjectStrategy = found
    return strategy
