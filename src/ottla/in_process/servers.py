"""The servers of this process, and those of its parent that it may use.

A server has a host name that nobody else can guess, and that means nothing outside of the process.
"""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.in_process.parent_channel import ParentChannel

DOMAIN: Final = ".in-process.invalid"
NAME_CHARS: Final = 32
_HOST: Final = re.compile(rf"[0-9a-f]{{{NAME_CHARS}}}{re.escape(DOMAIN)}(?::\d+)?")
_AT_HOST: Final = re.compile(rf" at {_HOST.pattern}")
_accepting: Final[dict[str, Callable[[socket.socket], None]]] = {}
_parent: ParentChannel | None = None


def serve(accept: Callable[[socket.socket], None]) -> str:
    """The host name of a new server; `accept` gets one end of each connection, on the thread of the client."""
    host = f"{secrets.token_hex(NAME_CHARS // 2)}{DOMAIN}"
    _accepting[host] = accept
    return host


def withdraw(host: str) -> None:
    """No more connections are made to a server."""
    _accepting.pop(host, None)


def is_here(host: str) -> bool:
    """Whether a host name is one of a server in a process."""
    return host.endswith(DOMAIN)


def without_hosts(text: str) -> str:
    """A text for people: `1 at HOST:1` becomes `1`, since the names of these servers mean nothing to them."""
    return _HOST.sub("the broker", _AT_HOST.sub("", text))


def use_parent(channel: ParentChannel) -> None:
    """Servers that this process does not have are those of its parent, from now on."""
    global _parent
    _parent = channel


async def connect(host: str) -> socket.socket:
    """The client's end of a new connection; ConnectionRefusedError if there is no such server."""
    if host not in _accepting and _parent is not None:
        return await _parent.connect(host)
    return connect_here(host)


def connect_here(host: str) -> socket.socket:
    """As `connect`, to a server of this very process."""
    accept = _accepting.get(host)
    if accept is None:
        raise ConnectionRefusedError(f"no server of this process has the name {host}")
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    accept(theirs)
    return ours
