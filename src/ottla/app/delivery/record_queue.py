"""Which record of a partition is worked on next: by partition, by key, or in no order."""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from ottla.app.declarations.listener_spec import Order, RawRecord

_NONE_DUE: Final[Mapping[int, int]] = {}


class RecordQueue(Protocol):
    """Records of one partition that wait to be worked on."""

    @property
    def next_due_ms(self) -> int | None:
        """When the next record that has to wait becomes due; None if none waits, or if another blocks it."""

    def __len__(self) -> int: ...

    def add(self, records: Iterable[RawRecord], due_ms: Mapping[int, int] = _NONE_DUE) -> None:
        """Records came; those with a due time, by offset, have to wait for it."""

    def take(self, limit: int, now_ms: int) -> list[RawRecord]:
        """Up to `limit` records that one worker may work on, one after the other or as a batch."""

    def take_only(self, offset: int, now_ms: int) -> list[RawRecord]:
        """The record at this offset, if it may be worked on now."""

    def settle(
        self,
        taken: Sequence[RawRecord],
        again: Sequence[RawRecord] = (),
        due_ms: Mapping[int, int] = _NONE_DUE,
    ) -> None:
        """The worker is through with what it took; `again` has to be worked on again, in the order of the log."""

    def requeue(self, record: RawRecord, due_ms: int) -> None:
        """A record that was settled has to be worked on again, not before this time."""


def create_queue(order: Order) -> RecordQueue:
    """The queue for an order."""
    return _QUEUES[order]()


class PartitionQueue:
    """One worker at a time, in the order of the log."""

    def __init__(self) -> None:
        self._records: deque[RawRecord] = deque()
        self._is_taken = False
        self._due_ms: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._records)

    @property
    def next_due_ms(self) -> int | None:
        """When the first record becomes due, if it has to wait."""
        if self._is_taken or not self._records or not self._due_ms:
            return None
        return self._due_ms.get(self._records[0].offset)

    def add(self, records: Iterable[RawRecord], due_ms: Mapping[int, int] = _NONE_DUE) -> None:
        """Append records."""
        self._records.extend(records)
        self._due_ms.update(due_ms)

    def take(self, limit: int, now_ms: int) -> list[RawRecord]:
        """The first records, unless a worker has some."""
        records, due = self._records, self._due_ms
        if self._is_taken or not records:
            return []
        if due:
            taken: list[RawRecord] = []
            while records and len(taken) < limit and due.get(records[0].offset, 0) <= now_ms:
                record = records.popleft()
                due.pop(record.offset, None)
                taken.append(record)
        elif len(records) <= limit:
            taken = list(records)
            records.clear()
        else:
            taken = [records.popleft() for _ in range(limit)]
        self._is_taken = bool(taken)
        return taken

    def take_only(self, offset: int, now_ms: int) -> list[RawRecord]:
        """The first record, if it is this one."""
        if not self._records or self._records[0].offset != offset:
            return []
        return self.take(1, now_ms)

    def settle(
        self,
        taken: Sequence[RawRecord],
        again: Sequence[RawRecord] = (),
        due_ms: Mapping[int, int] = _NONE_DUE,
    ) -> None:
        """The partition is free again."""
        self._is_taken = False
        if again:
            records = self._records
            is_behind = bool(records) and records[0].offset < again[-1].offset
            records.extendleft(reversed(again))
            if is_behind:  # something was put back meanwhile
                self._records = deque(sorted(records, key=_offset_of))
            self._due_ms.update(due_ms)

    def requeue(self, record: RawRecord, due_ms: int) -> None:
        """The record goes back to its place in the log."""
        insort(self._records, record, key=_offset_of)
        self._due_ms[record.offset] = due_ms


