"""From an address to a connection that is ready for requests."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple

from ottla import in_process
from ottla.client.aio.network.api_versions import ask_versions, ask_versions_before_sasl
from ottla.client.aio.network.authentication import Authenticator, check_needs_no_sasl
from ottla.client.aio.network.connection import Connection
from ottla.client.security.failures import tls_failure, tls_not_spoken
from ottla.config.client import ClientConfig
from ottla.errors import ErrorCode, KafkaError, exception_for
from ottla.event_loop import addresses_of, name_of
from ottla.model import Endpoint
from ottla.tls.contexts import client_context
from ottla.wire.messages.api_versions import ApiVersionsResponse

# A broker that answers without TLS does so at once.
_PROBE_MS = 1000

CANONICAL = "resolve_canonical_bootstrap_servers_only"


class Address(NamedTuple):
    """Where to connect, and the name that the broker's certificate has to bear."""

    ip: str
    port: int
    server_name: str


class Opener:
    """Opens connections with the configured security, and keeps track of them."""

    def __init__(
        self,
        config: ClientConfig,
        on_lost: Callable[[Connection, KafkaError], None],
        on_versions: Callable[[ApiVersionsResponse], None],
    ) -> None:
        self._config = config
        self._on_lost = on_lost
        self._on_versions = on_versions
        self._tls = client_context(config) if config.uses_tls else None
        self._authenticator = Authenticator(config) if config.uses_sasl else None
        self._open: set[Connection] = set()
        # Brokers that have ended a connection at the first request: perhaps they expect SASL.
        self._doubtful: set[Endpoint] = set()
        self.client_id = config.client_id

    async def open(self, endpoint: Endpoint, node_id: int, limit_ms: float) -> Connection:
        """Connect within `limit_ms`, authenticate, and ask for the API versions."""
        connection = await self._connect(endpoint, node_id, limit_ms)
        try:
            if self._authenticator is not None:
                await ask_versions_before_sasl(connection)
                await self._authenticator.authenticate(connection)
            self._on_versions(await ask_versions(connection))
            if self._authenticator is None and endpoint in self._doubtful:
                await self._resolve_doubt(connection)
        except BaseException:
            connection.close("it was given up")
            raise
        return connection

    async def _resolve_doubt(self, connection: Connection) -> None:
        """Asks the broker whether it expects SASL; raises if it does. One that does not answer is not asked again."""
        try:
            async with asyncio.timeout(_PROBE_MS / 1000):
                await check_needs_no_sasl(connection)
        except TimeoutError as error:
            self._doubtful.discard(connection.endpoint)
            raise _cannot_connect("it did not answer SaslHandshake", connection.endpoint) from error
        self._doubtful.discard(connection.endpoint)

    async def close(self) -> None:
        """Wait until every socket is closed."""
        if self._authenticator is not None:
            await self._authenticator.close()
        while self._open:
            await asyncio.wait({connection.gone for connection in self._open})

    async def _connect(self, endpoint: Endpoint, node_id: int, limit_ms: float) -> Connection:
        """Try the addresses of a host one after the other (client.dns.lookup=use_all_dns_ips)."""
        if in_process.is_here(endpoint.host):
            return await self._connect_in_process(endpoint, node_id, limit_ms)
        failures: list[str] = []
        for address in await self._addresses(endpoint, node_id, limit_ms):
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    return await self._dial(endpoint, address, node_id)
            except ssl.SSLError as error:
                raise tls_failure(error, str(endpoint)) from error
            except TimeoutError:
                failures.append(f"{address.ip}: no connection within {round(limit_ms)} ms")
            except OSError as error:
                failures.append(f"{address.ip}: {self._reason(error)}")
                if self._ended_the_handshake(error) and await self._speaks_plainly(
                    endpoint, address
                ):
                    raise tls_not_spoken(str(endpoint)) from error
        raise _cannot_connect("; ".join(failures), endpoint)

    def _reason(self, error: OSError) -> str:
        reason = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
        if self._ended_the_handshake(error):
            # A broker without TLS takes the first message for a request that is too long.
            return (
                f"the connection ended during the TLS handshake ({reason}); "
                "perhaps the broker expects no SSL on this port"
            )
        return reason

    def _ended_the_handshake(self, error: OSError) -> bool:
        return self._tls is not None and isinstance(error, ConnectionError) and not _refused(error)

    async def _speaks_plainly(self, endpoint: Endpoint, address: Address) -> bool:
        """Whether a broker that has ended the TLS handshake answers without TLS; nothing but ApiVersions is sent."""
        probe = Connection(endpoint, -1, None, _PROBE_MS, lambda connection, error: None)
        try:
            async with asyncio.timeout(_PROBE_MS / 1000):
                await asyncio.get_running_loop().create_connection(
                    lambda: probe, address.ip, address.port
                )
                self._keep_track(probe)
                await ask_versions_before_sasl(probe)
        except (KafkaError, OSError):
            return False
        finally:
            probe.close("it was to find out whether the broker speaks TLS")
        return True

    async def _addresses(self, endpoint: Endpoint, node_id: int, limit_ms: float) -> list[Address]:
        try:
            async with asyncio.timeout(limit_ms / 1000):
                found = await addresses_of(endpoint.host, endpoint.port)
                addresses = [Address(ip, endpoint.port, endpoint.host) for ip in found]
                if node_id < 0 and self._config.client_dns_lookup == CANONICAL:
                    return [await _canonical(address) for address in addresses]
                return addresses
        except TimeoutError as error:
            why = f"no address of {endpoint.host} was found within {round(limit_ms)} ms"
            raise _cannot_connect(why, endpoint) from error
        except OSError as error:
            why = f"the name {endpoint.host} is not known: {error.strerror}"
            raise _cannot_connect(why, endpoint) from error

    async def _connect_in_process(
        self, endpoint: Endpoint, node_id: int, limit_ms: float
    ) -> Connection:
        """Connects to a broker of this process, or of its parent, whatever its listeners want."""
        try:
            async with asyncio.timeout(limit_ms / 1000):
                pair = await in_process.connect(endpoint.host)
        except (ConnectionRefusedError, TimeoutError) as error:
            raise _cannot_connect(str(error), endpoint) from error
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: self._new_connection(endpoint, node_id), sock=pair
        )
        self._keep_track(connection)
        return connection

    def _new_connection(self, endpoint: Endpoint, node_id: int) -> Connection:
        return Connection(
            endpoint,
            node_id,
            self._config.client_id,
            self._config.request_timeout_ms,
            self._lost,
            self._config.security_protocol,
        )

    async def _dial(self, endpoint: Endpoint, address: Address, node_id: int) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: self._new_connection(endpoint, node_id),
            address.ip,
            address.port,
            ssl=self._tls,
            server_hostname=None if self._tls is None else address.server_name,
        )
        self._keep_track(connection)
        self._tune(connection.tcp_socket)
        return connection

    def _keep_track(self, connection: Connection) -> None:
        self._open.add(connection)
        connection.gone.add_done_callback(lambda _: self._open.discard(connection))

    def _lost(self, connection: Connection, error: KafkaError) -> None:
        if connection.ended_before_serving:
            self._doubtful.add(connection.endpoint)
        self._on_lost(connection, error)

    def _tune(self, opened: socket.socket) -> None:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # -1 leaves the operating system's own size.
        if self._config.send_buffer_bytes >= 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.send_buffer_bytes)
        if self._config.receive_buffer_bytes >= 0:
            size_bytes = self._config.receive_buffer_bytes
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)


async def _canonical(address: Address) -> Address:
    """The address under its canonical name, which Kerberos and certificates may need."""
    try:
        name = await name_of(address.ip, address.port)
    except OSError:
        return address
    return address._replace(server_name=name)


def _refused(error: OSError) -> bool:
    return isinstance(error, ConnectionRefusedError)


def _cannot_connect(why: str, endpoint: Endpoint) -> KafkaError:
    return exception_for(
        ErrorCode.NETWORK_EXCEPTION, f"Cannot connect: {why}.", broker=str(endpoint)
    )
