"""What belongs to one transaction."""

from __future__ import annotations

from ottla.model import TopicPartition


class OngoingTransaction:
    """The partitions and groups of a transaction; the accumulator's lock protects it."""

    __slots__ = ("added", "groups", "is_implicit", "is_started", "new", "pending")

    def __init__(self, is_implicit: bool) -> None:
        self.is_implicit = is_implicit
        """Whether brokers add partitions by themselves (transaction version 2, KIP-890)."""
        self.is_started = False
        """Whether the coordinator may know of it: only then it has to be ended there."""
        self.new: dict[TopicPartition, None] = {}
        """Partitions with records that the coordinator has to be told of."""
        self.pending: dict[TopicPartition, None] = {}
        """Partitions that it is being told of."""
        self.added: dict[TopicPartition, None] = {}
        """Partitions that may be written to."""
        self.groups: dict[str, None] = {}
        """Groups that the coordinator knows of."""

    def note_partition(self, key: TopicPartition) -> None:
        """A record was appended for a partition."""
        if self.is_implicit:
            self.added[key] = None
            self.is_started = True
        elif key not in self.added and key not in self.pending:
            self.new[key] = None

    def begin_adding(self) -> list[TopicPartition]:
        """The partitions to tell the coordinator of now."""
        self.pending.update(self.new)
        self.new.clear()
        return list(self.pending)

    def was_added(self, keys: list[TopicPartition]) -> None:
        """The coordinator knows them."""
        self.is_started = True
        for key in keys:
            self.pending.pop(key, None)
            self.added[key] = None

    def was_refused(self, keys: list[TopicPartition]) -> None:
        """The coordinator does not take them."""
        for key in keys:
            self.pending.pop(key, None)
