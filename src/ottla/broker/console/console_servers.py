"""The servers of a broker that its console uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.model import Endpoint


class ConsoleServers(NamedTuple):
    """None of them can be reached by others.

    `brokers` and `brokers_of_users` are bootstrap servers. At the first the console may do anything; at the second it
    logs in as its users do, with one of the mechanisms. There is no second one if the broker has no listener with
    passwords. `addresses` are where other clients find the nodes, by their ids.
    """

    brokers: str
    internals: str
    brokers_of_users: str | None
    mechanisms: tuple[str, ...]
    addresses: Mapping[int, Endpoint]

    @property
    def hosts(self) -> frozenset[str]:
        """Their host names."""
        servers = f"{self.brokers},{self.brokers_of_users or ''}".split(",")
        return frozenset(Endpoint.parse(each).host for each in servers if each) | {self.internals}
