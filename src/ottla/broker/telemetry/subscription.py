"""Subscriptions to metrics of clients: which clients they are about, and what these push."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.broker.requests.patterns import PatternError, SmallPattern
from ottla.config.client_metrics import (
    CLIENT_ATTRIBUTES,
    MAX_INTERVAL_MS,
    MIN_INTERVAL_MS,
    ClientMetricsConfig,
)
from ottla.config.options import options_of
from ottla.core.outcomes import Refused
from ottla.errors import ConfigError, ErrorCode

MAX_SUBSCRIPTIONS = 1000
MAX_NAME_CHARS = 249  # as in names of topics
MAX_OPTION_CHARS = 8192


class Subscription(NamedTuple):
    """The metrics that are wanted of the clients whose attributes match all patterns."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, SmallPattern]

    def includes(self, attributes: Mapping[str, str]) -> bool:
        """Whether it is about the client with these attributes."""
        return all(
            name in attributes and pattern.matches(attributes[name])
            for name, pattern in self.patterns.items()
        )


def read_subscription(options: Mapping[str, str]) -> Subscription:
    """The subscription with these options, which have been checked."""
    config = ClientMetricsConfig.read(options)
    return Subscription(config.metrics, config.interval_ms, _patterns(config.match))


def _patterns(match: tuple[str, ...]) -> dict[str, SmallPattern]:
    patterns = {}
    for item in match:
        attribute, *rest = (part.strip() for part in item.split("="))
        if len(rest) != 1 or not rest[0]:
            raise ConfigError(f"Illegal client matching pattern: {item}: write attribute=pattern")
        if attribute not in CLIENT_ATTRIBUTES:
            raise ConfigError(
                f"Illegal client matching pattern: {item}: the attributes of a client are "
                f"{', '.join(CLIENT_ATTRIBUTES)}"
            )
        try:
            patterns[attribute] = SmallPattern(rest[0])
        except PatternError as error:
            raise ConfigError(
                f"Illegal client matching pattern: {item}: not a pattern of RE2: {error}"
            ) from error
    return patterns


def check_subscription(name: str, options: Mapping[str, str]) -> Refused | None:
    """Whether there may be a subscription with this name and these options, with Kafka's errors if not."""
    problem = _name_problem(name) or _option_problem(options)
    if problem is not None:
        return Refused(ErrorCode.INVALID_REQUEST, problem)
    try:
        interval_ms = ClientMetricsConfig.read(options).interval_ms
        if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
            problem = (
                f"Invalid value {interval_ms} for interval.ms, interval must be between "
                f"{MIN_INTERVAL_MS} and {MAX_INTERVAL_MS} (1 hour)"
            )
            return Refused(ErrorCode.INVALID_REQUEST, problem)
        read_subscription(options)
    except ConfigError as error:
        return Refused(ErrorCode.INVALID_CONFIG, str(error))
    return None


def _name_problem(name: str) -> str | None:
    if not name:
        return "Subscription name can't be empty"
    if len(name) > MAX_NAME_CHARS:
        return f"the name of a subscription has at most {MAX_NAME_CHARS} characters"
    return None


def _option_problem(options: Mapping[str, str]) -> str | None:
    for name, text in options.items():
        if name not in options_of(ClientMetricsConfig):
            return f"Unknown client metrics configuration: {name}"
        if len(text) > MAX_OPTION_CHARS:
            return f"{name} has more than {MAX_OPTION_CHARS} characters"
    return None
