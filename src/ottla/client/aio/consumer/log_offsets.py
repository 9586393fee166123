"""Offsets that brokers know: of times and ends of logs (ListOffsets), and of leader epochs (KIP-320)."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ottla.client.aio.network.brokers import Network
from ottla.client.state.consumer.positions import (
    LATEST_TIMESTAMP,
    NO_EPOCH,
    FetchPosition,
    LeaderAndEpoch,
    Truncation,
    reset_timestamp_ms,
)
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.config.offset_reset import OffsetReset, OffsetResetKind
from ottla.errors import (
    ErrorCode,
    FatalError,
    KafkaError,
    LogTruncationError,
    NoOffsetError,
    OttlaError,
    TimedOutError,
    exception_for,
)
from ottla.model import NO_LEADER, TopicPartition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logging.getLogger("ottla.client")

CONSUMER_REPLICA_ID: Final = -1
NO_OFFSET: Final = -1
READ_COMMITTED: Final = 1
_FINAL: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)
# Before Kafka 2.3 the request needed the rights of a broker, so consumers did not send it.
_FIRST_VALIDATING_VERSION: Final = 3


class LeaderOffset(NamedTuple):
    """What a leader answered; the offset is -1 if no record is as new as the time asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


class Offsets:
    """Asks leaders for offsets: for the user, and to give partitions their positions."""

    def __init__(
        self,
        network: Network,
        subscriptions: SubscriptionState,
        *,
        isolation_level: int,
        request_timeout_ms: float,
        on_change: Callable[[], None],
    ) -> None:
        self._network = network
        self._subscriptions = subscriptions
        self._isolation_level = isolation_level
        self._request_timeout_ms = request_timeout_ms
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: OttlaError | None = None
        self._failures = 0
        network.on_update.append(lambda _: self.follow_leaders())

    # For the user

    async def find(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, LeaderOffset]:
        """The offsets at these times (or names of positions); asks again until all have answered."""
        deadline = self._loop.time() + timeout_ms / 1000
        left = dict(timestamps)
        found: dict[TopicPartition, LeaderOffset] = {}
        problem: KafkaError | None = None
        attempt = 0
        try:
            async with asyncio.timeout_at(deadline):
                for topic in dict.fromkeys(partition.topic for partition in left):
                    await self._network.topic(topic, timeout_ms)
                while left:
                    listed, errors = await self._find_once(left)
                    found |= listed
                    left = {p: left[p] for p in left if p not in listed}
                    problem = next(iter(errors.values()), problem)
                    if left:
                        self._network.request_update()
                        delay_ms = self._network.retry.delay_ms(attempt, random.random())
                        attempt += 1
                        await asyncio.sleep(delay_ms / 1000)
        except TimedOutError:
            raise  # which says that a topic is not there
        except TimeoutError:
            for topic in dict.fromkeys(partition.topic for partition in left):
                if topic not in self._network.cluster.topics:
                    raise self._network.no_topic(topic, timeout_ms) from None
            names = ", ".join(str(partition) for partition in left)
            problem = problem or self._network.trouble
            why = "" if problem is None else f" The last trouble: {problem}"
            raise TimedOutError(
                message=f"No offsets came for {names} within {round(timeout_ms)} ms.{why}",
                context={"api": "ListOffsets"},
            ) from problem
        return found

    def _no_leader(self, partition: TopicPartition) -> KafkaError:
        topic = self._network.cluster.topics.get(partition.topic)
        if topic is not None and partition.partition >= len(topic.partitions):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            why = f"The topic's partitions are 0 to {len(topic.partitions) - 1}."
            return exception_for(code, why, api="ListOffsets", partition=partition)
        return exception_for(ErrorCode.LEADER_NOT_AVAILABLE, api="ListOffsets", partition=partition)

    async def _find_once(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, LeaderOffset], dict[TopicPartition, KafkaError]]:
        """One request to every leader; an error that asking again does not mend is raised."""
        found: dict[TopicPartition, LeaderOffset] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        by_leader = self._by_leader(timestamps)
        for partition in by_leader.pop(NO_LEADER, ()):
            errors[partition] = self._no_leader(partition)
        answers = await asyncio.gather(
            *(
                self._list(leader, {p: timestamps[p] for p in partitions})
                for leader, partitions in by_leader.items()
            )
        )
        for listed, failed in answers:
            found |= listed
            errors |= failed
        for error in errors.values():
            if _is_final(error):
                raise error
        return found, errors

    async def _list(
        self, leader: int, timestamps: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, LeaderOffset], dict[TopicPartition, KafkaError]]:
        """What one leader answers, and for which partitions it has none."""
        try:
            response = await self._network.call(leader, self._list_request(timestamps))
        except KafkaError as error:
            return {}, dict.fromkeys(timestamps, error)
        broker = self._network.name_of(leader)
        return _read_listed(response, broker)

    def _list_request(self, timestamps: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for partition, timestamp in timestamps.items():
            topics.setdefault(partition.topic, []).append(
                ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=self.leader_of(partition).epoch,
                    timestamp=timestamp,
                )
            )
        return ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=self._isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=p) for name, p in topics.items()],
            timeout_ms=round(self._request_timeout_ms),
        )

    # For positions

    def leader_of(self, partition: TopicPartition) -> LeaderAndEpoch:
        """The leader as the newest metadata has it."""
        found = self._network.cluster.partition(*partition)
        return (
            LeaderAndEpoch() if found is None else LeaderAndEpoch(found.leader, found.leader_epoch)
        )

    def follow_leaders(self) -> None:
        """After a metadata update: positions are to be validated where the leader has changed."""
        for partition, state in self._subscriptions.states().items():
            state.follow_leader(self.leader_of(partition))
        self._on_change()

    def raise_error(self) -> None:
        """Raises what went wrong in the background, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def update_positions(self) -> None:
        """Starts looking up offsets and validating positions where that is due; does not wait."""
        now_ms = self._now_ms()
        resets = self._subscriptions.needs_reset(now_ms)
        if resets:
            self._start_resets(resets)
        unsure = self._subscriptions.needs_validation(now_ms)
        if unsure:
            self._start_validations(unsure)

    def _start_resets(self, partitions: list[TopicPartition]) -> None:
        wanted: dict[TopicPartition, OffsetReset] = {}
        for partition in partitions:
            reset = self._subscriptions.state(partition).reset
            assert reset is not None
            if reset.kind is OffsetResetKind.NONE:
                raise NoOffsetError([partition])
            wanted[partition] = reset
        by_leader = self._by_leader(wanted)
        if by_leader.pop(NO_LEADER, None):
            self._network.request_update()
        for leader, theirs in by_leader.items():
            self._subscriptions.retry_after(theirs, self._now_ms() + self._request_timeout_ms)
            self._spawn(self._reset(leader, {p: wanted[p] for p in theirs}))

    async def _reset(self, leader: int, resets: Mapping[TopicPartition, OffsetReset]) -> None:
        wall_clock_ms = round(time.time() * 1000)
        asked = {p: reset_timestamp_ms(reset, wall_clock_ms) for p, reset in resets.items()}
        found, errors = await self._list(leader, asked)
        # Nothing is as new as the duration says: then the end is the place to wait (KIP-1106).
        ends = {p: LATEST_TIMESTAMP for p, listed in found.items() if listed.offset == NO_OFFSET}
        if ends:
            listed, failed = await self._list(leader, ends)
            found = {p: listed[p] if p in ends else found[p] for p in found if p not in failed}
            errors |= failed
        if errors:
            self._retry_later(errors)
        else:
            self._failures = 0
        for partition, listed_offset in found.items():
            state = self._subscriptions.find(partition)
            position = FetchPosition(listed_offset.offset, NO_EPOCH, self.leader_of(partition))
            if state is not None and state.complete_reset(resets[partition], position):
                log.info("reset the position of %s to offset %d", partition, listed_offset.offset)

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
            self._error = self._error or LogTruncationError(
                {p: t.position.offset for p, t in truncations.items()},
                {
                    p: t.diverging_offset
                    for p, t in truncations.items()
                    if t.diverging_offset is not None
                },
            )

    def _retry_later(self, errors: Mapping[TopicPartition, KafkaError]) -> None:
        delay_ms = self._network.retry.delay_ms(self._failures, random.random())
        self._failures += 1
        self._subscriptions.retry_after(errors, self._now_ms() + delay_ms)
        self._network.request_update()
        # The waiting poll looks at the clock again.
        self._loop.call_later(delay_ms / 1000, self._on_change)
        for error in errors.values():
            log.debug("will ask again for an offset: %s", error)
            if _is_final(error):
                self._error = self._error or error

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        groups: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            groups.setdefault(self.leader_of(partition).leader, []).append(partition)
        return groups

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                log.error("looking up offsets failed", exc_info=error)
            self._on_change()

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    async def close(self) -> None:
        """Ends what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _is_final(error: KafkaError) -> bool:
    """Whether asking again will not help; as in Kafka's client, most errors are expected to pass."""
    return isinstance(error, FatalError) or error.code in _FINAL


def _read_listed(
    response: ListOffsetsResponse, broker: str
) -> tuple[dict[TopicPartition, LeaderOffset], dict[TopicPartition, KafkaError]]:
    found: dict[TopicPartition, LeaderOffset] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for topic in response.topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code in (
                ErrorCode.NONE,
                # A log from before Kafka 0.10 has no times: no record is as new as was asked.
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ):
                found[partition] = LeaderOffset(
                    answer.offset, answer.timestamp, answer.leader_epoch
                )
            else:
                errors[partition] = exception_for(
                    answer.error_code, api="ListOffsets", partition=partition, broker=broker
                )
    return found, errors


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
