"""Reads the server.properties of an Apache Kafka broker (ADR 0017).

Options that Ottla has are used. Options without effect in Ottla are ignored and listed in `without_effect`, for a log
line. Options that would be dangerous to ignore are refused, and so are unknown ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ottla.config import properties
from ottla.config.authorization import CLASS_OPTION, OF_AUTHORIZER
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import (
    DEFAULT_LISTEN,
    PREFIX,
    ListenerConfig,
    listeners_of,
    parse_address,
)
from ottla.config.options import find_option, options_of, unsupported_hint
from ottla.config.sasl import MECHANISMS, SCRAM, is_about_sasl
from ottla.config.unsupported_broker_options import SET_ON_CLIENT
from ottla.errors import ConfigError

_LISTENERS: Final = ("listeners", "advertised.listeners")
_PLACES: Final = (*_LISTENERS, "listener.security.protocol.map", "log.dirs", "log.dir")
# Prefixes of options of other distributions of Kafka.
_OTHER_DISTRIBUTIONS: Final = ("confluent.",)
# The names that it gives to clients are those that Ottla gives them.
_KAFKAS_PRINCIPALS: Final = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
)
_REFUSED: Final = {
    "alter.config.policy.class.name": "its policy would not be enforced",
    "config.providers": "references to a provider would be taken literally",
    "create.topic.policy.class.name": "its policy would not be enforced",
    "principal.builder.class": "clients would have other names than ACLs have for them",
    "log.message.timestamp.difference.max.ms": (
        "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
}


class ServerFile:
    """The contents of a server.properties file; the folder is read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._given = properties.load(path)
        self.options: dict[str, str] = {}
        without_effect = []
        for name, value in self._given.items():
            if name in _PLACES:
                continue
            self._check_not_dangerous(name, value)
            has_authorizer = bool(self._given.get(CLASS_OPTION, "").strip())
            if _is_without_meaning(name) or (name in OF_AUTHORIZER and not has_authorizer):
                without_effect.append(name)
            elif _is_supported(name):
                self.options[name] = value
            else:
                self._find(name)
        self._add_listeners()
        unused = [name for name in self.options if self._is_unused(name)]
        for name in unused:
            del self.options[name]
        self.without_effect = (*unused, *without_effect)

    def _error(self, text: str) -> ConfigError:
        return ConfigError(f"{self._path}: {text}")

    def _find(self, name: str) -> None:
        try:
            find_option(BrokerConfig, name)
        except ConfigError as error:
            raise self._error(str(error)) from error

    def _check_not_dangerous(self, name: str, value: str) -> None:
        if name == "principal.builder.class" and value.strip() == _KAFKAS_PRINCIPALS:
            return
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

    def _add_listeners(self) -> None:
        """Adds the options about listeners, without those of controllers."""
        controllers = self._controllers
        for option_name in _LISTENERS:
            texts = _parts(self._given.get(option_name, ""))
            for_clients = [
                text for text in texts if parse_address(option_name, text).name not in controllers
            ]
            if texts and not for_clients:
                raise self._error(
                    f"{option_name} names none for clients: give one, or use --listen HOST:PORT"
                )
            if for_clients:
                self.options[option_name] = ",".join(for_clients)
        protocols = [
            part
            for part in _parts(self._given.get("listener.security.protocol.map", ""))
            if part.rpartition(":")[0].strip().upper() not in controllers
        ]
        if protocols:
            self.options["listener.security.protocol.map"] = ",".join(protocols)

    @property
    def _controllers(self) -> list[str]:
        """The names of listeners that are not for clients."""
        names = _parts(self._given.get("controller.listener.names", ""))
        return [name.upper() for name in (*names, "CONTROLLER")]

    def _is_unused(self, name: str) -> bool:
        """Whether the option is about TLS or SASL, which no listener speaks, or about a listener of controllers.

        Kafka ignores such options, too.
        """
        if name.startswith(PREFIX):
            listener, _, rest = name.removeprefix(PREFIX).partition(".")
            if listener.upper() in self._controllers:
                return True
            mechanism = rest.partition(".")[0].upper()
            return mechanism in MECHANISMS and mechanism not in self._enabled_mechanisms(listener)
        texts = _parts(self.options.get("listeners", ""))
        protocols = self.options.get("listener.security.protocol.map", "")
        listeners = listeners_of(texts or [DEFAULT_LISTEN], None, protocols)
        if name.startswith("ssl."):
            return not any(each.uses_tls for each in listeners)
        return is_about_sasl(name) and not any(each.uses_sasl for each in listeners)

    def _enabled_mechanisms(self, listener: str) -> list[str]:
        name = "sasl.enabled.mechanisms"
        given = self._given.get(f"{PREFIX}{listener}.{name}", self._given.get(name))
        return [*SCRAM] if given is None else _parts(given)

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


def _is_without_meaning(name: str) -> bool:
    """Whether Kafka has the option, and nothing here depends on it."""
    if name.startswith(_OTHER_DISTRIBUTIONS):
        return True
    if not name.startswith(PREFIX):
        return unsupported_hint(BrokerConfig, name) not in (None, SET_ON_CLIENT)
    option = name.removeprefix(PREFIX).partition(".")[2]
    mechanism, _, rest = option.partition(".")
    option = rest if mechanism.upper() in MECHANISMS else option
    return unsupported_hint(ListenerConfig, option) not in (None, SET_ON_CLIENT)


def _is_supported(name: str) -> bool:
    options = options_of(BrokerConfig)
    if name.startswith(PREFIX):
        return True
    return name in options or any(name in known.aliases for known in options.values())


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]
