"""How much goes through the connections of a node."""

from __future__ import annotations


class Traffic:
    """What a node's connections have moved, and how many there were."""

    __slots__ = ("accepted", "faulted", "received_bytes", "refused", "sent_bytes")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.sent_bytes = 0
        self.accepted = 0
        self.refused = 0  # by a limit
        self.faulted = 0  # for what the client sent
