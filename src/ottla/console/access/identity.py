"""Who makes a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.console.access.roles import Role
from ottla.console.clients import Clients

ANONYMOUS: Final = "anonymous"


@dataclass(frozen=True)
class Identity:
    """A user of the console, with the clients that act for it: its own connections, or those of the console."""

    name: str
    role: Role
    clients: Clients
