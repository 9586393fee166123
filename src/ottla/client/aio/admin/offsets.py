"""Offsets of partitions: first, last, at times, and the ends of leader epochs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ottla.client.admin_model.offsets import EpochEnd, IsolationLevel, ListedOffset, OffsetSpec
from ottla.client.aio.admin.answers import Answers, unsupported_error
from ottla.client.aio.admin.nodes import Leaders
from ottla.client.aio.admin.requests import (
    AdminCalls,
    ApiCall,
    Partition,
    by_topic,
    name_of,
    timeout_in_seconds,
)
from ottla.model import TopicPartition
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

_CONSUMER_REPLICA_ID = -1
# The first version of ListOffsets, and the release of Kafka, that knows a spec.
_SINCE: Mapping[int, tuple[int, str]] = MappingProxyType(
    {
        OffsetSpec.MAX_TIMESTAMP: (7, "3.0"),
        OffsetSpec.EARLIEST_LOCAL: (8, "3.6"),
        OffsetSpec.LATEST_TIERED: (9, "3.9"),
        OffsetSpec.EARLIEST_PENDING_UPLOAD: (11, "4.2"),
    }
)
_EARLIEST_OFFSET_SPEC = min(OffsetSpec)


class OffsetCalls(AdminCalls):
    """The calls about offsets of partitions."""

    @timeout_in_seconds
    async def list_offsets(
        self,
        specs: Mapping[Partition, OffsetSpec | int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """The first, the last or another offset of partitions.

        A spec is an OffsetSpec, or a timestamp in ms, which stands for the first record at that time or later.
        """
        wanted = {TopicPartition(*partition): int(spec) for partition, spec in specs.items()}
        for spec in wanted.values():
            if spec < _EARLIEST_OFFSET_SPEC:
                raise ValueError(f"{spec} is neither an OffsetSpec nor a time in milliseconds")

        async def ask(
            node: int,
            some: list[TopicPartition],
            limit_ms: float,
            answers: Answers[TopicPartition, ListedOffset],
        ) -> None:
            def build(version: int) -> ListOffsetsRequest:
                supported = [
                    key for key in some if _is_supported(key, wanted[key], version, answers)
                ]
                return _list_request(
                    {key: wanted[key] for key in supported}, version, isolation_level, int(limit_ms)
                )

            response = await self._requests.call(node, ListOffsetsRequest, build, limit_ms)
            _read_listed(response, answers)

        api = name_of(ListOffsetsRequest)
        return await self._requests.ask_by(wanted, Leaders(), api, ask, timeout)

    @timeout_in_seconds
    async def offsets_for_leader_epochs(
        self, epochs: Mapping[Partition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        """The end offsets of leader epochs: records behind them were written by later leaders."""
        wanted = {TopicPartition(*partition): epoch for partition, epoch in epochs.items()}

        def build(
            version: int, some: list[TopicPartition], limit_ms: int
        ) -> OffsetForLeaderEpochRequest:
            return _epochs_request({key: wanted[key] for key in some})

        call = ApiCall(OffsetForLeaderEpochRequest, build, _read_epochs)
        return await self._requests.ask(wanted, Leaders(), call, timeout)


def _is_supported(
    key: TopicPartition, spec: int, version: int, answers: Answers[TopicPartition, ListedOffset]
) -> bool:
    """Whether the broker knows the spec; if not, only this partition fails."""
    since = _SINCE.get(spec)
    if since is None or version >= since[0]:
        return True
    what = f"Asking for {OffsetSpec(spec).name.lower()} offsets"
    answers.errors[key] = unsupported_error(answers.api, what, since[1])
    return False


def _list_request(
    specs: Mapping[TopicPartition, int],
    version: int,
    isolation_level: IsolationLevel,
    limit_ms: int,
) -> ListOffsetsRequest:
    """A ListOffsets request."""
    if isolation_level is IsolationLevel.READ_COMMITTED and version < 2:
        raise unsupported_error(name_of(ListOffsetsRequest), "The isolation level", "0.11")
    return ListOffsetsRequest(
        replica_id=_CONSUMER_REPLICA_ID,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=number, timestamp=specs[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(specs).items()
        ],
        timeout_ms=limit_ms,
    )


def _read_listed(
    response: ListOffsetsResponse, answers: Answers[TopicPartition, ListedOffset]
) -> None:
    """The offset of each partition."""
    for topic in response.topics:
        for partition in topic.partitions:
            epoch = partition.leader_epoch
            listed = ListedOffset(
                partition.offset, partition.timestamp, None if epoch < 0 else epoch
            )
            key = TopicPartition(topic.name, partition.partition_index)
            answers.complete(key, listed, partition.error_code)


def _epochs_request(epochs: Mapping[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
    """An OffsetForLeaderEpoch request."""
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER_REPLICA_ID,
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=number, leader_epoch=epochs[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(epochs).items()
        ],
    )


def _read_epochs(
    response: OffsetForLeaderEpochResponse, answers: Answers[TopicPartition, EpochEnd]
) -> None:
    """The end offset of each epoch."""
    for topic in response.topics:
        for found in topic.partitions:
            key = TopicPartition(topic.topic, found.partition)
            end = EpochEnd(found.leader_epoch, found.end_offset)
            answers.complete(key, end, found.error_code)
