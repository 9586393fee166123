"""The loggers of a broker as resources with configs (KIP-412): the name is a node id, the options are levels.

The levels belong to the process, and a restart forgets them, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.broker.config_resources.option_changes import (
    Operation,
    OptionChange,
)
from ottla.broker.node import Node
from ottla.config.describe import DescribedOption
from ottla.config.options import ConfigSource, OptionType
from ottla.core.catalog import Changes
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog

logger = EventLog(__name__)

ROOT: Final = "root"
OWN_LOGGERS: Final = "ottla"

# Kafka's names of the levels.
LEVELS: Final = {
    "TRACE": logging.DEBUG // 2,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


class LoggerResources:
    """The loggers of this broker: its own ones and the root."""

    stored_together = False

    def describe(self, node: Node, name: str) -> list[DescribedOption] | Refused:
        if not name:
            return _invalid("Broker id must not be empty")
        broker_id = _integer(name)
        if broker_id is None:
            return _invalid(f"Broker id must be an integer, but it is: {name}")
        if broker_id != node.node_id:
            return _invalid(f"Unexpected broker id, expected {node.node_id} but received {name}")
        return [
            DescribedOption(
                name=known,
                value=_level_name(_logger(known).getEffectiveLevel()),
                source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
                read_only=False,
                sensitive=False,
                type=OptionType.STRING,
                synonyms=(),
                documentation="",
            )
            for known in _names()
        ]

    def options_set(self, node: Node, name: str) -> Mapping[str, str] | Refused:
        """The levels of loggers that do not have that of their parent."""
        broker_id = _integer(name)
        if broker_id is None:
            return _invalid(f"Node id must be an integer, but it is: {name}")
        if broker_id != node.node_id:
            return _invalid(
                f"Unexpected node id. Expected {node.node_id}, but received {broker_id}"
            )
        levels = {known: _logger(known).level for known in _names()}
        return {known: _level_name(level) for known, level in levels.items() if level}

    def changed(
        self, changes: Sequence[OptionChange], current: Mapping[str, str]
    ) -> dict[str, str] | Refused:
        """The levels after the operations, or why they are refused."""
        levels = dict(current)
        known = set(_names())
        for operation, name, value in changes:
            refused = _check(operation, name, value, known)
            if refused is not None:
                return refused
            if operation == Operation.DELETE:
                levels.pop(name, None)
            elif value is not None:
                levels[name] = value
        return levels

    def check(self, node: Node, name: str, options: Mapping[str, str]) -> Refused | None:
        return None

    def changes(self, node: Node, changed: Mapping[str, Mapping[str, str]]) -> Changes:
        """None: the catalog does not have the levels."""
        return {}

    def changed_to(
        self, node: Node, name: str, before: Mapping[str, str], options: Mapping[str, str]
    ) -> None:
        for known in _names():
            level = LEVELS[options[known]] if known in options else logging.NOTSET
            its = _logger(known)
            # A level between two of Kafka's is left alone unless another one is asked for.
            is_same = its.level and level and _level_name(its.level) == options[known]
            if its.level != level and not is_same:
                its.setLevel(level)
                logger.warning(
                    "log_level_changed",
                    "logger %(name)s has the level %(new_level)s",
                    name=known,
                    new_level=options.get(known, "of its parent"),
                )

    def unset_list(self, node: Node, option: str) -> str | Refused:
        raise AssertionError("loggers have operations of their own")


def _check(operation: int, name: str, value: str | None, known: set[str]) -> Refused | None:
    if operation not in (Operation.SET, Operation.DELETE):
        what = (
            f"{Operation(operation).name} operation"
            if operation in (Operation.APPEND, Operation.SUBTRACT)
            else f"Unknown operation type {operation}"
        )
        return _invalid(f"{what} is not allowed for the BROKER_LOGGER resource")
    if name not in known:
        return Refused(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == Operation.DELETE:
        if name == ROOT:
            return _invalid("Removing the log level of the root logger is not allowed")
    elif value not in LEVELS:
        return Refused(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )
    return None


def _names() -> list[str]:
    """The root and the loggers of this package, also those that only have children."""
    # Another thread may make a logger meanwhile.
    known = list(logging.root.manager.loggerDict)
    return [
        ROOT,
        *sorted(one for one in known if one == OWN_LOGGERS or one.startswith(f"{OWN_LOGGERS}.")),
    ]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(level: int) -> str:
    """The name of the highest level that is not above."""
    return next((name for name, number in reversed(LEVELS.items()) if level >= number), "TRACE")


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
