"""Configs of topics, brokers, groups and others, as `Admin` takes and returns them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ottla.config.options import ConfigSource, ResourceType


def check_config_value(name: str, value: object) -> None:
    """Raise if the value is not text: the protocol has no other values."""
    if value is not None and not isinstance(value, str):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        raise TypeError(f"the value of the config {name} is text: write {text!r}")


class ConfigResource(NamedTuple):
    """A resource that has configs; a broker's name is its id, "" stands for the defaults of all brokers."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """The configs of a topic."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> ConfigResource:
        """The configs of one broker."""
        return cls(ResourceType.BROKER, str(node_id))

    @classmethod
    def all_brokers(cls) -> ConfigResource:
        """The dynamic defaults of all brokers."""
        return cls(ResourceType.BROKER, "")

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        """The configs of a group (KIP-848)."""
        return cls(ResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        """A subscription to metrics of clients (KIP-714)."""
        return cls(ResourceType.CLIENT_METRICS, name)

    @classmethod
    def broker_loggers(cls, node_id: int) -> ConfigResource:
        """The levels of one broker's loggers (KIP-412)."""
        return cls(ResourceType.BROKER_LOGGER, str(node_id))

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '(default)'}"


class ConfigType(IntEnum):
    """The type of a config's value, with Kafka's number; brokers before 2.6 do not send it."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def _missing_(cls, value: object) -> ConfigType:
        """UNKNOWN for numbers of newer brokers."""
        return cls.UNKNOWN


@dataclass(frozen=True)
class ConfigSynonym:
    """A source of a config's value; the one that is used comes first."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True)
class ConfigEntry:
    """A config and its value, which is None for a sensitive one."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    is_sensitive: bool = False
    is_read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class AlterConfigOperation(IntEnum):
    """An operation on a config (KIP-339); the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True)
class AlterConfig:
    """A change of one config; DELETE restores the default."""

    name: str
    value: str | None = None
    operation: AlterConfigOperation = AlterConfigOperation.SET

    def __post_init__(self) -> None:
        check_config_value(self.name, self.value)
