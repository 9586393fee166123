"""The options that producers, consumers and admin clients share."""

from __future__ import annotations

import importlib
import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from ottla.config.options import (
    Importance,
    OptionType,
    dotted_names,
    find_option,
    option,
    options_of,
    value_of,
)
from ottla.config.security import SecurityConfig
from ottla.config.unsupported_client_options import LIKELY_MISTAKES, NAMES_IN_OTHER_CLIENTS
from ottla.errors import ConfigError
from ottla.model import Endpoint

logger = logging.getLogger("ottla.client")

_CLIENTS = {
    "producers": "ottla.config.producer:ProducerConfig",
    "consumers": "ottla.config.consumer:ConsumerConfig",
    "admin clients": "ottla.config.admin:AdminConfig",
}


@dataclass(frozen=True)
class ClientConfig(SecurityConfig):
    """The options that every client has, to find brokers and to connect to them.

    A default that conflicts with a given option is replaced: the fields have the effective values,
    `given` names the options that were given, and `notes` tell why a default was replaced.
    """

    kind: ClassVar[str] = "client option"
    id_prefix: ClassVar[str] = "client"

    notes: tuple[str, ...] = field(default=(), init=False, compare=False, repr=False)
    """Sentences for the log about defaults that were replaced."""

    bootstrap_servers: tuple[str, ...] = option(
        OptionType.LIST,
        (),
        doc="Brokers for the first connection, as HOST:PORT; the client learns the others from them.",
        importance=Importance.HIGH,
    )
    client_dns_lookup: str = option(
        OptionType.STRING,
        "use_all_dns_ips",
        choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        doc="How the client uses a host name that has several addresses: try them in turn, "
        "or replace each bootstrap server by the canonical host names of its addresses.",
    )
    client_id: str = option(
        OptionType.STRING,
        "",
        doc="The name of the client in the logs of brokers; the default is a name with a number.",
    )
    connections_max_idle_ms: int = option(
        OptionType.LONG,
        540_000,
        at_least=-1,
        doc="How long a connection may be idle before the client closes it; -1 keeps it open.",
    )
    enable_metrics_push: bool = option(
        OptionType.BOOLEAN,
        # Kafka's producers and consumers have true here.
        False,
        doc="Whether metrics are sent to the brokers (KIP-714); not available, only false is accepted.",
        importance=Importance.LOW,
    )
    metadata_max_age_ms: int = option(
        OptionType.LONG,
        300_000,
        at_least=0,
        doc="The age at which the client requests the metadata of the cluster again.",
        importance=Importance.LOW,
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        OptionType.LONG,
        300_000,
        at_least=0,
        doc="How long the client tries to get metadata from the brokers it knows before it starts "
        "again from bootstrap.servers (KIP-1102).",
        importance=Importance.LOW,
    )
    metadata_recovery_strategy: str = option(
        OptionType.STRING,
        "rebootstrap",
        choices=("rebootstrap", "none"),
        ignore_case=True,
        doc="How the client goes on when it can reach no known broker: rebootstrap starts again from "
        "bootstrap.servers (KIP-899), none keeps trying the known brokers.",
        importance=Importance.LOW,
    )
    receive_buffer_bytes: int = option(
        OptionType.INT,
        65_536,
        at_least=-1,
        doc="The size of the receive buffer of sockets; -1 leaves it to the operating system.",
    )
    reconnect_backoff_max_ms: int = option(
        OptionType.LONG,
        1000,
        at_least=0,
        doc="The longest pause between attempts to connect to a broker; pauses double up to it.",
        importance=Importance.LOW,
    )
    reconnect_backoff_ms: int = option(
        OptionType.LONG,
        50,
        at_least=0,
        doc="The first pause between attempts to connect to a broker.",
        importance=Importance.LOW,
    )
    request_timeout_ms: int = option(
        OptionType.INT,
        30_000,
        # Kafka accepts 0, with which no request ever succeeds.
        at_least=1,
        doc="How long the client waits for the answer to a request before it tries again or fails.",
    )
    retry_backoff_max_ms: int = option(
        OptionType.LONG,
        1000,
        at_least=0,
        doc="The longest pause before a request is repeated; pauses double up to it.",
        importance=Importance.LOW,
    )
    retry_backoff_ms: int = option(
        OptionType.LONG,
        100,
        at_least=0,
        doc="The first pause before a request is repeated.",
        importance=Importance.LOW,
    )
    send_buffer_bytes: int = option(
        OptionType.INT,
        131_072,
        at_least=-1,
        doc="The size of the send buffer of sockets; -1 leaves it to the operating system.",
    )
    socket_connection_setup_timeout_max_ms: int = option(
        OptionType.LONG,
        30_000,
        at_least=1,
        doc="The longest time that an attempt to connect may take; the time doubles with each failure.",
    )
    socket_connection_setup_timeout_ms: int = option(
        OptionType.LONG,
        10_000,
        at_least=1,
        doc="How long the first attempt to connect may take.",
    )

    def adjust_defaults(self) -> None:
        """Of a pair of limits, adjust the default one to the one that was given."""
        for low in ("reconnect.backoff", "retry.backoff", "socket.connection.setup.timeout"):
            self._adjust_pair(f"{low}.ms", f"{low}.max.ms")

    def validate(self) -> None:
        """Check the rules between options."""
        if not self.bootstrap_servers:
            raise ConfigError(
                "bootstrap.servers is missing: give the HOST:PORT of a broker or more"
            )
        for server in self.bootstrap_servers:
            protocol, separator, address = server.rpartition("://")
            if separator:
                raise ConfigError(
                    f"bootstrap.servers={server!r} begins with a protocol: write {address}, and "
                    f"set security.protocol if {protocol} matters"
                )
        _ = self.bootstrap_endpoints
        if self.enable_metrics_push:
            raise ConfigError(
                "enable.metrics.push=true is not available: remove it, and ask metrics()"
            )
        super().validate()

    @property
    def bootstrap_endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses of bootstrap.servers."""
        try:
            return tuple(Endpoint.parse(server) for server in self.bootstrap_servers)
        except ConfigError as error:
            raise ConfigError(f"bootstrap.servers is not valid: {error}") from error

    def as_mapping(self) -> dict[str, Any]:
        """All options by Kafka's names with their effective values, for `configure` of a plugin."""
        return {name: value_of(self, name) for name in options_of(type(self))}

    def default_client_id(self, number: int) -> str:
        """The client.id of the `number`th client of a process that was given none."""
        return f"{self.id_prefix}-{number}"

    @classmethod
    def advice_for(cls, name: str) -> str | None:
        """Advice, if another of our clients or another library has an option of this name."""
        for clients, path in _CLIENTS.items():
            module, _, class_name = path.partition(":")
            other = getattr(importlib.import_module(module), class_name)
            if other is not cls and name in options_of(other):
                return f"it is an option of {clients}, remove it here"
        if name in LIKELY_MISTAKES:
            return LIKELY_MISTAKES[name]
        for origin, names in NAMES_IN_OTHER_CLIENTS.items():
            instead = names.get(name) or names.get(name.replace(".", "_"))
            if instead is not None:
                advice = instead if instead.startswith("remove") else f"use {instead}"
                return f"it is {origin}'s name, {advice}"
        return None

    def _replace_default(self, name: str, value: object, reason: str) -> None:
        """Set an option that was not given, and note why."""
        object.__setattr__(self, name.replace(".", "_"), value)
        known = options_of(type(self))[name]
        object.__setattr__(
            self, "notes", (*self.notes, f"{name} is {known.render(value)}: {reason}")
        )

    def _adjust_pair(self, low: str, high: str) -> None:
        low_value, high_value = value_of(self, low), value_of(self, high)
        if low_value <= high_value:
            return
        if low in self.given and high in self.given:
            raise ConfigError(
                f"{low} ({low_value}) is above {high} ({high_value}): lower it or raise the other"
            )
        if low in self.given:
            self._replace_default(high, low_value, f"{low} was given and is above the default")
        else:
            self._replace_default(low, high_value, f"{high} was given and is below the default")


