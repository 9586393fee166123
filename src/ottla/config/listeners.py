"""The listeners of a broker: their names, protocols and addresses, and the options that each can have of its own."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, NamedTuple

from ottla.config.options import INT_MAX, ConfigOption, OptionType, find_option, option
from ottla.config.sasl import SaslConfig
from ottla.config.security import PROTOCOLS
from ottla.config.tls import TlsConfig
from ottla.config.unsupported_broker_options import (
    UNSUPPORTED_SASL_OPTIONS,
    UNSUPPORTED_TLS_OPTIONS,
)
from ottla.errors import ConfigError
from ottla.model import Endpoint

DEFAULT_LISTENER: Final = "PLAINTEXT"
DEFAULT_LISTEN: Final = "PLAINTEXT://127.0.0.1:9092"
DEFAULT_PROTOCOLS: Final = (
    "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
)
# All interfaces, IPv4 and IPv6.
ANY_HOST: Final = "::"
PREFIX: Final = "listener.name."
MAX_PORT: Final = 65535
_LISTENER: Final = re.compile(r"([A-Za-z0-9._-]+)://(\[[^\]]*\]|[^:]*):(\d+)", re.ASCII)
CLIENT_AUTH: Final = ("none", "requested", "required")


class NamedAddress(NamedTuple):
    """One part of `listeners` or `advertised.listeners`; the host may be empty."""

    name: str
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.name}://{self.endpoint}"


class ListenerSettings(NamedTuple):
    """A listener: where it listens, what clients get as its address, and how they speak there."""

    name: str
    protocol: str
    listen: Endpoint
    advertised: Endpoint | None

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether connections begin with SASL."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class ListenerConfig(TlsConfig, SaslConfig):
    """The options that a listener can have of its own, as `listener.name.<name>.<option>`.

    Without the prefix they are options of the broker, and the defaults of its listeners.
    """

    kind: ClassVar[str] = "option of listeners"
    unsupported: ClassVar[Mapping[str, str]] = {
        **UNSUPPORTED_TLS_OPTIONS,
        **UNSUPPORTED_SASL_OPTIONS,
    }

    max_connection_creation_rate: int = option(
        OptionType.INT,
        INT_MAX,
        at_least=1,
        doc="The most connections that the broker accepts in a second; others wait until it accepts them.",
        dynamic=True,
    )
    max_connections: int = option(
        OptionType.INT,
        INT_MAX,
        at_least=0,
        doc="The most connections that the broker keeps open.",
        dynamic=True,
    )
    ssl_client_auth: str = option(
        OptionType.STRING,
        "none",
        choices=CLIENT_AUTH,
        doc="Whether clients have to authenticate themselves by a certificate (required), "
        "may do so (requested), or are not asked for one (none).",
    )
    ssl_principal_mapping_rules: str = option(
        OptionType.STRING,
        "DEFAULT",
        doc="The rules that make a principal of the distinguished name of a client's certificate, "
        "the first that fits: RULE:pattern/replacement/, with L or U at the end for lower or upper "
        "case, or DEFAULT for the whole name.",
    )

    def check_for(self, listener: ListenerSettings) -> None:
        """Check the rules between the options of a listener."""
        where = f"listener {listener.name} ({listener.protocol})"
        if listener.uses_sasl:
            self.check_sasl(where)
        if not listener.uses_tls:
            return
        self.check_tls()
        if not self.has_keystore:
            raise ConfigError(
                f"{where} needs a certificate: give ssl.keystore.location, "
                "or ssl.keystore.key and ssl.keystore.certificate.chain"
            )
        if self.ssl_client_auth != "none" and not self.has_truststore:
            raise ConfigError(
                f"{where} has ssl.client.auth={self.ssl_client_auth}: give the certificates that "
                "clients' are checked by, as ssl.truststore.location or ssl.truststore.certificates"
            )


def listener_text(text: str) -> str:
    """A listener as `listeners` has it, of NAME://HOST:PORT or HOST:PORT, which is PLAINTEXT."""
    if "://" in text:
        return text.strip()
    return f"{DEFAULT_LISTENER}://{Endpoint.parse(text)}"


def advertised_text(text: str, listeners: Sequence[str]) -> str:
    """An advertised address as `advertised.listeners` has it; HOST:PORT is the only listener's, or PLAINTEXT's."""
    if "://" in text:
        return text.strip()
    names = [parse_address("listeners", each).name for each in listeners]
    if len(names) > 1 and DEFAULT_LISTENER not in names:
        raise ConfigError(f"{text!r} does not say for which listener: write NAME://{text}")
    name = names[0] if len(names) == 1 else DEFAULT_LISTENER
    return f"{name}://{Endpoint.parse(text)}"