class KeyQueue:
    """Records of the same key one after the other; different keys, and records without a key, at the same time."""

    def __init__(self) -> None:
        self._ready: deque[RawRecord] = deque()
        # The keys of records that are ready, taken or not yet due, with the records that have to stay behind them.
        self._followers: dict[bytes, deque[RawRecord] | None] = {}
        self._follower_count = 0
        self._waiting: list[tuple[int, int, RawRecord]] = []
        self._due_ms: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._ready) + len(self._waiting) + self._follower_count

    @property
    def next_due_ms(self) -> int | None:
        """When the next record that waits becomes due."""
        return self._waiting[0][0] if self._waiting else None

    @staticmethod
    def key_of(record: RawRecord) -> bytes | None:
        """What keeps records in order."""
        return record.key

    def add(self, records: Iterable[RawRecord], due_ms: Mapping[int, int] = _NONE_DUE) -> None:
        """Records are ready, or stay behind others of their key."""
        self._due_ms.update(due_ms)
        followers, key_of = self._followers, self.key_of
        for record in records:
            key = key_of(record)
            if key is not None:
                if key in followers:
                    behind = followers[key]
                    if behind is None:
                        behind = followers[key] = deque()
                    behind.append(record)
                    self._follower_count += 1
                    continue
                followers[key] = None
            self._enqueue(record)

    def _enqueue(self, record: RawRecord) -> None:
        due_ms = self._due_ms.pop(record.offset, None) if self._due_ms else None
        if due_ms is None:
            self._ready.append(record)
        else:
            heapq.heappush(self._waiting, (due_ms, record.offset, record))

    def _wake(self, now_ms: int) -> None:
        while self._waiting and self._waiting[0][0] <= now_ms:
            self._ready.appendleft(heapq.heappop(self._waiting)[2])

    def take(self, limit: int, now_ms: int) -> list[RawRecord]:
        """A record whose key is free; for a batch, more such records, and what follows them."""
        if self._waiting:
            self._wake(now_ms)
        if limit == 1:
            return [self._ready.popleft()] if self._ready else []
        taken: list[RawRecord] = []
        while self._ready and len(taken) < limit:
            record = self._ready.popleft()
            taken.append(record)
            key = self.key_of(record)
            behind = None if key is None else self._followers[key]
            while behind and len(taken) < limit and behind[0].offset not in self._due_ms:
                taken.append(behind.popleft())
                self._follower_count -= 1
        taken.sort(key=_offset_of)
        return taken

    def take_only(self, offset: int, now_ms: int) -> list[RawRecord]:
        """The record at this offset, if its key is free."""
        self._wake(now_ms)
        for place, record in enumerate(self._ready):
            if record.offset == offset:
                del self._ready[place]
                return [record]
        return []

    def settle(
        self,
        taken: Sequence[RawRecord],
        again: Sequence[RawRecord] = (),
        due_ms: Mapping[int, int] = _NONE_DUE,
    ) -> None:
        """The keys are free again, unless some of their records have to be worked on again."""
        self._due_ms.update(due_ms)
        blocked: dict[bytes, list[RawRecord]] = {}
        for record in again:
            key = self.key_of(record)
            if key is None:
                self._enqueue_first(record)
            else:
                blocked.setdefault(key, []).append(record)
        for key in dict.fromkeys(map(self.key_of, taken)):
            if key is None:
                continue
            if key in blocked:
                self._block(key, blocked[key])
            else:
                self._free(key)

    def _free(self, key: bytes) -> None:
        behind = self._followers[key]
        if behind:
            self._follower_count -= 1
            self._enqueue(behind.popleft())
        else:
            del self._followers[key]

    def _block(self, key: bytes, records: list[RawRecord]) -> None:
        # Records that were put back meanwhile may be older than those of the worker.
        behind = self._followers[key] or ()
        head, *rest = sorted([*records, *behind], key=_offset_of)
        self._followers[key] = deque(rest)
        self._follower_count += len(records) - 1
        self._enqueue_first(head)

    def requeue(self, record: RawRecord, due_ms: int) -> None:
        """The record is the next one of its key, when it is due."""
        self._due_ms[record.offset] = due_ms
        key = self.key_of(record)
        if key is not None and key in self._followers:
            behind = self._followers[key] or deque()
            insort(behind, record, key=_offset_of)
            self._followers[key] = behind
            self._follower_count += 1
            if behind[0] is record:
                self._put_before(key, record)
            return
        if key is not None:
            self._followers[key] = None
        self._enqueue(record)

    def _put_before(self, key: bytes, record: RawRecord) -> None:
        """Let the first follower go before a later record of its key, unless a worker has that already."""

        def is_later(head: RawRecord) -> bool:
            return head.key == key and head.offset > record.offset

        head = next(filter(is_later, self._ready), None)
        if head is not None:
            self._ready.remove(head)
        else:
            waiting = next((each for each in self._waiting if is_later(each[2])), None)
            if waiting is None:
                return
            self._waiting.remove(waiting)
            heapq.heapify(self._waiting)
            head = waiting[2]
            self._due_ms[head.offset] = waiting[0]
        behind = self._followers[key]
        assert behind
        behind[0] = head
        self._enqueue(record)

    def _enqueue_first(self, record: RawRecord) -> None:
        """A record that was taken before is older than most that are ready."""
        if record.offset in self._due_ms:
            self._enqueue(record)
        else:
            self._ready.appendleft(record)


class UnorderedQueue(KeyQueue):
    """All records at the same time."""

    @staticmethod
    def key_of(record: RawRecord) -> bytes | None:
        """Nothing keeps records in order."""
        return None


def _offset_of(record: RawRecord) -> int:
    return record.offset


_QUEUES: Final[Mapping[Order, Callable[[], RecordQueue]]] = {
    Order.PARTITION: PartitionQueue,
    Order.KEY: KeyQueue,
    Order.NONE: UnorderedQueue,
}
