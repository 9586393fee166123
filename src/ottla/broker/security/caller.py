"""The sender of requests: a connection has one, and so has each node that calls another."""

from __future__ import annotations

from ottla.access import ANONYMOUS, Principal
from ottla.config.listeners import DEFAULT_LISTENER
from ottla.model import Endpoint


class Caller:
    """Where requests come from, and who sends them.

    `local` is the address that the client connected to, of the listener of that name. The principal changes when the
    client has authenticated itself. An ApiVersions request tells the client's software (KIP-511).
    """

    __slots__ = (
        "api_name",
        "is_node",
        "listener",
        "local",
        "peer",
        "principal",
        "software_name",
        "software_version",
    )

    def __init__(
        self,
        peer: Endpoint,
        local: Endpoint,
        listener: str = DEFAULT_LISTENER,
        principal: Principal = ANONYMOUS,
        *,
        is_node: bool = False,
    ) -> None:
        self.peer = peer
        self.local = local
        self.listener = listener
        self.principal = principal
        # Whether it is another node of the cluster, in the same process or over an authenticated link.
        self.is_node = is_node
        # The API of the request that is handled, for the audit log.
        self.api_name = ""
        self.software_name = "unknown"
        self.software_version = "unknown"
