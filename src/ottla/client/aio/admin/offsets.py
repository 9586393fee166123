"""Offsets: of partitions, and those that groups have committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ottla.client.admin_model import EpochEnd, IsolationLevel, ListedOffset, OffsetSpec
from ottla.client.aio.admin.group_offsets import (
    GroupOffsets,
    PartitionErrors,
    committing,
    deleting,
    fetching,
    read_committed,
    read_deleted,
    read_fetched,
)
from ottla.client.aio.admin.requests import (
    Calls,
    Partition,
    Question,
    by_topic,
    name_of,
    timeout_in_seconds,
    version_at,
)
from ottla.client.aio.admin.results import Answers, ErrorMeaning, results_or_raise, unsupported
from ottla.client.aio.admin.targets import Leaders, group_coordinators
from ottla.client.aio.admin.topics import named
from ottla.client.arguments import positions_of
from ottla.client.model import OffsetAndMetadata
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER = -1  # the replica id of who is none
# Versions 10 of both name topics by id, for groups of KIP-848; names are enough for an administrator.
_WITH_NAMES = 9
_SEVERAL_GROUPS = 8
_SINCE: Mapping[int, tuple[int, str]] = MappingProxyType(
    {
        OffsetSpec.MAX_TIMESTAMP: (7, "3.0"),
        OffsetSpec.EARLIEST_LOCAL: (8, "3.6"),
        OffsetSpec.LATEST_TIERED: (9, "3.9"),
        OffsetSpec.EARLIEST_PENDING_UPLOAD: (11, "4.2"),
    }
)
_EARLIEST_OFFSET_SPEC = min(OffsetSpec)


class OffsetCalls(Calls):
    """The calls about offsets."""

    @timeout_in_seconds
    async def list_offsets(
        self,
        specs: Mapping[Partition, OffsetSpec | int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """The first, the last or another offset of partitions.

        A spec is an OffsetSpec, or a time in ms: then it is the first record at that time or later.
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
                able = [key for key in some if _refuse_spec(key, wanted[key], version, answers)]
                return listing(
                    {key: wanted[key] for key in able}, version, isolation_level, int(limit_ms)
                )

            response = await self.call(node, ListOffsetsRequest, build, limit_ms)
            read_listed(response, answers)

        api = name_of(ListOffsetsRequest)
        return await self.ask_by(wanted, Leaders(), api, ask, timeout)

    @timeout_in_seconds
    async def offsets_for_leader_epochs(
        self, epochs: Mapping[Partition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        """Where the records of leader epochs end: what comes behind that was written by later leaders."""
        wanted = {TopicPartition(*partition): epoch for partition, epoch in epochs.items()}

        def build(
            version: int, some: list[TopicPartition], limit_ms: int
        ) -> OffsetForLeaderEpochRequest:
            return asking_epochs({key: wanted[key] for key in some})

        question = Question(OffsetForLeaderEpochRequest, build, read_epochs)
        return await self.ask(wanted, Leaders(), question, timeout)

    @timeout_in_seconds
    async def list_consumer_group_offsets(
        self,
        groups: Mapping[str, Iterable[tuple[str, int]] | None] | Iterable[str],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        """What groups have committed: for all partitions, or for those that are named.

        None stands where nothing is committed. `require_stable` waits for open transactions.
        """
        if isinstance(groups, Mapping):
            wanted = {
                group: None if some is None else by_topic(some) for group, some in groups.items()
            }
        else:
            wanted = dict.fromkeys(named(groups))

        async def ask(
            node: int, some: list[str], limit_ms: float, answers: Answers[str, GroupOffsets]
        ) -> None:
            connection = await self._network.connection(node)
            version = version_at(connection, OffsetFetchRequest, _WITH_NAMES)
            # Before KIP-709 there is one group in a request.
            batches = [some] if version >= _SEVERAL_GROUPS else [[group] for group in some]
            for batch in batches:
                asked = {group: wanted[group] for group in batch}
                request = fetching(asked, version, require_stable)
                response = await self.send(connection, request, version, limit_ms)
                read_fetched(response, batch, answers)

        place = group_coordinators()
        verdicts = {**place.verdicts, ErrorCode.UNSTABLE_OFFSET_COMMIT: ErrorMeaning.AGAIN}
        api = name_of(OffsetFetchRequest)
        found = await self.gather(wanted, place, api, ask, timeout, verdicts)
        results: dict[str, dict[TopicPartition, OffsetAndMetadata | None]] = {}
        for group, offsets in found.results.items():
            try:
                results[group] = results_or_raise(
                    offsets.results, offsets.errors, f"partitions of group {group}"
                )
            except KafkaError as error:
                found.errors[group] = error
        return results_or_raise(results, found.errors, place.plural)

    @timeout_in_seconds
    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[Partition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> None:
        """Commits offsets for a group that has no members."""
        wanted = positions_of(offsets)

        def build(version: int, keys: list[str], limit_ms: int) -> OffsetCommitRequest:
            return committing(group_id, wanted)

        question = Question(
            OffsetCommitRequest,
            build,
            read_committed,
            _WITH_NAMES,
            {ErrorCode.REBALANCE_IN_PROGRESS: ErrorMeaning.AGAIN},
        )
        found = await self.ask([group_id], group_coordinators(), question, timeout)
        raise_for_partitions(found[group_id])

    @timeout_in_seconds
    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[tuple[str, int]],
        *,
        timeout: float | None = None,
    ) -> None:
        """Forgets what a group has committed, in topics that its members do not subscribe to."""
        wanted = by_topic(partitions)

        def build(version: int, keys: list[str], limit_ms: int) -> OffsetDeleteRequest:
            return deleting(group_id, wanted)

        question = Question(OffsetDeleteRequest, build, read_deleted)
        found = await self.ask([group_id], group_coordinators(), question, timeout)
        raise_for_partitions(found[group_id])


def raise_for_partitions(found: PartitionErrors) -> None:
    """Raises if any partition has an error."""
    errors = {partition: error for partition, error in found.items() if error is not None}
    done = {partition: None for partition, error in found.items() if error is None}
    results_or_raise(done, errors, "partitions")


def _refuse_spec(
    key: TopicPartition, spec: int, version: int, answers: Answers[TopicPartition, ListedOffset]
) -> bool:
    """Whether the broker knows the spec; where not, it fails this partition alone."""
    since = _SINCE.get(spec)
    if since is None or version >= since[0]:
        return True
    what = f"Asking for {OffsetSpec(spec).name.lower()} offsets"
    answers.errors[key] = unsupported(answers.api, what, since[1])
    return False


def listing(
    specs: Mapping[TopicPartition, int],
    version: int,
    isolation_level: IsolationLevel,
    limit_ms: int,
) -> ListOffsetsRequest:
    """The request for offsets."""
    if isolation_level is IsolationLevel.READ_COMMITTED and version < 2:
        raise unsupported(name_of(ListOffsetsRequest), "The isolation level", "0.11")
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
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


def read_listed(
    response: ListOffsetsResponse, answers: Answers[TopicPartition, ListedOffset]
) -> None:
    """The offset that each partition has."""
    for topic in response.topics:
        for partition in topic.partitions:
            epoch = partition.leader_epoch
            listed = ListedOffset(
                partition.offset, partition.timestamp, None if epoch < 0 else epoch
            )
            key = TopicPartition(topic.name, partition.partition_index)
            answers.take(key, listed, partition.error_code)


def asking_epochs(epochs: Mapping[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
    """The request for the ends of leader epochs."""
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
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


def read_epochs(
    response: OffsetForLeaderEpochResponse, answers: Answers[TopicPartition, EpochEnd]
) -> None:
    """Where each epoch ends."""
    for topic in response.topics:
        for found in topic.partitions:
            key = TopicPartition(topic.topic, found.partition)
            end = EpochEnd(found.leader_epoch, found.end_offset)
            answers.take(key, end, found.error_code)
