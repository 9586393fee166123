"""ListOffsets: the first offset, the last offset and offsets at times, as the leaders of partitions know them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.client.aio.network.network import Network
from ottla.client.state.consumer.positions import LeaderAndEpoch
from ottla.errors import ErrorCode, FatalError, KafkaError, TimedOutError, exception_for
from ottla.model import NO_LEADER, TopicPartition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

CONSUMER_REPLICA_ID: Final = -1
NO_OFFSET: Final = -1
_FINAL: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


class LeaderOffset(NamedTuple):
    """The answer of a leader; the offset is -1 if no record is as new as the requested time."""

    offset: int
    timestamp: int
    leader_epoch: int


class LogOffsets:
    """Asks the leaders of partitions for offsets."""

    def __init__(
        self, network: Network, *, isolation_level: int, request_timeout_ms: float
    ) -> None:
        self._network = network
        self._isolation_level = isolation_level
        self._request_timeout_ms = request_timeout_ms

    async def find(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, LeaderOffset]:
        """The offsets at these times, or at EARLIEST_TIMESTAMP and LATEST_TIMESTAMP; retries until the timeout."""
        left = dict(timestamps)
        found: dict[TopicPartition, LeaderOffset] = {}
        problem: KafkaError | None = None
        attempt = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
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
            raise  # it names a topic that does not exist
        except TimeoutError:
            for topic in dict.fromkeys(partition.topic for partition in left):
                if topic not in self._network.cluster.topics:
                    raise self._network.no_topic(topic, timeout_ms) from None
            names = ", ".join(str(partition) for partition in left)
            problem = problem or self._network.trouble
            why = "" if problem is None else f" The last error: {problem}"
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
        """Send one request to every leader; raises an error that a retry would not cure."""
        found: dict[TopicPartition, LeaderOffset] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        by_leader = self.by_leader(timestamps)
        for partition in by_leader.pop(NO_LEADER, ()):
            errors[partition] = self._no_leader(partition)
        answers = await asyncio.gather(
            *(
                self.list_at(leader, {p: timestamps[p] for p in partitions})
                for leader, partitions in by_leader.items()
            )
        )
        for listed, failed in answers:
            found |= listed
            errors |= failed
        for error in errors.values():
            if is_final(error):
                raise error
        return found, errors

    async def list_at(
        self, leader: int, timestamps: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, LeaderOffset], dict[TopicPartition, KafkaError]]:
        """The offsets that one leader answers, and the errors of the other partitions."""
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

    def leader_of(self, partition: TopicPartition) -> LeaderAndEpoch:
        """The leader by the newest metadata."""
        found = self._network.cluster.partition(*partition)
        return (
            LeaderAndEpoch() if found is None else LeaderAndEpoch(found.leader, found.leader_epoch)
        )

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions of each leader, by node id; those without a leader are under NO_LEADER."""
        groups: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            groups.setdefault(self.leader_of(partition).leader, []).append(partition)
        return groups


def is_final(error: KafkaError) -> bool:
    """Whether a retry would not help; as in Kafka's client, most errors are taken for temporary."""
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
