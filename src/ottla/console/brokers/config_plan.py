"""What a change of brokers' configs does: for one broker, or as the default of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ottla.client.admin_model.configs import ConfigEntry, ConfigSynonym
from ottla.config.options import ConfigSource
from ottla.console.http.errors import bad_request
from ottla.console.topics.config_plan import ConfigChange, PlannedConfig
from ottla.console.topics.config_rows import source_title, state_of

Scope = Literal["broker", "all"]

_OWN_SOURCE: Mapping[Scope, ConfigSource] = {
    "broker": ConfigSource.DYNAMIC_BROKER_CONFIG,
    "all": ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
}


@dataclass(frozen=True)
class BrokerConfigPlan:
    """What a change does; values are those of the broker that was looked at. `steps` are sentences for people."""

    broker_id: int
    scope: Scope
    changes: list[PlannedConfig]
    steps: list[str]
    state: str
    """What the change has to bring: so that it is refused if a value was changed in between."""


def broker_config_plan(
    broker_id: int,
    scope: Scope,
    changes: Sequence[ConfigChange],
    entries: Mapping[str, ConfigEntry],
) -> BrokerConfigPlan:
    """The plan; a config that the brokers do not know, or do not let change while they run, is an error."""
    planned, steps = [], []
    for each in changes:
        entry = entries.get(each.name)
        if entry is None:
            raise bad_request(f"brokers have no config {each.name!r}")
        if entry.is_read_only:
            raise bad_request(
                f"{each.name} cannot be changed while brokers run",
                "change it in the broker's file or command line, and start the broker again",
            )
        own = _synonym(entry, _OWN_SOURCE[scope])
        if each.value is None and own is None:
            raise bad_request(
                f"{each.name} has no value of {_whose(scope, broker_id)} own that could be taken away"
            )
        if each.value is not None and own is not None and own.value == each.value:
            raise bad_request(f"{each.name} has the value {each.value!r} already")
        after, is_known = _value_after(entry, scope, each.value)
        source = source_title(entry.source)
        planned.append(
            PlannedConfig(each.name, entry.value, source, after, each.value is None, is_known)
        )
        steps += _steps(entry, scope, each.value, broker_id)
    state = state_of(entries[each.name] for each in changes)
    return BrokerConfigPlan(broker_id, scope, planned, steps, state)


def _value_after(entry: ConfigEntry, scope: Scope, value: str | None) -> tuple[str | None, bool]:
    """What this broker will use, and whether that is known."""
    if scope == "all" and _synonym(entry, _OWN_SOURCE["broker"]) is not None:
        return entry.value, True
    if value is not None:
        return (None if entry.is_sensitive else value), True
    rest = [each for each in entry.synonyms if each.source is not _OWN_SOURCE[scope]]
    return (rest[0].value, True) if rest else (None, False)


def _steps(entry: ConfigEntry, scope: Scope, value: str | None, broker_id: int) -> list[str]:
    steps = []
    if scope == "all":
        steps.append("It counts for every broker that has no value of its own.")
        if _synonym(entry, _OWN_SOURCE["broker"]) is not None:
            steps.append(f"Broker {broker_id} keeps its own value.")
    else:
        steps.append(
            f"It counts for broker {broker_id} alone, and wins over what all brokers have."
        )
    if value is None:
        steps.append("The value is taken away; what stands behind it counts again.")
    else:
        steps.append("Brokers use it at once, and after a start again.")
    return steps


def _synonym(entry: ConfigEntry, source: ConfigSource) -> ConfigSynonym | None:
    return next((each for each in entry.synonyms if each.source is source), None)


def _whose(scope: Scope, broker_id: int) -> str:
    return f"broker {broker_id}'s" if scope == "broker" else "all brokers'"