C = TypeVar("C", bound=ClientConfig)
_NUMBERS: dict[type[ClientConfig], itertools.count[int]] = {}


def _not_a_mapping(config_class: type[ClientConfig], config: object) -> ConfigError:
    """The error for a first argument that is not a dict; other libraries take topics or addresses there."""
    message = f"{config!r} is not a dict of options: give a dict with Kafka's names, or keywords"
    if isinstance(config, str):
        message += (
            f", as in bootstrap_servers={config!r}"
            if ":" in config or "group.id" not in options_of(config_class)
            else f"; topics are named by subscribe([{config!r}])"
        )
    return ConfigError(message)


def read_client_config(
    config_class: type[C], config: Mapping[str, object] | C | None, options: Mapping[str, object]
) -> C:
    """The config of a client, from the arguments of its constructor.

    `config` is a dict with Kafka's names, to which keywords with underscores are added; or a config that this function
    returned before, which stays as it is. An option that is None counts as not given. A client without client.id gets
    one. Replaced defaults are logged, so this is called once per client.
    """
    if isinstance(config, config_class):
        if options:
            names = ", ".join(options)
            raise ConfigError(f"{names}: a {config_class.__name__} takes no more options beside it")
        return config
    if config is not None and not isinstance(config, Mapping):
        raise _not_a_mapping(config_class, config)
    given = {}
    for source in (config or {}, options):
        for name in source:
            if not isinstance(name, str):
                raise ConfigError(f"{name!r} is not the name of an option: names are text")
        for name, value in dotted_names(source).items():
            if name in given:
                raise ConfigError(f"{name} is given in the dict and as a keyword: give it once")
            find_option(config_class, name)
            given[name] = value
    given = {name: value for name, value in given.items() if value is not None}
    read = config_class.read(given)
    if not read.client_id:
        number = next(_NUMBERS.setdefault(config_class, itertools.count(1)))
        read = config_class.read({**given, "client.id": read.default_client_id(number)})
    for note in read.notes:
        logger.warning("%s: %s", read.client_id, note)
    return read
