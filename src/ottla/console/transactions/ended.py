"""Transactions that have ended: the newest of them, how many by id, and how many in each stretch of time."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla.model import TopicPartition

MAX_NEWEST: Final = 1000
MAX_IDS: Final = 10_000
BUCKET_MS: Final = 10_000
MAX_BUCKETS: Final = 360

Sees = Callable[[str], bool]
"""Whether a user may see a transactional id."""


class Outcome(StrEnum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """A transaction that was committed or aborted."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    outcome: Outcome
    ended_at_ms: int
    started_at_ms: int | None = None
    timeout_ms: int | None = None
    partitions: tuple[TopicPartition, ...] | None = None
    """None if they are not known."""

    @property
    def duration_ms(self) -> int | None:
        """How long it was open."""
        if self.started_at_ms is None:
            return None
        return max(0, self.ended_at_ms - self.started_at_ms)

    @property
    def has_timed_out(self) -> bool:
        """Whether it was aborted when its timeout was over."""
        if self.outcome is not Outcome.ABORTED or self.timeout_ms is None:
            return False
        duration_ms = self.duration_ms
        return duration_ms is not None and duration_ms >= self.timeout_ms


@dataclass(slots=True)
class EndCounts:
    """How many transactions of an id have ended since it is watched, and when the last ones did."""

    committed: int = 0
    aborted: int = 0
    committed_at_ms: int | None = None
    aborted_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EndRate:
    """How many transactions ended in BUCKET_MS."""

    at_ms: int
    committed: int
    aborted: int


class EndedTransactions:
    """Counts what has ended, within limits: the newest transactions, the latest ids, the last hour."""

    def __init__(self) -> None:
        self._newest: deque[EndedTransaction] = deque(maxlen=MAX_NEWEST)
        self._by_id: OrderedDict[str, EndCounts] = OrderedDict()
        self._buckets: OrderedDict[int, list[int]] = OrderedDict()
        self.committed_count = 0
        self.aborted_count = 0

    def add(self, ended: EndedTransaction, seen_at_ms: int) -> None:
        """Count one that ended while the console watched, by the clock of the console."""
        counts = self._remember(ended)
        bucket = self._bucket(seen_at_ms)
        if ended.outcome is Outcome.COMMITTED:
            counts.committed += 1
            self.committed_count += 1
            bucket[0] += 1
        else:
            counts.aborted += 1
            self.aborted_count += 1
            bucket[1] += 1

    def add_earlier(self, ended: Iterable[EndedTransaction]) -> None:
        """Remember transactions from before the console watched; they are in no count."""
        for each in sorted(ended, key=lambda each: each.ended_at_ms):
            self._remember(each)

    def _remember(self, ended: EndedTransaction) -> EndCounts:
        self._newest.append(ended)
        counts = self._by_id.setdefault(ended.transactional_id, EndCounts())
        self._by_id.move_to_end(ended.transactional_id)
        if len(self._by_id) > MAX_IDS:
            self._by_id.popitem(last=False)
        if ended.outcome is Outcome.COMMITTED:
            counts.committed_at_ms = ended.ended_at_ms
        else:
            counts.aborted_at_ms = ended.ended_at_ms
        return counts

    def _bucket(self, at_ms: int) -> list[int]:
        start_ms = at_ms - at_ms % BUCKET_MS
        bucket = self._buckets.setdefault(start_ms, [0, 0])
        while len(self._buckets) > MAX_BUCKETS:
            self._buckets.pop(min(self._buckets))
        return bucket

    def newest(self, sees: Sees | None = None) -> list[EndedTransaction]:
        """The newest first, of the ids that are seen."""
        found = [each for each in self._newest if sees is None or sees(each.transactional_id)]
        return sorted(found, key=lambda each: each.ended_at_ms, reverse=True)

    def totals(self, sees: Sees | None = None) -> tuple[int, int]:
        """How many were committed and aborted; of the ids that are seen, the latest MAX_IDS count."""
        if sees is None:
            return self.committed_count, self.aborted_count
        counts = [each for name, each in self._by_id.items() if sees(name)]
        return sum(each.committed for each in counts), sum(each.aborted for each in counts)

    def counts_of(self, transactional_id: str) -> EndCounts | None:
        """The counts of an id; None if none of its transactions was seen to end."""
        return self._by_id.get(transactional_id)

    def rates(self, since_ms: int, until_ms: int, sees: Sees | None = None) -> list[EndRate]:
        """All stretches of time in order, also those in which nothing ended; the last hour at most.

        Those of the ids that are seen begin later where the newest transactions do not reach back so far.
        """
        first_ms = max(since_ms, until_ms - MAX_BUCKETS * BUCKET_MS)
        buckets: Mapping[int, Sequence[int]] = self._buckets
        if sees is not None:
            if len(self._newest) == MAX_NEWEST:
                oldest_ms = min(each.ended_at_ms for each in self._newest)
                first_ms = max(first_ms, min(oldest_ms, until_ms))
            buckets = _by_bucket(each for each in self.newest(sees) if each.ended_at_ms >= since_ms)
        first_ms -= first_ms % BUCKET_MS
        return [
            EndRate(at_ms, *buckets.get(at_ms, (0, 0)))
            for at_ms in range(first_ms, until_ms + 1, BUCKET_MS)
        ]


def _by_bucket(ended: Iterable[EndedTransaction]) -> dict[int, list[int]]:
    buckets: dict[int, list[int]] = {}
    for each in ended:
        start_ms = each.ended_at_ms - each.ended_at_ms % BUCKET_MS
        bucket = buckets.setdefault(start_ms, [0, 0])
        bucket[each.outcome is Outcome.ABORTED] += 1
    return buckets
