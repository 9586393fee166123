"""Fetched records that wait for the user, and in which order he gets them."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Final

from ottla.client.state.consumer.fetched_partition import Fetched, corrupt_error
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.config.offset_reset import OffsetResetKind
from ottla.errors import ErrorCode, OffsetOutOfRangeError, exception_for
from ottla.model import TopicPartition

# One that the user is given records of, and one that is fetched meanwhile.
FETCHES_AHEAD: Final = 2


class FetchBuffer:
    """Answers in the order of their arrival; up to two in a row for each partition.

    A second fetch of a partition starts where the records of the first end, so that the broker works while
    the user does. If he seeks, neither fits his position any more, and both are dropped.
    """

    def __init__(self, subscriptions: SubscriptionState, limit_bytes: int) -> None:
        self._subscriptions = subscriptions
        self._limit_bytes = limit_bytes
        self._queue: deque[Fetched] = deque()
        self._by_partition: dict[TopicPartition, list[Fetched]] = {}
        self.size_bytes = 0
        self.in_use: Fetched | None = None
        """Somebody takes records out of it at the moment: it is ahead of the position."""

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, fetched: Fetched) -> None:
        """An answer with records, or with an error that is the user's business."""
        self._queue.append(fetched)
        self._by_partition.setdefault(fetched.partition, []).append(fetched)
        self.size_bytes += fetched.size_bytes

    def fetch_offset(self, partition: TopicPartition, position: int) -> int | None:
        """Where to fetch on behind what is buffered; None if there is enough already."""
        buffered = self._by_partition.get(partition)
        if not buffered:
            return position
        first, last = buffered[0], buffered[-1]
        if first.next_offset != position and first is not self.in_use:
            # From before a seek: it will be dropped when it is next in line.
            return position
        if len(buffered) >= FETCHES_AHEAD or self.is_full:
            return None
        return last.end_offset

    @property
    def is_full(self) -> bool:
        """Whether it holds as much as it may; partitions of which it has nothing are fetched all the same."""
        return self.size_bytes >= self._limit_bytes

    def next_in_line(self, enough: Container[TopicPartition] = ()) -> Fetched | None:
        """The answer whose records the user gets next; drops those that he does not want any more.

        Those of partitions of which he has `enough` stay where they are.

        Raises the error that he has to know of, after which the answer is gone.
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

    def taken(self, fetched: Fetched, start_offset: int) -> bool:
        """Moves the position past what was taken; False if the user must not see it after all."""
        state = self._subscriptions.find(fetched.partition)
        if (
            state is None
            or state.position is None
            or not state.has_valid_position
            or state.position.offset != start_offset
        ):
            # The leader changed, or the partition went, while another thread deserialized.
            self._remove(fetched)
            return False
        if fetched.next_offset > start_offset:
            state.advance(fetched.next_offset, fetched.last_epoch)
        if fetched.is_consumed:
            self._remove(fetched)
            if fetched.size_bytes:
                self._subscriptions.move_to_end(fetched.partition)
        return True

    def retain(self) -> None:
        """Drops what belongs to partitions that are assigned no more."""
        for fetched in tuple(self._queue):
            if not self._subscriptions.is_assigned(fetched.partition):
                self._remove(fetched)

    def retain_topics(self, topics: Container[str]) -> None:
        """Drops what belongs to other topics: the user wants them no more, whatever is assigned."""
        for fetched in tuple(self._queue):
            if fetched.partition.topic not in topics:
                self._remove(fetched)

    def drop(self, fetched: Fetched) -> None:
        """Nobody wants it before something else is read: it can be fetched again."""
        self._remove(fetched)

    def clear(self) -> None:
        self._queue.clear()
        self._by_partition.clear()
        self.size_bytes = 0

    def _remove(self, fetched: Fetched) -> None:
        self._queue.remove(fetched)
        self.size_bytes -= fetched.size_bytes
        buffered = self._by_partition[fetched.partition]
        buffered.remove(fetched)
        if not buffered:
            del self._by_partition[fetched.partition]
        fetched.drop()

    def _raise_or_reset(self, fetched: Fetched) -> None:
        partition, offset, error = fetched.partition, fetched.fetch_offset, fetched.error
        state = self._subscriptions.state(partition)
        self._subscriptions.move_to_end(partition)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.forget_replica() is not None:
                return  # a follower may be behind or ahead: ask the leader
            default = self._subscriptions.default_reset
            if default.kind is OffsetResetKind.NONE:
                raise OffsetOutOfRangeError({partition: offset})
            state.request_reset(default)
        elif error is ErrorCode.CORRUPT_MESSAGE:
            raise corrupt_error(partition, offset, "the broker says that they are corrupt")
        else:
            raise exception_for(error, api="Fetch", partition=partition, offset=offset)
