"""A listener of a node: its sockets, how clients speak there, and how many there are."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Final

from ottla.broker.network.listen_error import ListenError
from ottla.broker.security.listener_tls import ListenerTls
from ottla.config.listeners import ANY_HOST, PREFIX, ListenerConfig, ListenerSettings
from ottla.config.options import INT_MAX
from ottla.event_loop import addresses_of
from ottla.model import Endpoint

BACKLOG: Final = 1024


class Listener:
    """Where connections come from: they have its name, its protocol and its limit."""

    def __init__(
        self,
        settings: ListenerSettings,
        config: ListenerConfig,
        inherited: Sequence[socket.socket] = (),
    ) -> None:
        """`inherited` are sockets that were bound for it before: to the address of the settings, and others."""
        self.settings = settings
        self._inherited = inherited
        self.name = settings.name
        self.endpoint = settings.listen
        self.max_connections_name = f"{PREFIX}{settings.name.lower()}.max.connections"
        # The listener whose users log in here, and whose logins count.
        self.login_name = settings.name
        self.connections = 0
        self.most_connections = INT_MAX
        self._servers: list[asyncio.Server] = []
        # Whether every client has proved who it is before it is served.
        self.authenticates = authenticates(settings, config)
        self.tls = ListenerTls(settings.name, config) if settings.uses_tls else None

    @property
    def requires_login(self) -> bool:
        """Whether clients have to authenticate themselves by SASL before any other request."""
        return self.settings.uses_sasl

    async def bind(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        """Binds the port; `endpoint` then has the one that the system picked."""
        try:
            await self._bind(make_protocol)
        except OSError as error:
            raise ListenError(self.settings.listen, error) from error

    async def _bind(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        sockets, self.endpoint = self._inherited, self.settings.listen
        if not sockets:
            sockets, self.endpoint = await bind_all(self.settings.listen)
        for each in sockets:
            self._servers.append(
                await asyncio.get_running_loop().create_server(
                    make_protocol, sock=each, backlog=BACKLOG, start_serving=False
                )
            )

    async def serve(self) -> None:
        """Accepts connections."""
        try:
            for server in self._servers:
                await server.start_serving()
        except OSError as error:
            raise ListenError(self.settings.listen, error) from error

    @property
    def sockets(self) -> list[socket.socket]:
        """The sockets that listen."""
        return [listening for server in self._servers for listening in server.sockets]

    @property
    def is_on_loopback(self) -> bool:
        """Whether only programs of this machine can connect."""
        return are_on_loopback(self.sockets)

    def close(self) -> None:
        for server in self._servers:
            server.close()

    async def wait_closed(self) -> None:
        for server in self._servers:
            await server.wait_closed()


def authenticates(settings: ListenerSettings, config: ListenerConfig) -> bool:
    """Whether every client of a listener has to prove who it is."""
    return settings.uses_sasl or (settings.uses_tls and config.ssl_client_auth == "required")


def are_on_loopback(sockets: Iterable[socket.socket]) -> bool:
    """Whether only programs of this machine can connect."""
    addresses = [str(each.getsockname()[0]) for each in sockets]
    return all(ip_address(address).is_loopback for address in addresses)


async def bind_all(endpoint: Endpoint) -> tuple[list[socket.socket], Endpoint]:
    """Sockets for every address that the host name has, on one port; `::` is every interface of either family.

    Port 0 becomes the one that the system picked.
    """
    host, port = endpoint
    addresses = await addresses_of(host, port)
    if host == ANY_HOST:
        addresses.append("0.0.0.0")
    bound: list[socket.socket] = []
    missing: OSError | None = None
    for address in addresses:
        try:
            bound.append(bound_socket(address, port))
        except OSError as error:
            # A name may have an address of a family that this machine does not use.
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                missing = error
                continue
            close_all(bound)
            raise
        port = int(bound[-1].getsockname()[1])
    if missing is not None and not bound:
        raise missing
    return bound, Endpoint(host, port)


def close_all(sockets: Iterable[socket.socket]) -> None:
    for each in sockets:
        each.close()


def bound_socket(address: str, port: int) -> socket.socket:
    """A socket for one address; each family has its own, as every system's default is another."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    return bound
