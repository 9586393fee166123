"""Servers that clients of the same process reach without a network: a connection is a pair of sockets.

A server has a host name that nobody else can guess, and that means nothing outside of the process.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from typing import Final

_DOMAIN: Final = ".in-process.invalid"
_accepting: Final[dict[str, Callable[[socket.socket], None]]] = {}


def serve(accept: Callable[[socket.socket], None]) -> str:
    """The host name of a new server; `accept` gets one end of each connection, on the thread of the client."""
    host = f"{secrets.token_hex(16)}{_DOMAIN}"
    _accepting[host] = accept
    return host


def withdraw(host: str) -> None:
    """No more connections are made to a server."""
    _accepting.pop(host, None)


def is_here(host: str) -> bool:
    """Whether a host name is one of a server in a process."""
    return host.endswith(_DOMAIN)


def connect(host: str) -> socket.socket:
    """The client's end of a new connection; ConnectionRefusedError if there is no such server."""
    accept = _accepting.get(host)
    if accept is None:
        raise ConnectionRefusedError(f"no server of this process has the name {host}")
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    accept(theirs)
    return ours
