"""The partitions and groups of the transaction that is open."""

from __future__ import annotations

from ottla.model import TopicPartition


class OngoingTransaction:
    """The partitions and groups of a transaction; the accumulator's lock protects it."""

    __slots__ = ("added", "groups", "is_implicit", "is_started", "new", "pending")

    def __init__(self, is_implicit: bool) -> None:
        self.is_implicit = is_implicit
        """Whether brokers add partitions by themselves (transaction version 2, KIP-890)."""
        self.is_started = False
        """Whether the coordinator may know of it, and so has to end it."""
        self.new: dict[TopicPartition, None] = {}
        """Partitions with records that have to be added to it."""
        self.pending: dict[TopicPartition, None] = {}
        """Partitions that are being added to it."""
        self.added: dict[TopicPartition, None] = {}
        """Partitions that may be written to."""
        self.groups: dict[str, None] = {}
        """Groups that were added to it."""

    def note_partition(self, key: TopicPartition) -> None:
        """A record was appended for a partition."""
        if self.is_implicit:
            self.added[key] = None
            self.is_started = True
        elif key not in self.added and key not in self.pending:
            self.new[key] = None

    def begin_adding(self) -> list[TopicPartition]:
        """The partitions to add to it now."""
        self.pending.update(self.new)
        self.new.clear()
        return list(self.pending)

    def was_added(self, keys: list[TopicPartition]) -> None:
        """The coordinator has added them."""
        self.is_started = True
        for key in keys:
            self.pending.pop(key, None)
            self.added[key] = None

    def was_refused(self, keys: list[TopicPartition]) -> None:
        """The coordinator has refused them."""
        for key in keys:
            self.pending.pop(key, None)
