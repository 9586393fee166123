"""Configs of a topic as rows: value, source, what it would be without it, and the broker's documentation."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ottla.client.admin_model.configs import ConfigEntry, ConfigSynonym
from ottla.config.options import ConfigSource

SOURCE_TITLES: Final[Mapping[ConfigSource, str]] = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker, dynamic",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, dynamic",
    ConfigSource.STATIC_BROKER_CONFIG: "broker's file",
    ConfigSource.DEFAULT_CONFIG: "default",
}
UNKNOWN_SOURCE: Final = "unknown"
_UNITS_MS: Final = {"hours": 3_600_000, "minutes": 60_000}
# Documentation of Apache Kafka is HTML.
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]*>")
_BREAK: Final = re.compile(r"<(?:br|p|li|/p|/ul|/li)\b[^<>]*>")
_SPACES: Final = re.compile(r"[ \t]{2,}")


@dataclass(frozen=True)
class ConfigSynonymRow:
    """A place that has a value for a config; the first one counts."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True)
class ConfigRow:
    """A config. The value of a sensitive one is None."""

    name: str
    value: str | None
    source: str
    is_set: bool
    """Whether the topic itself has a value; otherwise it is the brokers'."""
    fallback_value: str | None
    """What it would be if the topic had no value."""
    has_fallback: bool
    """Whether the cluster tells that."""
    type: str
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None
    synonyms: list[ConfigSynonymRow]


def config_rows(
    entries: Iterable[ConfigEntry], own: ConfigSource = ConfigSource.DYNAMIC_TOPIC_CONFIG
) -> list[ConfigRow]:
    """The rows: those that the topic, or another resource, sets itself first, then all others by name."""
    rows = [config_row(each, own) for each in entries]
    return sorted(rows, key=lambda row: (not row.is_set, row.name))


def config_row(
    entry: ConfigEntry, own: ConfigSource = ConfigSource.DYNAMIC_TOPIC_CONFIG
) -> ConfigRow:
    """The row of a config; `own` is the source of values that the resource sets itself."""
    is_set = entry.source is own
    rest = [each for each in entry.synonyms if each.source is not own]
    fallback = (_in_unit_of(entry.name, rest[0]) if rest else None) if is_set else entry.value
    return ConfigRow(
        name=entry.name,
        value=entry.value,
        source=source_title(entry.source),
        is_set=is_set,
        fallback_value=fallback,
        has_fallback=has_fallback(entry),
        type=entry.type.name.lower(),
        is_read_only=entry.is_read_only,
        is_sensitive=entry.is_sensitive,
        documentation=None if entry.documentation is None else plain_text(entry.documentation),
        synonyms=[
            ConfigSynonymRow(each.name, each.value, source_title(each.source))
            for each in entry.synonyms
        ],
    )


def _in_unit_of(name: str, synonym: ConfigSynonym) -> str | None:
    """The value of a synonym as the config's own: brokers have hours and minutes where topics have milliseconds."""
    unit_ms = _UNITS_MS.get(synonym.name.rpartition(".")[2])
    if synonym.value is None or unit_ms is None or not name.endswith(".ms"):
        return synonym.value
    try:
        number = int(synonym.value)
    except ValueError:
        return synonym.value
    return str(number * unit_ms if number >= 0 else number)


def has_fallback(entry: ConfigEntry) -> bool:
    """Whether the cluster tells what the config would be if the topic had no value."""
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG
    return entry.source is not own or any(each.source is not own for each in entry.synonyms)


def with_fallback(entry: ConfigEntry, default: ConfigEntry | None) -> ConfigEntry:
    """The config with the value that a topic has that sets nothing, if that is known."""
    if default is None or default.source is ConfigSource.DYNAMIC_TOPIC_CONFIG:
        return entry
    fallback = ConfigSynonym(default.name, default.value, default.source)
    return replace(entry, synonyms=(*entry.synonyms, fallback))


def source_title(source: ConfigSource) -> str:
    """Where a value comes from, in a word."""
    return SOURCE_TITLES.get(source, UNKNOWN_SOURCE)


def plain_text(documentation: str) -> str:
    """The text of documentation that may be HTML."""
    with_breaks = _BREAK.sub("\n", documentation)
    text = html.unescape(_TAG.sub("", with_breaks))
    lines = (_SPACES.sub(" ", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def state_of(entries: Iterable[ConfigEntry]) -> str:
    """A short text that is another one as soon as one of the values is."""
    known = sorted((each.name, each.value or "", each.source.value) for each in entries)
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]
