"""The options of a group: those that a broker sets for all groups, changed for one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ottla.config.broker import BrokerConfig
from ottla.config.options import (
    Config,
    OptionType,
    option,
    options_of,
    read_options,
    value_of,
)
from ottla.errors import ConfigError

_NO_SHARE_GROUPS = "there are no share groups"
_NO_STREAMS_GROUPS = "there are no streams groups"
# The options of the broker that limit an option of groups.
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "consumer.heartbeat.interval.ms": (
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    "consumer.session.timeout.ms": (
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    "consumer.assignment.interval.ms": (
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
}


def _of_broker(broker_option: str) -> Any:
    """Declare an option of groups whose default is an option of the broker."""
    known = options_of(BrokerConfig)[broker_option]
    return option(
        known.type,
        known.default,
        at_least=known.at_least,
        doc=known.doc,
        dynamic=True,
        synonyms=(broker_option,),
    )


def _of_share_groups(type: OptionType, default: Any, doc: str, broker_option: str = "") -> Any:
    return option(
        type,
        default,
        doc=doc,
        dynamic=True,
        synonyms=(broker_option,) if broker_option else (),
        only_default=_NO_SHARE_GROUPS,
    )


def _of_streams_groups(default: int, doc: str, broker_option: str) -> Any:
    return option(
        OptionType.INT,
        default,
        doc=doc,
        dynamic=True,
        synonyms=(broker_option,),
        only_default=_NO_STREAMS_GROUPS,
    )


@dataclass(frozen=True)
class GroupOptions(Config):
    """The effective options of one group; those of kinds of groups that Ottla lacks only have their defaults."""

    kind: ClassVar[str] = "group option"

    consumer_assignment_interval_ms: int = _of_broker("group.consumer.assignment.interval.ms")
    consumer_heartbeat_interval_ms: int = _of_broker("group.consumer.heartbeat.interval.ms")
    consumer_session_timeout_ms: int = _of_broker("group.consumer.session.timeout.ms")
    share_assignment_interval_ms: int = _of_share_groups(
        OptionType.INT,
        1000,
        "The least time between two assignments of a share group.",
        "group.share.assignment.interval.ms",
    )
    share_auto_offset_reset: str = _of_share_groups(
        OptionType.STRING, "latest", "Where a share group begins to read."
    )
    share_delivery_count_limit: int = _of_share_groups(
        OptionType.INT,
        5,
        "How often a record is delivered to a share group.",
        "group.share.delivery.count.limit",
    )
    share_heartbeat_interval_ms: int = _of_share_groups(
        OptionType.INT,
        5000,
        "How often the members of a share group send heartbeats.",
        "group.share.heartbeat.interval.ms",
    )
    share_isolation_level: str = _of_share_groups(
        OptionType.STRING,
        "read_uncommitted",
        "Whether a share group gets records of transactions that are not committed.",
    )
    share_partition_max_record_locks: int = _of_share_groups(
        OptionType.INT,
        2000,
        "How many records of a partition a share group may have locked.",
        "group.share.partition.max.record.locks",
    )
    share_record_lock_duration_ms: int = _of_share_groups(
        OptionType.INT,
        30_000,
        "How long a record is locked for a member of a share group.",
        "group.share.record.lock.duration.ms",
    )
    share_renew_acknowledge_enable: bool = _of_share_groups(
        OptionType.BOOLEAN,
        True,
        "Whether members of a share group can renew the lock of a record.",
    )
    share_session_timeout_ms: int = _of_share_groups(
        OptionType.INT,
        45_000,
        "How long a member of a share group may be silent.",
        "group.share.session.timeout.ms",
    )
    streams_assignment_interval_ms: int = _of_streams_groups(
        1000,
        "The least time between two assignments of a streams group.",
        "group.streams.assignment.interval.ms",
    )
    streams_heartbeat_interval_ms: int = _of_streams_groups(
        5000,
        "How often the members of a streams group send heartbeats.",
        "group.streams.heartbeat.interval.ms",
    )
    streams_initial_rebalance_delay_ms: int = _of_streams_groups(
        3000,
        "How long a new streams group waits for more members.",
        "group.streams.initial.rebalance.delay.ms",
    )
    streams_num_standby_replicas: int = _of_streams_groups(
        0,
        "The number of standby replicas of each task.",
        "group.streams.num.standby.replicas",
    )
    streams_session_timeout_ms: int = _of_streams_groups(
        45_000,
        "How long a member of a streams group may be silent.",
        "group.streams.session.timeout.ms",
    )


def check_group_options(broker: BrokerConfig, own: Mapping[str, str]) -> None:
    """Raises ConfigError if a group may not have these options; the rules are Kafka's."""
    group = group_options(broker, own)
    for name, (lowest, highest) in _LIMITS.items():
        value, low, high = (
            value_of(group, name),
            value_of(broker, lowest),
            value_of(broker, highest),
        )
        if value < low:
            raise ConfigError(f"{name} ({value}) must be greater than or equal to {lowest} ({low})")
        if value > high:
            raise ConfigError(f"{name} ({value}) must be less than or equal to {highest} ({high})")
    session_ms, heartbeat_ms = (
        group.consumer_session_timeout_ms,
        group.consumer_heartbeat_interval_ms,
    )
    if session_ms <= heartbeat_ms:
        raise ConfigError(
            f"consumer.session.timeout.ms ({session_ms}) must be greater than "
            f"consumer.heartbeat.interval.ms ({heartbeat_ms})"
        )


def group_options(broker: BrokerConfig, own: Mapping[str, str]) -> GroupOptions:
    """The options of a group as they were set: its own, else those of the broker."""
    given = read_options(GroupOptions, own)
    fields: dict[str, Any] = {}
    for name, known in options_of(GroupOptions).items():
        if name in given:
            fields[known.field_name] = given[name]
        elif known.has_effect:
            fields[known.field_name] = value_of(broker, known.synonyms[0])
    return GroupOptions(**fields)


def within_limits(broker: BrokerConfig, group: GroupOptions) -> GroupOptions:
    """The options by which a group works: the broker may have got other limits since they were set."""
    limited = {
        options_of(GroupOptions)[name].field_name: min(
            max(value_of(group, name), value_of(broker, lowest)), value_of(broker, highest)
        )
        for name, (lowest, highest) in _LIMITS.items()
    }
    return GroupOptions(**limited)
