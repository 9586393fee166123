"""What a console is told when it starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.doors.door import Door
from ottla.errors import ConfigError
from ottla.model import Endpoint


@dataclass(frozen=True)
class ConsoleSettings:
    """`options` are Kafka's for the console's own clients, with dots."""

    options: Mapping[str, object]
    door: Door
    is_read_only: bool = False
    registry_url: str | None = None
    registry_options: Mapping[str, object] = field(default_factory=dict)
    internals_url: str | None = None
    """Where an Ottla broker tells what Kafka's protocol does not."""
    internals_options: Mapping[str, object] = field(default_factory=dict)
    """How it is reached: basic.auth.user.info or bearer.auth.token, and ssl.*, as of a registry's client."""
    login_options: Mapping[str, object] | None = None
    """How users of the cluster connect who log in with a password: addresses, TLS, SASL; None if they cannot."""
    token_file: str | os.PathLike[str] | None = None
    """The tokens of those who log in with one."""
    is_open: bool = False
    """Whether everybody may use a console without a login, also from other machines."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which browsers call the console, beside its address."""
    trusts_proxy: bool = False
    """Whether the X-Forwarded headers of requests are true."""

    broker_addresses: Mapping[int, Endpoint] = field(default_factory=dict)
    """Where others find the brokers that the console reaches without a network."""

    @property
    def has_login(self) -> bool:
        """Whether visitors have to log in."""
        return self.login_options is not None or self.token_file is not None

    def validate(self) -> None:
        """Raise a ConfigError where anybody on the network could use the console."""
        if self.is_open and self.has_login:
            raise ConfigError("a console is open, or has a login: leave one of them out")
        if not (self.has_login or self.is_open or self.door.is_local):
            raise ConfigError(
                f"{self.door.what} {self.door.endpoint}: anybody who reaches it could read and change everything: "
                "give the console a login (--login FILE, or a cluster with SASL), listen on 127.0.0.1, "
                "or say --open if that is meant"
            )
