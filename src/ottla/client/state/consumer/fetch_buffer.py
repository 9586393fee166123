"""Fetched records that no poll has returned yet, and the order in which polls return them."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Final

from ottla.client.state.consumer.fetched_partition import FetchedPartition, corrupt_error
from ottla.client.state.consumer.lent_records import Lent, LentRecords
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.config.offset_reset import OffsetResetKind
from ottla.errors import ErrorCode, OffsetOutOfRangeError, exception_for
from ottla.model import TopicPartition

# One from which polls return records, and one that is fetched in the meantime.
FETCHES_AHEAD: Final = 2


class FetchBuffer:
    """Fetched partitions in the order of their arrival; up to two for each partition.

    The second fetch of a partition starts where the records of the first end, so that the broker works while the
    program does. After a seek neither matches the position any more, and both are dropped.
    """

    def __init__(self, subscriptions: SubscriptionState, limit_bytes: int) -> None:
        self._subscriptions = subscriptions
        self._limit_bytes = limit_bytes
        self._queue: deque[FetchedPartition] = deque()
        self._by_partition: dict[TopicPartition, list[FetchedPartition]] = {}
        self.size_bytes = 0
        self.in_use: FetchedPartition | None = None
        """The element that user code reads on another thread: its offset is ahead of the position."""

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, fetched: FetchedPartition) -> None:
        """Add fetched records, or an error that a poll has to raise."""
        self._queue.append(fetched)
        self._by_partition.setdefault(fetched.partition, []).append(fetched)
        self.size_bytes += fetched.size_bytes

    def fetch_offset(self, partition: TopicPartition, position: int) -> int | None:
        """The offset of the next fetch, behind what is buffered; None if enough is buffered."""
        buffered = self._by_partition.get(partition)
        if not buffered:
            return position
        first, last = buffered[0], buffered[-1]
        is_read = first is self.in_use or first.is_lent
        if first.next_offset != position and not is_read:
            # It was fetched before a seek, and is dropped when it is next in line.
            return position
        if len(buffered) >= FETCHES_AHEAD or self.is_full:
            return None
        return last.end_offset

    @property
    def is_full(self) -> bool:
        """Whether the size limit is reached; partitions of which nothing is buffered are fetched all the same."""
        return self.size_bytes >= self._limit_bytes

    def next_in_line(self, enough: Container[TopicPartition] = ()) -> FetchedPartition | None:
        """The element whose records a poll returns next; drops elements that do not match their position.

        Elements of partitions in `enough` are skipped. An error of a fetch is raised, and its element dropped.
        """
        for fetched in tuple(self._queue):
            state = self._subscriptions.find(fetched.partition)
            if (
                state is None
                or state.position is None
                or not state.has_valid_position
                or state.position.offset != fetched.next_offset
                or state.pending_revocation
            ):
                self._remove(fetched)
            elif state.paused or fetched.partition in enough:
                continue
            elif fetched.error is not ErrorCode.NONE:
                self._remove(fetched)
                self._raise_or_reset(fetched)
            else:
                return fetched
        return None

    def taken(self, fetched: FetchedPartition, start_offset: int) -> bool:
        """Advance the position past the records that were taken; False if they must not be returned."""
        state = self._subscriptions.find(fetched.partition)
        if (
            state is None
            or state.position is None
            or not state.has_valid_position
            or state.position.offset != start_offset
        ):
            # The leader changed, or the partition was revoked, while another thread deserialized.
            self._remove(fetched)
            return False
        if fetched.next_offset > start_offset:
            state.advance(fetched.next_offset, fetched.last_epoch)
        if fetched.is_consumed:
            self._remove(fetched)
            if fetched.size_bytes:
                self._subscriptions.move_to_end(fetched.partition)
        return True

    def lend(self, until_seconds: float) -> LentRecords | None:
        """Lend the elements that the next polls return to the program's thread; None if there are none."""
        lent: list[Lent] = []
        for fetched in self._queue:
            state = self._subscriptions.find(fetched.partition)
            if (
                state is None
                or state.position is None
                or not state.is_fetchable
                or state.position.offset != fetched.next_offset
            ):
                continue
            if fetched.error is not ErrorCode.NONE:
                break  # a poll on the loop raises it, once the records before it are read
            lent.append(Lent(fetched, state))
        for fetched, state in lent:
            fetched.is_lent = state.is_lent = True
        return LentRecords(lent, until_seconds) if lent else None

    def take_back(self, lent: LentRecords) -> list[FetchedPartition]:
        """End a loan; returns the elements whose records were all returned, which are removed."""
        consumed = []
        for fetched, state in lent.lent:
            fetched.is_lent = False
            state.end_loan()
            is_read = state.position is not None and state.position.offset == fetched.next_offset
            if fetched.is_consumed and is_read and fetched in self._queue:
                self._remove(fetched)
                self._subscriptions.move_to_end(fetched.partition)
                consumed.append(fetched)
        return consumed

    def retain(self) -> None:
        """Drop elements of partitions that are not assigned any more."""
        for fetched in tuple(self._queue):
            if not self._subscriptions.is_assigned(fetched.partition):
                self._remove(fetched)

    def retain_topics(self, topics: Container[str]) -> None:
        """Drop elements of other topics, which the program has unsubscribed from."""
        for fetched in tuple(self._queue):
            if fetched.partition.topic not in topics:
                self._remove(fetched)

    def drop(self, fetched: FetchedPartition) -> None:
        """Drop an element, which is fetched again when it is needed."""
        self._remove(fetched)

    def clear(self) -> None:
        self._queue.clear()
        self._by_partition.clear()
        self.size_bytes = 0

    def _remove(self, fetched: FetchedPartition) -> None:
        self._queue.remove(fetched)
        self.size_bytes -= fetched.size_bytes
        buffered = self._by_partition[fetched.partition]
        buffered.remove(fetched)
        if not buffered:
            del self._by_partition[fetched.partition]
        fetched.drop()

    def _raise_or_reset(self, fetched: FetchedPartition) -> None:
        partition, offset, error = fetched.partition, fetched.fetch_offset, fetched.error
        state = self._subscriptions.state(partition)
        self._subscriptions.move_to_end(partition)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.forget_replica() is not None:
                return  # a follower may be behind or ahead: fetch from the leader
            default = self._subscriptions.default_reset
            if default.kind is OffsetResetKind.NONE:
                raise OffsetOutOfRangeError({partition: offset})
            state.request_reset(default)
        elif error is ErrorCode.CORRUPT_MESSAGE:
            raise corrupt_error(partition, offset, "the broker reports that they are corrupt")
        else:
            raise exception_for(error, api="Fetch", partition=partition, offset=offset)
