"""Reads the options that a query was given, by the table in `options`.

Spark lowers the names of options, so they are compared in lower case.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import options_of
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigError
from ottla.spark.options import (
    BY_KEY,
    KAFKA_PREFIX,
    OPTIONS,
    READS,
    REFUSED,
    REFUSED_READING,
    REFUSED_WRITING,
    Use,
)


def check_names(given: Mapping[str, str], *uses: Use) -> None:
    """Refuse options that do not exist or that none of these kinds of queries has."""
    for name in given:
        if not any(is_known_to(name, use) for use in uses):
            raise ConfigError(_refusal(name, name.lower(), uses))


def is_known_to(name: str, use: Use) -> bool:
    """Whether a kind of query has an option of this name; those with the prefix kafka. are checked elsewhere."""
    key = name.lower()
    return key.startswith(KAFKA_PREFIX) or (key in BY_KEY and use in BY_KEY[key].uses)


def _refusal(name: str, key: str, uses: Sequence[Use]) -> str:
    if key in BY_KEY:
        wanted = _any_of(BY_KEY[key].uses)
        return f"{BY_KEY[key].name} is for {wanted}, and this is {_any_of(uses)}: remove it"
    for refused, hint in REFUSED.items():
        if key == refused or (refused.endswith(".") and key.startswith(refused)):
            return f"{name} is not an option of format('ottla'): {hint}"
    served = [option.name for option in OPTIONS if set(uses) & set(option.uses)]
    kafka = [KAFKA_PREFIX + known for use in uses for known in options_of(_client_of(use))]
    lower = {option.lower(): option for option in (*served, *kafka)}
    nearest = difflib.get_close_matches(key, lower, n=1, cutoff=0.6)
    advice = f"did you mean {lower[nearest[0]]}?" if nearest else "remove it or check its spelling"
    return f"{name!r} is not an option of format('ottla'): {advice}"


def _any_of(uses: Iterable[Use]) -> str:
    return " or ".join(use.value for use in uses)


def values(given: Mapping[str, str], use: Use) -> dict[str, Any]:
    """The values of all options that a kind of query has, by their names in the table."""
    check_names(given, use)
    texts = {name.lower(): value for name, value in given.items()}
    found: dict[str, Any] = {}
    for option in OPTIONS:
        if use not in option.uses:
            continue
        if option.key not in texts:
            found[option.name] = option.default
            continue
        try:
            found[option.name] = option.parse(texts[option.key])
        except ValueError as error:
            raise ConfigError(
                f"{option.name}={texts[option.key]!r} is not valid: it must be {error}"
            ) from None
    return found


def _client_of(use: Use) -> type[ClientConfig]:
    return ConsumerConfig if use in READS else ProducerConfig


# The operating system sizes the socket buffers: with Kafka's 64 and 128 KB, sender and receiver of megabytes wait for
# each other again and again.
_GROWING_BUFFERS: Final = {"receive.buffer.bytes": "-1", "send.buffer.bytes": "-1"}


def kafka_options(given: Mapping[str, str], use: Use) -> dict[str, str]:
    """The options of Kafka's clients, without their prefix, checked."""
    refused = REFUSED_READING if use in READS else REFUSED_WRITING
    found = dict(_GROWING_BUFFERS)
    for name, value in given.items():
        key = name.lower()
        if not key.startswith(KAFKA_PREFIX):
            continue
        bare = key.removeprefix(KAFKA_PREFIX)
        if bare in refused:
            raise ConfigError(f"{key} cannot be set: {refused[bare]}")
        found[bare] = value
    if "bootstrap.servers" not in found:
        raise ConfigError(
            "kafka.bootstrap.servers is missing: give the HOST:PORT of a broker or more"
        )
    try:
        _client_of(use).read(found)
    except ConfigError as error:
        raise ConfigError(f"An option that begins with {KAFKA_PREFIX}: {error}") from error
    return found


def shared_options(kafka: Mapping[str, str], use: Use) -> dict[str, str]:
    """Of options for several clients, without prefix, those for the client of this kind of query.

    Options that no client has are included: the client refuses them, with its own advice.
    """
    mine = options_of(_client_of(use))
    known = {*options_of(ConsumerConfig), *options_of(ProducerConfig)}
    for name in kafka:
        nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.8)
        if nearest and name.lower() not in known:
            raise ConfigError(
                f"{name!r} is not an option of Kafka's clients: did you mean {nearest[0]}?"
            )
    return {
        name: value
        for name, value in kafka.items()
        if name.lower() in mine or name.lower() not in known
    }


def options_for(client: type[ClientConfig], kafka: Mapping[str, str]) -> dict[str, str]:
    """Those options of a consumer or producer that another client has too."""
    known = options_of(client)
    return {name: value for name, value in kafka.items() if name in known}
