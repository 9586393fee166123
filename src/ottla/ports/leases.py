"""Who holds which partition, in a store that brokers in several processes share.

A broker holds partitions for as long as its lease lasts, and renews it. The store decides between brokers; what a
broker knows of the others may be a moment old, but it never holds what another one does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ottla.model import Endpoint
from ottla.ports.log import PartitionRef


class BrokerAddresses(NamedTuple):
    """Where a broker is reached: its addresses, and those that clients get instead, by the names of listeners.

    `peer` is for other brokers, which trust whoever shows `certificate` (PEM) there.
    """

    endpoints: Mapping[str, Endpoint]
    advertised: Mapping[str, Endpoint]
    peer: Endpoint | None
    certificate: str


class SharedMember(NamedTuple):
    """A broker that the store knows: `is_live` if its lease lasts, as far as is known."""

    node_id: int
    addresses: BrokerAddresses
    rack: str | None
    is_live: bool


class Holding(NamedTuple):
    """The last claim of a partition. `is_held` if a lease of that node lasts; `is_own` if it is this session's.

    `wanted_node` is who should take a partition that was released.
    """

    node_id: int
    epoch: int
    is_held: bool
    is_own: bool
    wanted_node: int | None


class Leases(Protocol):
    """The lease of one node, and what it knows of the others."""

    @property
    def node_id(self) -> int: ...

    def may_lead(self) -> bool:
        """Whether the own lease lasts for certain, by a clock that counts while the machine sleeps."""
        ...

    def members(self) -> Sequence[SharedMember]:
        """Every broker that the store knows, this one among them, by rising id."""
        ...

    def holding(self, ref: PartitionRef) -> Holding | None:
        """None if the partition was never claimed, as far as is known."""
        ...

    def follow(
        self,
        members: Callable[[], None],
        holdings: Callable[[], None],
        exists: Callable[[PartitionRef], bool],
    ) -> None:
        """Has one of these called whenever members, or holdings, have changed.

        `exists` tells whether a partition's topic is one of the catalog, with every change that its follower was given.
        Claims ask it: the partition of a topic that was deleted meanwhile is not claimed.
        """
        ...

    async def describe(self, addresses: BrokerAddresses) -> None:
        """Tells the others where this broker is reached."""
        ...

    async def claim(self, refs: Sequence[PartitionRef]) -> None:
        """Tries to take partitions that nobody holds; `holding` tells which it got. Raises StorageError."""
        ...

    async def release(self, wanted: Mapping[PartitionRef, int | None]) -> None:
        """Gives up partitions, each for a node that should take it. Everything that was appended to them is settled."""
        ...

    async def forget_node(self, node_id: int) -> bool:
        """Forgets a broker that is not live; False if it is, or is unknown."""
        ...

    async def take_task(self, task: str, seconds: float) -> bool:
        """Whether this broker does a task of the whole cluster, for some time."""
        ...
