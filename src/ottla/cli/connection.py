"""Clients for the cluster that the arguments of a command name."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import CommandError
from ottla.config import properties
from ottla.config.admin import AdminConfig
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.default_cluster import default_servers
from ottla.config.options import options_of
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigError
from ottla.model import Endpoint

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.blocking.producer import Producer

_DEFAULT_TIMEOUT_SECONDS: Final = 10.0
_CONNECT_TIMEOUT_SECONDS: Final = 3.0
# Options for --timeout; a producer also has a limit for deliveries.
_LIMITS: Final = frozenset({"default.api.timeout.ms", "max.block.ms"})
_DELIVERY_LIMITS: Final = frozenset({"delivery.timeout.ms", "request.timeout.ms"})
# Options that commands set: the argument that does so, and its flag.
_FLAGS: Final = {
    "acks": ("acks", "--acks"),
    "auto.offset.reset": ("start", "--from-beginning or --offset"),
    "compression.type": ("compression", "--compression"),
    "group.id": ("group", "--group"),
    "isolation.level": ("isolation", "--isolation"),
    "key.deserializer": ("key_deserializer", "--key-deserializer"),
    "transactional.id": ("transactional_id", "--transactional-id"),
    "value.deserializer": ("value_deserializer", "--value-deserializer"),
}
# Commands read and write bytes, and decode them themselves.
_READS_BYTES: Final = {"key_deserializer": "bytes", "value_deserializer": "bytes"}
_WRITES_BYTES: Final = {"key_serializer": "bytes", "value_serializer": "bytes"}
_KINDS: Final = (AdminConfig, ConsumerConfig, ProducerConfig)


def admin_of(arguments: Arguments) -> Admin:
    """An admin client for the cluster that the arguments name."""
    options = options_for(AdminConfig, arguments)
    _check_reachable(options, arguments.timeout)
    from ottla.client.blocking.admin import Admin

    return Admin(options)


def consumer_of(arguments: Arguments, **options: object) -> Consumer:
    """A consumer; `options` are the command's own, with underscores, and take precedence."""
    merged = options_for(ConsumerConfig, arguments, options | _READS_BYTES)
    _check_reachable(merged, arguments.timeout)
    from ottla.client.blocking.consumer import Consumer

    return Consumer(merged)


def inspecting_consumer_of(
    arguments: Arguments, *, shows_control: bool, shows_aborted: bool, **options: object
) -> Consumer:
    """A consumer that also returns control records, or records of aborted transactions."""
    merged = options_for(ConsumerConfig, arguments, options | _READS_BYTES)
    _check_reachable(merged, arguments.timeout)
    from ottla.client.blocking.consumer import InspectingConsumer

    return InspectingConsumer(merged, shows_control=shows_control, shows_aborted=shows_aborted)


def producer_of(arguments: Arguments, **options: object) -> Producer:
    """A producer; `options` as for `consumer_of`."""
    merged = options_for(ProducerConfig, arguments, options | _WRITES_BYTES)
    _check_reachable(merged, arguments.timeout)
    from ottla.client.blocking.producer import Producer

    return Producer(merged)


def options_for(
    kind: type[ClientConfig], arguments: Arguments, own: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Kafka's options of one kind of client: from the file, from -X, and the command's own.

    Options of other kinds of clients in the file and in -X are left out; options that no client has are an error.
    """
    typed = typed_options(arguments)
    mine = {name.replace("_", "."): value for name, value in (own or {}).items()}
    for name in typed.keys() & mine.keys():
        _check_conflict(arguments, name, typed[name], mine[name])
    options: dict[str, object] = {
        name: value
        for name, value in (file_options(arguments) | typed).items()
        if _is_for(kind, name)
    }
    if arguments.bootstrap_server is not None or "bootstrap.servers" not in options:
        options["bootstrap.servers"] = arguments.bootstrap_server or default_servers()
    if arguments.timeout is not None or not options.keys() & _LIMITS:
        limit_ms = int((arguments.timeout or _DEFAULT_TIMEOUT_SECONDS) * 1000)
        options |= {name: limit_ms for name in _LIMITS if _has(kind, name)}
        if kind is not ProducerConfig:
            options.setdefault("request.timeout.ms", min(30_000, limit_ms))
        elif arguments.timeout is not None and not options.keys() & _DELIVERY_LIMITS:
            # request.timeout.ms follows from it and linger.ms.
            options["delivery.timeout.ms"] = limit_ms
    return options | mine


def file_options(arguments: Arguments) -> dict[str, str]:
    """The options in the file of --command-config."""
    if arguments.command_config is None:
        return {}
    return dict(properties.load(Path(arguments.command_config)))


def typed_options(arguments: Arguments) -> dict[str, str]:
    """The options given with -X."""
    found = {}
    for text in arguments.client_options:
        name, separator, value = text.partition("=")
        if not separator:
            raise ConfigError(f"-X {text} has no value: write -X NAME=VALUE")
        found[name.strip()] = value
    return found


def _check_conflict(arguments: Arguments, name: str, typed: str, own: object) -> None:
    """Refuse a -X that the command overrides; the options of a file, which serves many commands, may be."""
    if own is None or typed.strip().lower() == str(own).lower():
        return
    of_command, flag = _FLAGS.get(name, (None, ""))
    advice = f"use {flag}" if of_command is not None and of_command in arguments else "leave it out"
    raise ConfigError(f"-X {name}={typed}: this command sets {name}={own} itself: {advice}")


def _is_for(kind: type[ClientConfig], name: str) -> bool:
    # Unknown options go to the client, which refuses them with advice.
    return _has(kind, name) or not any(_has(other, name) for other in _KINDS)


def _has(kind: type[ClientConfig], name: str) -> bool:
    options = options_of(kind)
    return name in options or any(name in each.aliases for each in options.values())


def _check_reachable(options: Mapping[str, object], timeout_seconds: float | None) -> None:
    """Fail at once if no broker accepts a connection; the client itself would keep trying."""
    servers = str(options["bootstrap.servers"]).split(",")
    # A server that does not answer must leave time for the others.
    limit_seconds = (
        _CONNECT_TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds / len(servers)
    )
    reasons = []
    for server in servers:
        endpoint = Endpoint.parse(server.strip())
        try:
            with socket.create_connection((endpoint.host, endpoint.port), limit_seconds):
                return
        except OSError as error:
            reasons.append(f"{endpoint}: {error.strerror or error}")
    raise CommandError(
        f"no broker can be reached ({'; '.join(reasons)})",
        "is one running there? `ottla serve` starts one, and -b HOST:PORT chooses its address",
    )


def log_to_stderr(arguments: Arguments) -> None:
    """Log errors of the client to stderr; with -v everything."""
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.ERROR,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
