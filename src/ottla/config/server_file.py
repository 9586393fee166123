"""Reads the server.properties of an Apache Kafka broker (ADR 0017).

Options that Ottla has are used. Options without effect in Ottla are ignored and listed in `without_effect`, for a log
line. Options that would be dangerous to ignore are refused, and so are unknown ones.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from ottla.config import properties
from ottla.config.authorization import CLASS_OPTION, OF_AUTHORIZER
from ottla.config.broker import BrokerConfig
from ottla.config.options import find_option, options_of, unsupported_hint
from ottla.config.unsupported_broker_options import SET_ON_CLIENT
from ottla.errors import ConfigError
from ottla.model import Endpoint

_LISTENER: Final = re.compile(r"([A-Za-z0-9_-]+)://(\[[^\]]*\]|[^:]*):(\d+)")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# All interfaces, IPv4 and IPv6.
_ANY_HOST: Final = "::"
_PLACES: Final = ("listeners", "advertised.listeners", "log.dirs", "log.dir")
# Prefixes of options of other distributions of Kafka.
_OTHER_DISTRIBUTIONS: Final = ("confluent.",)
_REFUSED: Final = {
    "alter.config.policy.class.name": "its policy would not be enforced",
    "config.providers": "references to a provider would be taken literally",
    "create.topic.policy.class.name": "its policy would not be enforced",
    "log.message.timestamp.difference.max.ms": (
        "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "max.connections.per.ip.overrides": "use max.connections.per.ip",
}


class Listener(NamedTuple):
    """One of `listeners` or `advertised.listeners`."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        return f"{self.name}://{self.host}:{self.port}"


class ServerFile:
    """The contents of a server.properties file; listeners and folders are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._given = properties.load(path)
        self.options: dict[str, str] = {}
        without_effect = []
        for name, value in self._given.items():
            if name in _PLACES:
                continue
            self._check_not_dangerous(name, value)
            if name in OF_AUTHORIZER and not self._given.get(CLASS_OPTION, "").strip():
                without_effect.append(name)
            elif _is_supported(name):
                self.options[name] = value
            elif name.startswith(_OTHER_DISTRIBUTIONS) or unsupported_hint(
                BrokerConfig, name
            ) not in (
                None,
                SET_ON_CLIENT,
            ):
                without_effect.append(name)
            else:
                self._find(name)
        self.without_effect = tuple(without_effect)

    def _error(self, text: str) -> ConfigError:
        return ConfigError(f"{self._path}: {text}")

    def _find(self, name: str) -> None:
        try:
            find_option(BrokerConfig, name)
        except ConfigError as error:
            raise self._error(str(error)) from error

    def _check_not_dangerous(self, name: str, value: str) -> None:
        for refused, reason in _REFUSED.items():
            if name == refused or (refused.endswith(".") and name.startswith(refused)):
                raise self._error(f"{name} cannot be ignored: {reason}")
        if name == "remote.log.storage.system.enable" and value.strip().lower() == "true":
            raise self._error(
                f"{name}=true: there is no tiered storage, the records in it would be missing"
            )
        if name == "process.roles" and "broker" not in _parts(value):
            raise self._error(
                f"{name}={value} is the file of a controller: use the file of a broker"
            )
        if name.startswith("controller.quorum.") and len(_parts(value)) > 1:
            raise self._error(
                f"{name} names several nodes: this broker would be a cluster of its own; "
                "remove the line if that is what you want"
            )

    def listen(self) -> Endpoint | None:
        """The address to listen on; None if the file has none."""
        listener = self._listener("listeners", "--listen")
        if listener is None:
            return None
        return Endpoint(listener.host or _ANY_HOST, listener.port)

    def advertise(self) -> Endpoint | None:
        """The address for clients; None if the file has none."""
        listener = self._listener("advertised.listeners", "--advertise")
        if listener is None:
            return None
        if not listener.host:
            raise self._error(f"advertised.listeners: {listener} has no host for clients")
        return Endpoint(listener.host, listener.port)

    def data_dir(self) -> str | None:
        """The data folder; None if the file has none."""
        value = self._given.get("log.dirs") or self._given.get("log.dir")
        if value is None:
            return None
        folders = _parts(value)
        if len(folders) != 1:
            raise self._error(
                f"log.dirs={value} names {len(folders)} folders: only one is supported, choose it with --data DIR"
            )
        return folders[0]

    def _listener(self, option: str, flag: str) -> Listener | None:
        """The only listener of an option that is for clients."""
        value = self._given.get(option)
        if value is None or not value.strip():
            return None
        controllers = _parts(self._given.get("controller.listener.names", ""))
        found = [self._parse(option, text) for text in _parts(value)]
        usable = [listener for listener in found if listener.name not in controllers]
        named = ", ".join(map(str, usable))
        if len(usable) != 1:
            found_text = named or "none for clients"
            raise self._error(
                f"{option} names {found_text}: exactly one is supported, choose it with {flag} HOST:PORT"
            )
        if usable[0].protocol != "PLAINTEXT":
            raise self._error(
                f"{option} names {named}, but listeners are plain TCP without authentication: "
                f"if that is acceptable, give {flag} HOST:PORT"
            )
        return usable[0]

    def _parse(self, option: str, text: str) -> Listener:
        match = _LISTENER.fullmatch(text)
        if match is None or int(match[3]) > 65535:
            raise self._error(f"{option}: {text!r} is not NAME://HOST:PORT")
        name = match[1].upper()
        protocols = dict(
            part.upper().split(":", 1)
            for part in _parts(self._given.get("listener.security.protocol.map", ""))
            if ":" in part
        )
        protocol = protocols.get(name, name)
        if protocol not in _PROTOCOLS and name not in _parts(
            self._given.get("controller.listener.names", "")
        ):
            raise self._error(
                f"{option}: listener.security.protocol.map has no protocol for {name}"
            )
        return Listener(name, match[2].strip("[]"), int(match[3]), protocol)


def _is_supported(name: str) -> bool:
    options = options_of(BrokerConfig)
    return name in options or any(name in known.aliases for known in options.values())


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]
