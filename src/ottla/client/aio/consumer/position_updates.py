"""How partitions get a valid position: the committed offset, a reset (ListOffsets), validation (KIP-320).

Lookups run as tasks. The consumer's poll starts them and raises their errors; it does not wait for them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from ottla.client.aio.consumer.log_offsets import (
    CONSUMER_REPLICA_ID,
    NO_OFFSET,
    LogOffsets,
    is_final,
)
from ottla.client.aio.group.group import GroupMember
from ottla.client.aio.network.network import Network
from ottla.client.model import OffsetAndMetadata
from ottla.client.state.consumer.positions import (
    LATEST_TIMESTAMP,
    NO_EPOCH,
    FetchPosition,
    FetchState,
    Truncation,
    reset_timestamp_ms,
)
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.config.offset_reset import OffsetReset, OffsetResetKind
from ottla.errors import (
    ErrorCode,
    KafkaError,
    LogTruncationError,
    NoOffsetError,
    OttlaError,
    exception_for,
)
from ottla.model import NO_LEADER, TopicPartition
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logging.getLogger("ottla.client")

# Before Kafka 2.3 the request needed the rights of a broker, so consumers did not send it.
_FIRST_VALIDATING_VERSION: Final = 3


class PositionUpdates:
    """Starts the lookups that partitions without a valid position need."""

    def __init__(
        self,
        network: Network,
        subscriptions: SubscriptionState,
        group: GroupMember,
        offsets: LogOffsets,
        *,
        request_timeout_ms: float,
        wake: Callable[[], None],
    ) -> None:
        self._network = network
        self._subscriptions = subscriptions
        self._group = group
        self._offsets = offsets
        self._request_timeout_ms = request_timeout_ms
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._fetching_committed: asyncio.Task[None] | None = None
        # The error of the committed offsets, and that of resets and validations: neither replaces the other.
        self._committed_error: OttlaError | None = None
        self._lookup_error: OttlaError | None = None
        self._failures = 0
        network.on_update.append(lambda _: self._follow_leaders())

    def update(self) -> None:
        """Start the lookups that are due; does not wait."""
        if self._subscriptions.has_all_positions():
            return
        if self._fetching_committed is None and self._subscriptions.needs_position():
            self._initialize()
        now_ms = self._now_ms()
        resets = self._subscriptions.needs_reset(now_ms)
        if resets:
            self._start_resets(resets)
        unsure = self._subscriptions.needs_validation(now_ms)
        if unsure:
            self._start_validations(unsure)

    def raise_error(self) -> None:
        """Raise the error of a lookup, once; if there are two, the next call raises the other."""
        error, self._committed_error = self._committed_error, None
        if error is None:
            error, self._lookup_error = self._lookup_error, None
        if error is not None:
            raise error

    def seek(self, partition: TopicPartition, to: OffsetAndMetadata) -> None:
        """Set a position; one with a leader epoch is validated."""
        epoch = NO_EPOCH if to.leader_epoch is None else to.leader_epoch
        leader = self._offsets.leader_of(partition)
        if epoch > leader.epoch:
            # The epoch comes from metadata that is newer than ours.
            self._network.request_update()
        self._subscriptions.state(partition).seek(FetchPosition(to.offset, epoch, leader))

    def _follow_leaders(self) -> None:
        """After a metadata update, have positions validated whose leader has changed."""
        for partition, state in self._subscriptions.states().items():
            state.follow_leader(self._offsets.leader_of(partition))
        self._wake()

    async def close(self) -> None:
        """Cancel the lookups."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Committed offsets

    def _initialize(self) -> None:
        if self._group.group_id is None:
            self._reset_uncommitted(self._subscriptions.needs_position())
        else:
            self._fetching_committed = self._spawn(self._seek_committed())

    async def _seek_committed(self) -> None:
        """Start at the committed offsets; partitions without one are reset."""
        partitions = self._subscriptions.needs_position()
        try:
            committed = await self._group.committed(partitions)
        except KafkaError as error:
            if not error.code.retriable:
                raise
            log.debug("committed offsets will be fetched again: %s", error)
            return
        for partition, found in committed.items():
            if found is not None and self._is_initializing(partition):
                self.seek(partition, found)
        self._reset_uncommitted([p for p in partitions if committed.get(p) is None])

    def _reset_uncommitted(self, partitions: Iterable[TopicPartition]) -> None:
        """Reset partitions without a committed offset by auto.offset.reset."""
        reset = self._subscriptions.default_reset
        without_reset = []
        for partition in partitions:
            if not self._is_initializing(partition):
                continue  # the program has sought, or the partition was revoked, in the meantime
            if reset.kind is OffsetResetKind.NONE:
                without_reset.append(partition)
            else:
                self._subscriptions.state(partition).request_reset(reset)
        if without_reset:
            raise NoOffsetError(without_reset)

    def _is_initializing(self, partition: TopicPartition) -> bool:
        state = self._subscriptions.find(partition)
        return state is not None and state.fetch_state is FetchState.INITIALIZING

    # Resets

    def _start_resets(self, partitions: list[TopicPartition]) -> None:
        wanted: dict[TopicPartition, OffsetReset] = {}
        for partition in partitions:
            reset = self._subscriptions.state(partition).reset
            assert reset is not None
            if reset.kind is OffsetResetKind.NONE:
                raise NoOffsetError([partition])
            wanted[partition] = reset
        by_leader = self._offsets.by_leader(wanted)
        if by_leader.pop(NO_LEADER, None):
            self._network.request_update()
        for leader, theirs in by_leader.items():
            self._subscriptions.retry_after(theirs, self._now_ms() + self._request_timeout_ms)
            self._spawn(self._reset(leader, {p: wanted[p] for p in theirs}))

    async def _reset(self, leader: int, resets: Mapping[TopicPartition, OffsetReset]) -> None:
        wall_clock_ms = round(time.time() * 1000)
        asked = {p: reset_timestamp_ms(reset, wall_clock_ms) for p, reset in resets.items()}
        found, errors = await self._offsets.list_at(leader, asked)
        # All records are older than the duration: start at the end (KIP-1106).
        ends = {p: LATEST_TIMESTAMP for p, listed in found.items() if listed.offset == NO_OFFSET}
        if ends:
            listed, failed = await self._offsets.list_at(leader, ends)
            found = {p: listed[p] if p in ends else found[p] for p in found if p not in failed}
            errors |= failed
        if errors:
            self._retry_later(errors)
        else:
            self._failures = 0
        for partition, listed_offset in found.items():
            state = self._subscriptions.find(partition)
            position = FetchPosition(
                listed_offset.offset, NO_EPOCH, self._offsets.leader_of(partition)
            )
            if state is not None and state.complete_reset(resets[partition], position):
                log.info("reset the position of %s to offset %d", partition, listed_offset.offset)

    # Validation

    def _start_validations(self, partitions: list[TopicPartition]) -> None:
        by_leader: dict[int, dict[TopicPartition, FetchPosition]] = {}
        for partition in partitions:
            position = self._subscriptions.state(partition).position
            assert position is not None
            by_leader.setdefault(position.leader.leader, {})[partition] = position
        for leader, positions in by_leader.items():
            self._subscriptions.retry_after(positions, self._now_ms() + self._request_timeout_ms)
            self._spawn(self._validate(leader, positions))

    async def _validate(
        self, leader: int, positions: Mapping[TopicPartition, FetchPosition]
    ) -> None:
        try:
            connection = await self._network.connection(leader)
            version = connection.version_of(OffsetForLeaderEpochRequest)
            if version < _FIRST_VALIDATING_VERSION:
                self._skip_validation(positions)
                return
            response = await connection.send(_epochs_request(positions), version)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                self._skip_validation(positions)
            else:
                self._retry_later(dict.fromkeys(positions, error))
            return
        self._complete_validations(positions, response, self._network.name_of(leader))

    def _skip_validation(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            state = self._subscriptions.find(partition)
            if state is not None:
                state.skip_validation()

    def _complete_validations(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        response: OffsetForLeaderEpochResponse,
        broker: str,
    ) -> None:
        errors: dict[TopicPartition, KafkaError] = {}
        truncations: dict[TopicPartition, Truncation] = {}
        answered = {
            TopicPartition(t.topic, p.partition): p for t in response.topics for p in t.partitions
        }
        for partition, asked in positions.items():
            end = answered.get(partition)
            state = self._subscriptions.find(partition)
            if end is None or end.error_code:
                code = ErrorCode.UNKNOWN_SERVER_ERROR if end is None else end.error_code
                errors[partition] = exception_for(
                    code, api="OffsetForLeaderEpoch", partition=partition, broker=broker
                )
            elif state is not None:
                truncation = state.complete_validation(
                    asked, end.leader_epoch, end.end_offset, self._subscriptions.default_reset
                )
                if truncation is not None:
                    truncations[partition] = truncation
        if errors:
            self._retry_later(errors)
        if truncations:
            self._lookup_error = self._lookup_error or LogTruncationError(
                {p: t.position.offset for p, t in truncations.items()},
                {
                    p: t.diverging_offset
                    for p, t in truncations.items()
                    if t.diverging_offset is not None
                },
            )

    # Retries and tasks

    def _retry_later(self, errors: Mapping[TopicPartition, KafkaError]) -> None:
        delay_ms = self._network.retry.delay_ms(self._failures, random.random())
        self._failures += 1
        self._subscriptions.retry_after(errors, self._now_ms() + delay_ms)
        self._network.request_update()
        # A waiting poll has to look at the time again.
        self._loop.call_later(delay_ms / 1000, self._wake)
        for error in errors.values():
            log.debug("will ask again for an offset: %s", error)
            if is_final(error):
                self._lookup_error = self._lookup_error or error

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        is_of_committed = task is self._fetching_committed
        if is_of_committed:
            self._fetching_committed = None
        if not task.cancelled():
            error = task.exception()
            if isinstance(error, OttlaError) and is_of_committed:
                self._committed_error = error
            elif isinstance(error, OttlaError):
                self._lookup_error = self._lookup_error or error
            elif error is not None:
                log.error("looking up offsets failed", exc_info=error)
            self._wake()

    def _now_ms(self) -> float:
        return self._loop.time() * 1000


def _epochs_request(
    positions: Mapping[TopicPartition, FetchPosition],
) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for partition, position in positions.items():
        topics.setdefault(partition.topic, []).append(
            OffsetForLeaderPartition(
                partition=partition.partition,
                current_leader_epoch=position.leader.epoch,
                leader_epoch=position.offset_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=[OffsetForLeaderTopic(topic=name, partitions=p) for name, p in topics.items()],
    )
