"""How a broker serves its console, and whether that is safe."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.doors.door import Door
from ottla.errors import ConfigError

# What a user of a console can log in with, the best first.
_PASSWORD_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_PACKAGES: Final = ("starlette", "uvicorn", "httpx")


@dataclass(frozen=True)
class UserLogin:
    """The listener whose users log in to the console with their passwords."""

    listener: str
    mechanisms: tuple[str, ...]


@dataclass(frozen=True)
class BrokerConsole:
    """Where the console listens, and for whom."""

    door: Door
    token_file: str | os.PathLike[str] | None = None
    """The tokens of those who log in with one."""
    is_read_only: bool = False
    is_open: bool = False
    """Whether everybody who reaches it may use it, with all rights."""
    allowed_hosts: tuple[str, ...] = ()
    trusts_proxy: bool = False
    log_format: str = "text"
    log_level: str = "error"
    """What the console writes to the broker's stderr."""

    def validate(self, config: BrokerConfig) -> None:
        """Raise a ConfigError where a console cannot be served, or strangers could use it."""
        for package in _PACKAGES:
            if importlib.util.find_spec(package) is None:
                raise ConfigError(
                    f"the console needs packages that are not installed ({package}): "
                    "pip install 'ottla[console]'"
                )
        if self.is_open or self.token_file is not None or user_login_of(config) is not None:
            return
        what, address = self.door.what, self.door.endpoint
        is_flag = what.startswith("--")
        login = f"{what}-login FILE" if is_flag else f"{what}_login=FILE"
        otherwise = f", or say {what}-open if that is meant" if is_flag else ""
        if not self.door.is_local:
            raise ConfigError(
                f"{what} {address}: anybody who reaches it could read and change everything: give it a login "
                f"({login}, or a listener with SASL), or listen on 127.0.0.1{otherwise}"
            )
        if _asks_clients_who_they_are(config):
            raise ConfigError(
                f"{what} {address}: it would have no login, but clients of this broker need one: give it tokens "
                f"({login}), or a listener where users have passwords{otherwise}"
            )


def user_login_of(config: BrokerConfig) -> UserLogin | None:
    """The first listener with passwords; None if there is none."""
    for listener in config.all_listeners:
        if listener.uses_sasl:
            enabled = config.of_listener(listener.name).sasl_enabled_mechanisms
            mechanisms = tuple(each for each in _PASSWORD_MECHANISMS if each in enabled)
            if mechanisms:
                return UserLogin(listener.name, mechanisms)
    return None


def _asks_clients_who_they_are(config: BrokerConfig) -> bool:
    """Whether a console without a login would be a way around the broker's own."""
    if config.authorizer_class_name:
        return True
    return all(
        listener.uses_sasl
        or (listener.uses_tls and config.of_listener(listener.name).ssl_client_auth == "required")
        for listener in config.all_listeners
    )
