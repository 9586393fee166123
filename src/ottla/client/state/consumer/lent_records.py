"""Fetched records that the loop of a blocking consumer has lent to the thread of the program.

A poll on the loop costs two changes of threads. So it lends what it leaves in the fetch buffer: for a few milliseconds
the next polls read that on their own thread. Until the loop has taken the records back, only the program's thread
moves their positions, and the loop postpones changes of their leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock, get_ident
from typing import NamedTuple, TypeVar

from ottla.client.model import ConsumerRecord, ConsumerRecords, OffsetAndMetadata
from ottla.client.state.consumer.fetched_partition import FetchedPartition
from ottla.client.state.consumer.positions import NO_EPOCH, AssignedPartition, FetchPosition
from ottla.model import TopicPartition

R = TypeVar("R")


class Lent(NamedTuple):
    """Fetched records of one partition, and its state."""

    fetched: FetchedPartition
    state: AssignedPartition


class LentRecords:
    """Takes records on the program's thread; another thread that calls the consumer meanwhile is refused."""

    def __init__(self, lent: Sequence[Lent], until_seconds: float) -> None:
        """`until_seconds` is the end of the loan, by the caller's clock."""
        self.lent = lent
        self.until_seconds = until_seconds
        self.is_recalled = False
        """Whether the next poll has to ask the loop; any thread and any signal handler may set it."""
        self.is_reentered = False
        """Whether the thread that takes records has called the consumer meanwhile: a deserializer may do that."""
        self._first = 0
        self._lock = Lock()
        self._holder: int | None = None

    @property
    def is_reading(self) -> bool:
        """Whether a thread takes records at this moment."""
        return self._holder is not None

    def recall(self, caller: int | None) -> bool:
        """Lend nothing more; False if another thread than the caller's takes records at this moment."""
        if self._lock.acquire(blocking=False):
            self.is_recalled = True
            self._lock.release()
            return True
        if self._holder != caller:
            return False
        # A deserializer, or a signal handler, of the thread that takes records: what it is taking stays where it was.
        self.is_recalled = self.is_reentered = True
        return True

    def take(
        self, max_records: int, now_seconds: float, deliver: Callable[[ConsumerRecords], R]
    ) -> R | None:
        """Pass at most `max_records` records to `deliver`; None if the loop has to be asked."""
        caller = get_ident()
        # A signal handler must not wait for the call that it interrupts, nor another thread for a deserializer: the
        # loop refuses it.
        if now_seconds >= self.until_seconds or self._holder is not None:
            return None
        moved: list[tuple[AssignedPartition, FetchPosition]] = []
        try:
            with self._lock:
                # No call in between, after which a signal handler would meet the lock without its holder.
                self._holder = caller
                delivered = None if self.is_recalled else self._take(max_records, deliver, moved)
            self._holder = None
            # The interpreter handles signals after calls: from here on it is the caller who is interrupted.
            return delivered
        except BaseException:
            # Ctrl-C: the program does not get these records, which are fetched again.
            self.is_recalled = True
            self._holder = None
            for state, before in moved:
                state.position = before
            raise

    def _take(
        self,
        max_records: int,
        deliver: Callable[[ConsumerRecords], R],
        moved: list[tuple[AssignedPartition, FetchPosition]],
    ) -> R | None:
        """As `take`; `moved` gets the positions before."""
        records: dict[TopicPartition, Sequence[ConsumerRecord]] = {}
        next_offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        read: list[Lent] = []
        left = max_records
        first = self._first
        while left > 0 and first < len(self.lent):
            fetched, state = self.lent[first]
            before = state.position
            if before is None or not state.is_fetchable or before.offset != fetched.next_offset:
                break
            try:
                taken = fetched.take(left)
            except Exception:
                break  # a poll on the loop meets the same error, and raises it
            partition = fetched.partition
            if taken:
                records[partition] = taken
            if fetched.next_offset != before.offset:
                epoch = None if fetched.last_epoch == NO_EPOCH else fetched.last_epoch
                next_offsets[partition] = OffsetAndMetadata(fetched.next_offset, "", epoch)
                moved.append((state, before))
                read.append(self.lent[first])
            left -= len(taken)
            if not fetched.is_consumed:
                break
            first += 1
        if not read or self.is_recalled:
            moved.clear()
            return None
        for fetched, state in read:
            state.advance(fetched.next_offset, fetched.last_epoch)
        self._first = first
        return deliver(ConsumerRecords(records, next_offsets))
