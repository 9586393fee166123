"""The interface of a node for the other parts of its cluster.

`Node` implements it. The cluster, topics and coordinators use no other members of a node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.broker.options import NodeOptions
from ottla.broker.partitions.shard import Shard
from ottla.broker.security.caller import Caller
from ottla.core.catalog import Topic
from ottla.core.group.machine import GroupMachine
from ottla.core.turn import Turn
from ottla.errors import ErrorCode
from ottla.model import Endpoint
from ottla.ports import PartitionRef


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
    """A node of the cluster."""

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
