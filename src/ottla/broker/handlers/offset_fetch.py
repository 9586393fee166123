"""OffsetFetch: the committed offsets of groups; many groups since v8 (KIP-709)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from ottla.broker.node import Node
from ottla.broker.requests.gather_responses import together
from ottla.broker.requests.request import Answer, RequestContext
from ottla.broker.requests.request_pieces import Division, Divisions, Repeated
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import FetchedOffset
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.wire.types import ZERO_UUID

REQUEST = OffsetFetchRequest
_PARTITIONS = Division("partition_indexes", "partitions", repeated=Repeated())
DIVISIONS = Divisions(
    (
        Division(
            "groups",
            "groups",
            inner=Division(
                "topics",
                "topics",
                inner=_PARTITIONS,
                named=("name", "topic_id"),
                repeated=Repeated(("name", "topic_id")),
            ),
            named=("group_id",),
            repeated=Repeated(("group_id",)),
        ),
        Division(
            "topics", "topics", inner=_PARTITIONS, named=("name",), repeated=Repeated(("name",))
        ),
    )
)
FIRST_VERSION_WITH_TOP_LEVEL_ERROR = 2
FIRST_BATCHED_VERSION = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10


# How one offset is looked up: as it is, or as it is if no transaction may still change it.
FetchOne = Callable[[GroupMachine, str, str, int], FetchedOffset]


class Wanted(NamedTuple):
    """A topic to answer about; `name` is None for an id that nobody knows."""

    name: str | None
    topic_id: UUID
    partitions: Sequence[int]


class Found(NamedTuple):
    """The offsets of a topic by partition."""

    wanted: Wanted
    offsets: list[tuple[int, FetchedOffset]]


def handle(node: Node, request: OffsetFetchRequest, context: RequestContext) -> Answer:
    if context.version >= FIRST_BATCHED_VERSION:
        return _handle_batch(node, request, context.version)
    wanted = (
        None
        if request.topics is None
        else [Wanted(topic.name, ZERO_UUID, topic.partition_indexes) for topic in request.topics]
    )
    found = _find(node, request.group_id, wanted, _fetch_of(request))
    return together([found], lambda parts: _response(parts[0], wanted or [], context.version))


def _handle_batch(node: Node, request: OffsetFetchRequest, version: int) -> Answer:
    answers = []
    for group in request.groups:
        wanted = (
            None
            if group.topics is None
            else [_wanted(node, topic, version) for topic in group.topics]
        )
        answers.append(_find(node, group.group_id, wanted, _fetch_of(request)))
    names = [group.group_id for group in request.groups]
    return together(
        answers,
        lambda parts: OffsetFetchResponse(
            groups=[
                _response_group(node, name, part) for name, part in zip(names, parts, strict=True)
            ]
        ),
    )


def _wanted(node: Node, topic: OffsetFetchRequestTopics, version: int) -> Wanted:
    if version < FIRST_VERSION_WITH_TOPIC_IDS:
        return Wanted(topic.name, ZERO_UUID, topic.partition_indexes)
    known = node.cluster.catalog.topics_by_id.get(topic.topic_id)
    return Wanted(known.name if known else None, topic.topic_id, topic.partition_indexes)


def _fetch_of(request: OffsetFetchRequest) -> FetchOne:
    return GroupMachine.fetch_stable if request.require_stable else GroupMachine.fetch


def _find(node: Node, group_id: str, wanted: list[Wanted] | None, fetch_one: FetchOne) -> Answer:
    """What the group has committed for the wanted topics, or for all of them; or an error."""
    coordinator = node.groups.find(group_id)
    if isinstance(coordinator, ErrorCode):
        return coordinator
    return coordinator.ask(
        lambda groups, turn: _fetch(groups, group_id, wanted, fetch_one), lambda result: result
    )


def _fetch(
    groups: GroupMachine, group_id: str, wanted: list[Wanted] | None, fetch_one: FetchOne
) -> list[Found]:
    if wanted is None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in groups.committed_partitions(group_id):
            by_topic.setdefault(topic, []).append(partition)
        wanted = [Wanted(topic, ZERO_UUID, found) for topic, found in by_topic.items()]
    unknown = FetchedOffset(ErrorCode.UNKNOWN_TOPIC_ID)
    return [
        Found(
            topic,
            [
                (
                    partition,
                    unknown
                    if topic.name is None
                    else fetch_one(groups, group_id, topic.name, partition),
                )
                for partition in topic.partitions
            ],
        )
        for topic in wanted
    ]


def _response(
    found: list[Found] | ErrorCode, wanted: list[Wanted], version: int
) -> OffsetFetchResponse:
    error = ErrorCode.NONE
    if isinstance(found, ErrorCode):
        error = found
        # The oldest version says of every partition what goes for the group.
        per_partition = [] if version >= FIRST_VERSION_WITH_TOP_LEVEL_ERROR else wanted
        failed = FetchedOffset(error)
        found = [
            Found(topic, [(partition, failed) for partition in topic.partitions])
            for topic in per_partition
        ]
    return OffsetFetchResponse(
        error_code=error,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name or "",
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error,
                    )
                    for partition, one in offsets
                ],
            )
            for topic, offsets in found
        ],
    )


def _response_group(
    node: Node, group_id: str, found: list[Found] | ErrorCode
) -> OffsetFetchResponseGroup:
    if isinstance(found, ErrorCode):
        return OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=found)
    return OffsetFetchResponseGroup(
        group_id=group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name or "",
                topic_id=_topic_id(node, topic),
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=partition,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error,
                    )
                    for partition, one in offsets
                ],
            )
            for topic, offsets in found
        ],
    )


def _topic_id(node: Node, topic: Wanted) -> UUID:
    """A request for all topics names none; the newest version answers with ids."""
    known = None if topic.name is None else node.cluster.catalog.topics.get(topic.name)
    return topic.topic_id if known is None else known.topic_id
