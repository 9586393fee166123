"""The sockets where a supervisor and its workers listen, which the supervisor binds and keeps.

So the ports stay while a worker is started again, and its clients wait in the queue of its socket instead of being
refused. Every worker accepts at the common port. Its own port is the common one plus its number.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.broker.network.listen_error import ListenError
from ottla.broker.network.listener import BACKLOG, bind_all, close_all
from ottla.config.listeners import MAX_PORT, ListenerSettings
from ottla.errors import ConfigError
from ottla.model import Endpoint


@dataclass(frozen=True)
class BoundListeners:
    """The listeners of one port each: where they are, and their sockets, by name."""

    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    sockets: dict[str, Sequence[socket.socket]] = field(default_factory=dict)

    def listen(self) -> None:
        """From now on connections wait until they are accepted."""
        for name, sockets in self.sockets.items():
            for each in sockets:
                try:
                    each.listen(BACKLOG)
                except OSError as error:
                    raise ListenError(self.endpoints[name], error) from error

    def close(self) -> None:
        """Give up the ports; processes that have inherited the sockets keep them."""
        for sockets in self.sockets.values():
            close_all(sockets)


@dataclass(frozen=True)
class WorkerSockets:
    """The common listeners, and those of each worker by its number, from 1."""

    common: BoundListeners
    own: Mapping[int, BoundListeners]

    def of_worker(self, number: int) -> list[tuple[str, socket.socket]]:
        """What a worker inherits, with the names of listeners."""
        return [
            (name, each)
            for bound in (self.common, self.own[number])
            for name, sockets in bound.sockets.items()
            for each in sockets
        ]

    def listen(self) -> None:
        for bound in (self.common, *self.own.values()):
            bound.listen()

    def close(self) -> None:
        for bound in (self.common, *self.own.values()):
            bound.close()


async def bind_workers(listeners: Sequence[ListenerSettings], worker_count: int) -> WorkerSockets:
    """Binds every port; ListenError if one of them is taken, or not allowed."""
    found = WorkerSockets(
        BoundListeners(), {number: BoundListeners() for number in range(1, worker_count + 1)}
    )
    try:
        for listener in listeners:
            await _bind(found.common, listener.name, listener.listen, "")
            for number, bound in found.own.items():
                purpose = f", the port of worker {number}"
                await _bind(bound, listener.name, own_endpoint(listener.listen, number), purpose)
    except BaseException:
        found.close()
        raise
    return found


async def _bind(bound: BoundListeners, name: str, endpoint: Endpoint, purpose: str) -> None:
    try:
        bound.sockets[name], bound.endpoints[name] = await bind_all(endpoint)
    except OSError as error:
        raise ListenError(endpoint, error, purpose) from error


def own_endpoint(common: Endpoint, number: int) -> Endpoint:
    """Where a worker listens alone, by its number from 1; any port stays any port."""
    return Endpoint(common.host, common.port and common.port + number)


def check_ports(listeners: Iterable[ListenerSettings], worker_count: int) -> None:
    """Refuses listeners whose ports, with those of the workers, meet or are too high."""
    taken: dict[int, str] = {}
    for listener in listeners:
        for first in filter(None, (listener.listen, listener.advertised)):
            if first.port and first.port + worker_count > MAX_PORT:
                raise ConfigError(
                    f"{listener.name}://{first} with {worker_count} workers ends above port {MAX_PORT}: "
                    "give a lower port, or 0 for any"
                )
        for number in range(worker_count + 1):
            port = own_endpoint(listener.listen, number).port
            if port and taken.setdefault(port, listener.name) != listener.name:
                raise ConfigError(
                    f"with {worker_count} workers, port {port} would be of listener {taken[port]} and of "
                    f"{listener.name}: give ports that are further apart, or 0 for any"
                )
