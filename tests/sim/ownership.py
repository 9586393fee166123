"""Which member has which partitions of a group, as the members themselves see it: nobody has what another one has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol
from uuid import UUID

from tests.sim.network import Exchange
from tests.sim.offset_invariants import commit_errors, committed_offsets
from tests.sim.world import World

from ottla.core.group.requests import JOIN_EPOCH
from ottla.errors import ErrorCode

# A topic that is deleted and made again is another one.
Partition = tuple[UUID, int]


class Owner(Protocol):
    """A member of either protocol, for as long as its process lives."""

    name: str
    group_id: str
    member_id: str
    instance_id: str | None
    speaks_classic: bool

    def owned(self) -> dict[Partition, int]:
        """Its partitions, and the epoch since which it has each."""

    def epoch(self) -> int: ...

    def has_released(self, partition: Partition) -> bool:
        """Whether it does not have a partition, and the coordinator has been told so."""

    def may_be_removed(self) -> bool:
        """Whether a coordinator may think that it is gone, or that it does not give up its partitions."""


class Ownership:
    """Watches members when they take partitions, and commits for partitions that others have."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._owners: dict[str, Owner] = {}
        # Static members whose place somebody else has asked for, by name. A member of the classic protocol gets it
        # from one that is still there, or gives it (KIP-345); between two of the new one it has to be free.
        self._replaced: dict[str, None] = {}
        # Of commits on their way: the partitions for which they must not be accepted.
        self._forbidden: dict[int, list[str | None]] = {}
        world.network.on_arrival.append(self._arrived)
        world.network.on_answer.append(self._answered)

    def add(self, owner: Owner) -> None:
        self._owners[owner.name] = owner

    def remove(self, owner: Owner) -> None:
        """Its process has ended."""
        self._owners.pop(owner.name, None)

    def take(self, taker: Owner, partitions: Iterable[Partition]) -> None:
        """A member has been assigned these; what it was told long ago may be another one's by now."""
        if taker.may_be_removed() or self.is_replaced(taker):
            return
        for partition in partitions:
            other = self._owner(taker, partition)
            if other is not None:
                self.world.check(
                    other.may_be_removed(),
                    "{} takes {} of {}, who still has it",
                    taker.name,
                    str(partition),
                    other.name,
                )

    def _owner(self, than: Owner, partition: Partition) -> Owner | None:
        """Another member of the group that has a partition."""
        for other in self._owners.values():
            is_other = other is not than and other.name not in self._replaced
            if is_other and other.group_id == than.group_id and partition in other.owned():
                return other
        return None

    # Static members.

    def is_replaced(self, owner: Owner) -> bool:
        return owner.name in self._replaced

    def _joins(self, exchange: Exchange) -> None:
        request = exchange.request
        is_join = exchange.name == "JoinGroup" or request.member_epoch == JOIN_EPOCH
        instance_id = getattr(request, "group_instance_id", None) or getattr(
            request, "instance_id", None
        )
        if not is_join or instance_id is None:
            return
        for other in self._owners.values():
            if (
                (other.speaks_classic or exchange.name == "JoinGroup")
                and other.group_id == request.group_id
                and other.instance_id == instance_id
                and other.name != exchange.client
            ):
                self._replaced[other.name] = None

    # Commits.

    def _arrived(self, exchange: Exchange) -> None:
        if exchange.name in ("JoinGroup", "ConsumerGroupHeartbeat"):
            self._joins(exchange)
        sender = self._owners.get(exchange.client)
        if exchange.name == "OffsetCommit" and sender is not None:
            self._forbidden[exchange.number] = [
                self._why_forbidden(sender, exchange.request, topic, number)
                for (topic, number), _ in committed_offsets(exchange.request)
            ]

    def _why_forbidden(self, sender: Owner, request: Any, topic: str, number: int) -> str | None:
        """Why a commit that arrives now must not be accepted."""
        found = self.world.nodes.cluster.catalog.topics.get(topic)
        if found is None:
            return None
        partition, epoch = (found.topic_id, number), request.generation_id_or_member_epoch
        other = self._owner(sender, partition)
        if other is not None and not other.may_be_removed() and partition not in sender.owned():
            return f"{other.name} has {topic}-{number}"
        if sender.speaks_classic or sender.member_id != request.member_id:
            return None
        since = sender.owned().get(partition)
        is_late = sender.has_released(partition) if since is None else since > epoch
        if epoch < sender.epoch() and is_late:
            return f"{sender.name} has {topic}-{number} only since a later epoch than {epoch}"
        return None

    def _answered(self, exchange: Exchange) -> None:
        reasons = self._forbidden.pop(exchange.number, None)
        if reasons is None:
            return
        for reason, error in zip(reasons, commit_errors(exchange.response), strict=True):
            if reason is not None:
                text = f"#{exchange.number}: a commit is accepted though {{}}"
                self.world.check(error is not ErrorCode.NONE, text, reason)
