"""Members of the new protocol that speak to a group machine as real clients do."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from tests.core.group.groups import Groups

from ottla.core.group.consumer.group import ConsumerGroup
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupConfig,
    ConsumerHeartbeat,
    ConsumerHeartbeatRequest,
    ResolvedPatterns,
    ResolvePatterns,
)
from ottla.core.outcomes import Refused
from ottla.core.turn import Turn
from ottla.errors import ErrorCode

SESSION_MS = 45_000
REBALANCE_MS = 60_000


class ConsumerGroups(Groups):
    """A group machine with topics; the patterns of groups are resolved when `resolve` is called."""

    def __init__(self, consumer: ConsumerGroupConfig | None = None, **options: int) -> None:
        self.consumer = consumer or ConsumerGroupConfig(assignment_interval_ms=0)
        self.effects: list[ResolvePatterns] = []
        super().__init__(**options)
        self.topics.create("orders", 4)

    def new_machine(self) -> GroupMachine:
        return GroupMachine(
            self.config, self.topics, lambda group_id: self.consumer, self._check_pattern
        )

    def _check_pattern(self, pattern: str) -> str | None:
        return "not valid" if pattern == "(" else None

    def finished(self, turn: Turn) -> None:
        self.effects += turn.effects

    def heartbeat_of(self, request: ConsumerHeartbeatRequest) -> ConsumerHeartbeat | Refused:
        return self._do(lambda turn: self.machine.consumer_heartbeat(turn, request))

    def resolve(self) -> None:
        """Finds the topics that match, as the broker would: a pattern is a prefix here."""
        effects, self.effects = self.effects, []
        for effect in effects:
            found = {
                pattern: frozenset(name for name in self.topics.topics if name.startswith(pattern))
                for pattern in effect.patterns
            }
            resolved = ResolvedPatterns(found, self.topics.created_version)
            with self.one_turn() as turn:
                self.machine.patterns_resolved(turn, effect.group_id, resolved)

    def consumer_group(self, group_id: str = "g") -> ConsumerGroup:
        return self.machine.consumers.groups[group_id]

    def owners(self, group_id: str = "g") -> dict[tuple[UUID, int], str]:
        owners = self.consumer_group(group_id).owners
        return {(topic, n): member for topic, of in owners.items() for n, member in of.items()}


@dataclass
class Consumer:
    """A client: it remembers what it was told, and gives up at once what it no longer has."""

    groups: ConsumerGroups
    member_id: str
    topics: frozenset[str] | None = frozenset({"orders"})
    pattern: str | None = None
    instance: str | None = None
    assignor: str | None = None
    group_id: str = "g"
    rack_id: str | None = None
    epoch: int = JOIN_EPOCH
    owned: dict[UUID, frozenset[int]] = field(default_factory=dict)

    def join(self) -> ConsumerHeartbeat | Refused:
        self.epoch, self.owned = JOIN_EPOCH, {}
        return self._take(
            ConsumerHeartbeatRequest(
                self.group_id,
                self.member_id,
                JOIN_EPOCH,
                self.instance,
                self.rack_id,
                REBALANCE_MS,
                self.topics,
                self.pattern,
                self.assignor,
                {},
                "client",
                "/127.0.0.1",
            )
        )

    def beat(
        self, *, tells_owned: bool = True, epoch: int | None = None
    ) -> ConsumerHeartbeat | Refused:
        """A heartbeat; a client tells what it owns when that has changed."""
        return self._take(
            ConsumerHeartbeatRequest(
                self.group_id,
                self.member_id,
                self.epoch if epoch is None else epoch,
                self.instance,
                owned=dict(self.owned) if tells_owned else None,
                client_id="client",
                client_host="/127.0.0.1",
            )
        )

    def subscribe_to_pattern(self, pattern: str) -> ConsumerHeartbeat | Refused:
        self.pattern = pattern
        return self._take(
            ConsumerHeartbeatRequest(
                self.group_id,
                self.member_id,
                self.epoch,
                self.instance,
                pattern=pattern,
                owned=dict(self.owned),
                client_id="client",
                client_host="/127.0.0.1",
            )
        )

    def subscribe(self, *topics: str) -> ConsumerHeartbeat | Refused:
        self.topics = frozenset(topics)
        return self._take(
            ConsumerHeartbeatRequest(
                self.group_id,
                self.member_id,
                self.epoch,
                self.instance,
                topics=self.topics,
                owned=dict(self.owned),
                client_id="client",
                client_host="/127.0.0.1",
            )
        )

    def leave(self, *, for_a_while: bool = False) -> ConsumerHeartbeat | Refused:
        epoch = STATIC_LEAVE_EPOCH if for_a_while else LEAVE_EPOCH
        return self.groups.heartbeat_of(
            ConsumerHeartbeatRequest(self.group_id, self.member_id, epoch, self.instance)
        )

    def _take(self, request: ConsumerHeartbeatRequest) -> ConsumerHeartbeat | Refused:
        answer = self.groups.heartbeat_of(request)
        if isinstance(answer, ConsumerHeartbeat):
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = dict(answer.assignment)
        return answer

    @property
    def count(self) -> int:
        return sum(map(len, self.owned.values()))


def settle(*members: Consumer) -> None:
    """Lets members heartbeat until none of them gets anything new."""
    for _ in range(10):
        before = [(member.epoch, dict(member.owned)) for member in members]
        for member in members:
            answer = member.beat()
            assert isinstance(answer, ConsumerHeartbeat), answer
        if before == [(member.epoch, member.owned) for member in members]:
            return
    raise AssertionError("the members never settle")


def error_of(answer: ConsumerHeartbeat | Refused) -> ErrorCode:
    return answer.error if isinstance(answer, Refused) else ErrorCode.NONE
