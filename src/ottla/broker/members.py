"""The nodes of a cluster: those of this process as objects, those of other processes by their registrations.

`Node` implements `Member`. The cluster, topics and coordinators use nothing else of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from ottla.broker.options import NodeOptions
from ottla.broker.partitions.shard import Shard
from ottla.broker.security.caller import Caller
from ottla.core.catalog import Topic
from ottla.core.group.machine import GroupMachine
from ottla.core.turn import Turn
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER, Endpoint
from ottla.ports import Clock, PartitionRef

# A node in another process that was lost is started again at once. For so long clients are still sent to it: its port
# stays open, so that they wait for it there, which is quicker than to ask for another leader again and again.
RESTART_SECONDS: Final = 5.0


class MemberPartitions(Protocol):
    """The partitions that a node leads."""

    def shard(self, topic: str, partition: int) -> Shard | ErrorCode: ...

    def open_shard(self, topic: str, partition: int) -> Shard | None: ...

    def is_offline(self, ref: PartitionRef) -> bool: ...

    def resign(self, ref: PartitionRef) -> None: ...

    def reconfigure(self) -> None: ...

    def forget_topic(self, topic: Topic) -> None: ...

    def end(self) -> None: ...


class MemberGroups(Protocol):
    """The groups that a node coordinates."""

    def ask_all(self, decide: Callable[[GroupMachine, Turn], Any]) -> list[Any]: ...


class Member(Protocol):
    """A node of this process."""

    @property
    def node_id(self) -> int: ...

    @property
    def options(self) -> NodeOptions: ...

    @property
    def partitions(self) -> MemberPartitions: ...

    @property
    def groups(self) -> MemberGroups: ...

    def address_for(self, caller: Caller) -> Endpoint:
        """The node's address for a client that has connected to some node."""
        ...


class BrokerRegistration(NamedTuple):
    """A node of another process: its addresses, and those that clients get instead, by the names of listeners."""

    node_id: int
    endpoints: Mapping[str, Endpoint]
    advertised: Mapping[str, Endpoint]
    is_live: bool

    def address_for(self, caller: Caller) -> Endpoint:
        """The address for a client, which may have come by a listener that only the process itself has."""
        known = {**self.endpoints, **self.advertised}
        listener = caller.listener if caller.listener in known else next(iter(known), "")
        found = address_for(caller.local, listener, self.endpoints, self.advertised)
        return caller.local if found is None else found


def address_for(
    local: Endpoint,
    listener: str,
    endpoints: Mapping[str, Endpoint],
    advertised: Mapping[str, Endpoint],
) -> Endpoint | None:
    """The address of a node for a client that has connected to `local`, a listener of this name at some node.

    Without an advertised address it is the host that the client used: it works by definition.
    """
    found = advertised.get(listener)
    if found is not None:
        return found
    endpoint = endpoints.get(listener)
    return None if endpoint is None else Endpoint(local.host, endpoint.port)


class Members:
    """The nodes of the cluster."""

    def __init__(self, clock: Clock, restart_seconds: float = RESTART_SECONDS) -> None:
        """For `restart_seconds` clients are still sent to a node of another process that was lost."""
        self._clock = clock
        self._restart_seconds = restart_seconds
        self.here: dict[int, Member] = {}  # live ones, by rising id
        self._elsewhere: dict[int, BrokerRegistration] = {}
        self._lost_at: dict[int, float] = {}

    def add(self, node: Member) -> None:
        """A node of this process is live."""
        self.here = dict(sorted({**self.here, node.node_id: node}.items()))

    def remove(self, node_id: int) -> Member:
        """A node of this process is not live any more."""
        return self.here.pop(node_id)

    def register(self, registrations: Iterable[BrokerRegistration]) -> None:
        """The nodes of other processes, all of them; nodes of this one among them are not looked at."""
        self._elsewhere = {each.node_id: each for each in registrations}
        now = self._clock.monotonic_seconds()
        self._lost_at = {
            each.node_id: self._lost_at.get(each.node_id, now)
            for each in self._elsewhere.values()
            if not each.is_live
        }

    def is_present(self, node_id: int) -> bool:
        """Whether clients are sent to a node: it is live, or will be soon."""
        if node_id in self.here:
            return True
        if node_id not in self._elsewhere:
            return False
        lost_at = self._lost_at.get(node_id)
        return lost_at is None or self._clock.monotonic_seconds() < lost_at + self._restart_seconds

    @property
    def first_live(self) -> int:
        """The first node that is live; NO_LEADER if there is none.

        A node that is started again does not count: no partition makes clients wait for that one, another answers now.
        """
        live = (each.node_id for each in self._elsewhere.values() if each.is_live)
        return min((*self.here, *live), default=NO_LEADER)

    @property
    def are_all_here(self) -> bool:
        """Whether this process has all nodes."""
        return not self._elsewhere

    @property
    def present(self) -> list[int]:
        """The nodes to which clients are sent, by rising id."""
        if not self._elsewhere:
            return list(self.here)
        return sorted(filter(self.is_present, {**self._elsewhere, **self.here}))

    def address_of(self, node_id: int, caller: Caller) -> Endpoint | None:
        """The address of a node for a client; None if clients are not sent there."""
        node = self.here.get(node_id)
        if node is not None:
            return node.address_for(caller)
        return self._elsewhere[node_id].address_for(caller) if self.is_present(node_id) else None

    def addresses_for(self, caller: Caller) -> list[tuple[int, Endpoint]]:
        """Every node to which clients are sent, and its address for a client."""
        if not self._elsewhere:
            return [(node_id, node.address_for(caller)) for node_id, node in self.here.items()]
        found = ((node_id, self.address_of(node_id, caller)) for node_id in self.present)
        return [(node_id, address) for node_id, address in found if address is not None]
