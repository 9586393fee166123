"""What a change of a topic's configs does: the values before and after, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.admin_model.configs import (
    AlterConfig,
    AlterConfigOperation,
    ConfigEntry,
)
from ottla.console.http.errors import bad_request
from ottla.console.topics.config_rows import config_row, state_of

MAX_CHANGES: Final = 100
MAX_VALUE_CHARS: Final = 10_000
_DAY_MS: Final = 86_400_000
_UNITS: Final = ((_DAY_MS, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


@dataclass(frozen=True)
class ConfigChange:
    """A new value for a config; null takes the topic's own value away."""

    name: str
    value: str | None


@dataclass(frozen=True)
class PlannedConfig:
    """A config before and after."""

    name: str
    before: str | None
    before_source: str
    after: str | None
    is_reset: bool
    """Whether the topic's own value is taken away."""
    is_after_known: bool
    """Whether the cluster tells what a reset leads to."""


@dataclass(frozen=True)
class ConfigPlan:
    """What a change does; `steps` are sentences for people."""

    topic: str
    changes: list[PlannedConfig]
    steps: list[str]
    state: str
    """What the change has to bring: so that it is refused if a value was changed in between."""


def check_changes(changes: Sequence[ConfigChange]) -> None:
    """Raise ApiError where a request makes no sense whatever the topic has."""
    if not 0 < len(changes) <= MAX_CHANGES:
        raise bad_request(f"give 1 to {MAX_CHANGES} configs to change")
    names = [each.name for each in changes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise bad_request(f"the config {twice!r} is given twice")
    for each in changes:
        if each.value is not None and len(each.value) > MAX_VALUE_CHARS:
            raise bad_request(
                f"the value of {each.name} has more than {MAX_VALUE_CHARS} characters"
            )


def alter_configs(changes: Iterable[ConfigChange]) -> list[AlterConfig]:
    """What the cluster is asked to do."""
    return [
        AlterConfig(each.name, operation=AlterConfigOperation.DELETE)
        if each.value is None
        else AlterConfig(each.name, each.value)
        for each in changes
    ]


def config_plan(
    topic: str,
    changes: Sequence[ConfigChange],
    entries: Mapping[str, ConfigEntry],
    replication_factor: int,
) -> ConfigPlan:
    """The plan; a config that the cluster does not know, or does not let change, is an error."""
    planned = []
    steps = []
    for each in changes:
        entry = entries.get(each.name)
        if entry is None:
            raise bad_request(f"topics have no config {each.name!r}")
        if entry.is_read_only:
            raise bad_request(f"{each.name} is read-only: the cluster does not let it change")
        row = config_row(entry)
        if each.value is None and not row.is_set:
            raise bad_request(
                f"{each.name} has no value of the topic's own that could be taken away"
            )
        if each.value is not None and row.is_set and each.value == row.value:
            raise bad_request(f"{each.name} has the value {each.value!r} already")
        after = row.fallback_value if each.value is None else each.value
        is_known = each.value is not None or row.has_fallback
        planned.append(
            PlannedConfig(each.name, row.value, row.source, after, each.value is None, is_known)
        )
        if is_known and not entry.is_sensitive:
            steps += _consequences(each.name, row.value or "", after or "", replication_factor)
    state = state_of(entries[each.name] for each in changes)
    return ConfigPlan(topic, planned, steps, state)


def _consequences(name: str, before: str, after: str, replication_factor: int) -> list[str]:
    told = _CONSEQUENCES.get(name)
    if told is None or before == after:
        return []
    try:
        return told(before, after, replication_factor)
    except ValueError:
        # The cluster says what is wrong with the value.
        return []


def _retention_time(before: str, after: str, _: int) -> list[str]:
    old, new = int(before), int(after)
    if new < 0:
        return ["Records are no longer deleted because of their age."]
    if 0 <= old <= new:
        return [f"Records are kept for {_time(new)} instead of {_time(old)}."]
    return [
        f"Records older than {_time(new)} are deleted with the next check of the retention. "
        "That cannot be undone."
    ]


def _retention_size(before: str, after: str, _: int) -> list[str]:
    old, new = int(before), int(after)
    if new < 0:
        return ["Records are no longer deleted because of the size of a partition."]
    if 0 <= old <= new:
        return [f"Each partition may grow to {new:,} bytes instead of {old:,}."]
    return [
        f"Partitions with more than {new:,} bytes lose their oldest segments with the next check of the "
        "retention. That cannot be undone."
    ]


def _cleanup(before: str, after: str, _: int) -> list[str]:
    old, new = ({part.strip() for part in text.split(",")} for text in (before, after))
    steps = []
    if "compact" in new - old:
        steps.append(
            "Compaction begins: of each key only the last record is kept, and writes without a key are refused."
        )
    if "compact" in old - new:
        steps.append("Compaction ends: what it removed does not come back.")
    if "delete" in new - old:
        steps.append("Records are deleted by retention.ms and retention.bytes from now on.")
    if "delete" in old - new:
        steps.append("Records are no longer deleted because of their age or size.")
    return steps


def _min_in_sync(before: str, after: str, replication_factor: int) -> list[str]:
    new = int(after)
    if new > replication_factor:
        return [
            f"The topic has {replication_factor} replica{'' if replication_factor == 1 else 's'}, fewer than {new}: "
            "all writes with acks=all are refused from now on."
        ]
    if new > int(before):
        return [f"Writes with acks=all are refused while fewer than {new} replicas are in sync."]
    return []


def _batch_size(before: str, after: str, _: int) -> list[str]:
    if int(after) < int(before):
        return [f"Batches of more than {int(after):,} bytes are refused from now on."]
    return [
        f"Batches of up to {int(after):,} bytes are accepted: consumers need the memory to read them."
    ]


def _timestamps(before: str, after: str, _: int) -> list[str]:
    if after == "LogAppendTime":
        return ["New records get the broker's time instead of their producers' timestamps."]
    return ["New records keep their producers' timestamps."]


def _time(ms: int) -> str:
    for size, unit in _UNITS:
        if ms >= size and ms % size == 0:
            return f"{ms // size:,} {unit}{'' if ms == size else 's'}"
    return f"{ms:,} ms"


_CONSEQUENCES: Final[Mapping[str, Callable[[str, str, int], list[str]]]] = {
    "retention.ms": _retention_time,
    "retention.bytes": _retention_size,
    "cleanup.policy": _cleanup,
    "min.insync.replicas": _min_in_sync,
    "max.message.bytes": _batch_size,
    "message.timestamp.type": _timestamps,
}
