"""Changing single options: the operations of IncrementalAlterConfigs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.config.options import Config, ConfigOption, OptionType, find_option
from ottla.core.outcomes import Refused
from ottla.errors import ConfigError, ErrorCode


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs, numbered as in Kafka."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class OptionChange(NamedTuple):
    """One operation on one option; clients may send numbers that are none of `Operation`."""

    operation: int
    name: str
    value: str | None


# The value of a list that is not set, by its name; refused if it is not a list.
UnsetList = Callable[[str], str | Refused]


def changed_options(
    unset_list: UnsetList, changes: Sequence[OptionChange], current: Mapping[str, str]
) -> dict[str, str] | Refused:
    """The options of a resource after the operations, which were checked, or why they are refused."""
    changed = dict(current)
    for change in changes:
        refused = _apply(unset_list, change, changed)
        if refused is not None:
            return refused
    return changed


def check_changes(changes: Sequence[OptionChange]) -> Refused | None:
    """No option may be changed twice in a request, and only a deletion needs no value."""
    times = Counter(change.name for change in changes)
    twice = sorted(name for name, count in times.items() if count > 1)
    if twice:
        return Refused(ErrorCode.INVALID_REQUEST, f"{', '.join(twice)} is named twice")
    null = [
        change.name
        for change in changes
        if change.value is None and change.operation != Operation.DELETE
    ]
    if null:
        return Refused(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(null)}"
        )
    return None


def _apply(unset_list: UnsetList, change: OptionChange, changed: dict[str, str]) -> Refused | None:
    """One operation, in place."""
    operation, name, value = change
    if operation == Operation.DELETE:
        changed.pop(name, None)
        return None
    assert value is not None, "checked by check_changes"
    if operation == Operation.SET:
        changed[name] = value
        return None
    if operation not in (Operation.APPEND, Operation.SUBTRACT):
        return Refused(ErrorCode.INVALID_REQUEST, f"there is no operation {operation} on options")
    default = unset_list(name)
    if isinstance(default, Refused):
        return default
    items = [item for item in changed.get(name, default).split(",") if item]
    given = [item.strip() for item in value.split(",")]
    if operation == Operation.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    changed[name] = ",".join(items)
    return None


def find_list_option(config_class: type[Config], name: str) -> ConfigOption | Refused:
    """The option with this name, which must be a list."""
    try:
        known = find_option(config_class, name)
    except ConfigError as error:
        return Refused(ErrorCode.INVALID_CONFIG, str(error))
    if known.type is not OptionType.LIST:
        return Refused(
            ErrorCode.INVALID_CONFIG, f"{name} is not a list: it can only be set or deleted"
        )
    return known