def parse_address(option_name: str, text: str) -> NamedAddress:
    """Read NAME://HOST:PORT; names are in upper case, as Kafka has them."""
    match = _LISTENER.fullmatch(text.strip())
    if match is None or int(match[3]) > MAX_PORT:
        raise ConfigError(f"{option_name}: {text!r} is not NAME://HOST:PORT")
    return NamedAddress(match[1].upper(), Endpoint(match[2].strip("[]"), int(match[3])))


def following_ports(texts: Sequence[str], number: int) -> tuple[str, ...]:
    """The addresses of the node that comes `number` after the first; port 0 stays, which is any."""
    found = []
    for text in texts:
        name, (host, port) = parse_address("listeners", text)
        shown = f"[{host}]" if ":" in host else host
        found.append(f"{name}://{shown}:{port and port + number}")
    return tuple(found)


def protocols_of(text: str) -> dict[str, str]:
    """The protocol of each listener name, as listener.security.protocol.map has them."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = part.rpartition(":")
        if not separator or protocol.strip().upper() not in PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map: {part!r} is not NAME:PROTOCOL with one of "
                f"{', '.join(PROTOCOLS)}"
            )
        found[name.strip().upper()] = protocol.strip().upper()
    return found


def listeners_of(
    listeners: Sequence[str], advertised: Sequence[str] | None, protocol_map: str
) -> tuple[ListenerSettings, ...]:
    """The listeners by the three options of Kafka's."""
    protocols = protocols_of(protocol_map)
    addresses = [parse_address("listeners", text) for text in listeners]
    if not addresses:
        raise ConfigError("listeners is empty: give at least one, as in PLAINTEXT://127.0.0.1:9092")
    _refuse_repetitions("listeners", addresses)
    for_clients = [parse_address("advertised.listeners", text) for text in advertised or ()]
    _refuse_repetitions("advertised.listeners", for_clients)
    known = {address.name for address in addresses}
    for address in for_clients:
        if address.name not in known:
            raise ConfigError(f"advertised.listeners: listeners has no {address.name}")
        if address.endpoint.host in ("", "0.0.0.0", ANY_HOST):
            raise ConfigError(
                f"advertised.listeners: {address} has no host that clients can connect to"
            )
    given = {address.name: address.endpoint for address in for_clients}
    found = []
    for name, endpoint in addresses:
        protocol = protocols.get(name, name)
        if protocol not in PROTOCOLS:
            raise ConfigError(
                f"listeners: {name} is none of {', '.join(PROTOCOLS)}, and "
                "listener.security.protocol.map has no protocol for it"
            )
        listen = Endpoint(endpoint.host or ANY_HOST, endpoint.port)
        found.append(ListenerSettings(name, protocol, listen, given.get(name)))
    return tuple(found)


def _refuse_repetitions(option_name: str, addresses: Iterable[NamedAddress]) -> None:
    names = set[str]()
    ports = set[int]()
    for name, (_, port) in addresses:
        if name in names:
            raise ConfigError(f"{option_name} has two listeners with the name {name}: rename one")
        # Kafka has the same rule.
        if port and port in ports:
            raise ConfigError(f"{option_name} has port {port} twice: give each listener its own")
        names.add(name)
        ports.add(port)


def option_of_listener(name: str) -> ConfigOption | None:
    """The option that `listener.name.internal.ssl.client.auth` stands for; None for names without that prefix."""
    if not name.startswith(PREFIX):
        return None
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    if listener != listener.lower():
        raise ConfigError(f"{name}: write the name of the listener in lower case")
    known = find_option(ListenerConfig, rest)
    return replace(known, name=name, aliases=())


def connections_per_address(text: str) -> dict[str, int]:
    """The limits of max.connections.per.ip.overrides, by address."""
    limits = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, _, limit = part.rpartition(":")
        try:
            address = ipaddress.ip_address(host.strip().strip("[]"))
        except ValueError:
            address = None
        if address is None or not (limit.strip().isascii() and limit.strip().isdigit()):
            raise ConfigError(
                f"max.connections.per.ip.overrides: {part!r} is not ADDRESS:NUMBER, as in 10.0.0.1:100"
            )
        limits[str(address)] = int(limit)
    return limits
