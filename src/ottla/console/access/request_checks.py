"""Checks of a request's headers: which name the browser called, and whether the page itself asks.

DNS rebinding makes a foreign name point to the console's address; the browser then says that name in Host. A foreign
page may send requests to the console, and the browser then says so in Sec-Fetch-Site or in Origin.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.datastructures import Headers

from ottla.doors.door import Door

SAFE_METHODS: Final = ("GET", "HEAD")
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class RequestChecks:
    """Which hosts a console answers for, and where its requests may come from.

    Behind a proxy that is trusted, its X-Forwarded headers say what the browser called.
    """

    def __init__(self, door: Door, allowed_hosts: Iterable[str], *, trusts_proxy: bool) -> None:
        self._trusts_proxy = trusts_proxy
        self._scheme = door.scheme
        self._names = {*_LOOPBACK_NAMES, *map(_plain, allowed_hosts)}
        host = door.endpoint.host
        # On all addresses: the machine has names of its own, and no foreign name is an address.
        self._allows_addresses = _is_unspecified(host)
        if self._allows_addresses:
            self._names |= {_plain(socket.gethostname())}
        else:
            self._names |= {_plain(host)}

    def host_problem(self, headers: Mapping[str, str]) -> str | None:
        """What is wrong with the name that the browser called; None if nothing is."""
        if len(_lines(headers, "host")) > 1:
            return "the request says two hosts"
        host = self.host_of(headers)
        if not host:
            return "the request does not say for which host it is"
        name = _name_of(host)
        if name in self._names or (self._allows_addresses and _is_address(name)):
            return None
        return f"this console is not known as {name[:200]!r}"

    def origin_problem(self, method: str, headers: Mapping[str, str]) -> str | None:
        """Why another site may have made the request; None if it has not."""
        site = headers.get("sec-fetch-site")
        if method in SAFE_METHODS:
            if site in (None, "same-origin", "none") or _opens_a_page(headers):
                return None
            return "another site asks for data of the console"
        if site is not None:
            return None if site == "same-origin" else "another site asks for a change"
        # Browsers say nothing of sites to servers without TLS that are not on the same machine.
        origin = headers.get("origin")
        if origin is None or origin == f"{self.scheme_of(headers)}://{self.host_of(headers)}":
            return None
        return f"the origin {origin[:200]!r} is not this console"

    def host_of(self, headers: Mapping[str, str]) -> str:
        """What the browser called, with its port."""
        if self._trusts_proxy and (forwarded := _last(headers, "x-forwarded-host")):
            return forwarded
        return headers.get("host", "")

    def scheme_of(self, headers: Mapping[str, str]) -> str:
        """Whether the browser speaks http or https."""
        if self._trusts_proxy and (forwarded := _last(headers, "x-forwarded-proto")):
            return forwarded.lower()
        return self._scheme

    def address_of(self, headers: Mapping[str, str], peer: str) -> str:
        """The address of the browser."""
        if self._trusts_proxy and (forwarded := _last(headers, "x-forwarded-for")):
            return forwarded if _is_address(forwarded) else peer
        return peer


def _opens_a_page(headers: Mapping[str, str]) -> bool:
    """Whether somebody followed a link: the answer goes into a window of its own and not to the other site."""
    return (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )


def _last(headers: Mapping[str, str], name: str) -> str:
    """What the nearest proxy added, to the line or as a line of its own; those before may come from anybody."""
    lines = _lines(headers, name)
    return lines[-1].rpartition(",")[2].strip() if lines else ""


def _lines(headers: Mapping[str, str], name: str) -> list[str]:
    if isinstance(headers, Headers):
        return headers.getlist(name)
    return [headers[name]] if name in headers else []


def _name_of(host: str) -> str:
    """The name without the port."""
    if host.startswith("["):
        return _plain(host[1:].partition("]")[0])
    return _plain(host.partition(":")[0])


def _plain(name: str) -> str:
    return name.strip().strip("[]").removesuffix(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_unspecified(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified
