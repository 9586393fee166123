"""What the broker tells its console over stdin, so that no secret is among the arguments of a process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from ottla.broker.console.broker_console import BrokerConsole
from ottla.broker.console.console_servers import ConsoleServers
from ottla.config.options import options_of
from ottla.config.tls import TlsConfig
from ottla.errors import ConfigError

# A pipe takes as much at once, whether the child reads or not.
MAX_BYTES: Final = 60_000


@dataclass(frozen=True)
class RegistryAccess:
    """How the console reaches the broker's schema registry: the options of its client."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ChildSettings:
    """The settings of a console and the file descriptors that it inherits."""

    channel: int
    """The end of the channel through which it gets connections."""
    listening: int
    """The socket where browsers connect."""
    host: str
    port: int
    brokers: str
    internals: str
    brokers_of_users: str | None
    mechanisms: tuple[str, ...]
    addresses: Mapping[str, str]
    """Where other clients find the brokers, by their ids."""
    what: str
    certificate: Mapping[str, str] | None = field(repr=False)
    token_file: str | None
    is_read_only: bool
    is_open: bool
    allowed_hosts: tuple[str, ...]
    trusts_proxy: bool
    log_format: str
    log_level: str
    registry: RegistryAccess | None

    def encode(self) -> bytes:
        """As JSON."""
        data = json.dumps(asdict(self)).encode()
        if len(data) > MAX_BYTES:
            raise ConfigError(f"the settings of the console have more than {MAX_BYTES} bytes")
        return data

    @classmethod
    def decode(cls, data: bytes) -> ChildSettings:
        """Of what `encode` made."""
        fields = json.loads(data)
        fields["mechanisms"] = tuple(fields["mechanisms"])
        fields["allowed_hosts"] = tuple(fields["allowed_hosts"])
        if fields["registry"] is not None:
            fields["registry"] = RegistryAccess(**fields["registry"])
        return cls(**fields)


def child_settings(
    console: BrokerConsole,
    servers: ConsoleServers,
    registry: RegistryAccess | None,
    *,
    channel: int,
    listening: int,
) -> ChildSettings:
    """The settings of a child for the door where it listens."""
    door, tokens = console.door, console.token_file
    return ChildSettings(
        channel=channel,
        listening=listening,
        host=door.endpoint.host,
        port=door.endpoint.port,
        brokers=servers.brokers,
        internals=servers.internals,
        brokers_of_users=servers.brokers_of_users,
        mechanisms=servers.mechanisms,
        addresses={str(node): str(address) for node, address in servers.addresses.items()},
        what=door.what,
        certificate=None if door.certificate is None else _tls_options(door.certificate),
        token_file=None if tokens is None else str(tokens),
        is_read_only=console.is_read_only,
        is_open=console.is_open,
        allowed_hosts=console.allowed_hosts,
        trusts_proxy=console.trusts_proxy,
        log_format=console.log_format,
        log_level=console.log_level,
        registry=registry,
    )


def _tls_options(certificate: TlsConfig) -> dict[str, str]:
    """Without the other options of the listener that the certificate is of."""
    known = options_of(TlsConfig)
    return {name: text for name, text in certificate.texts().items() if name in known}
