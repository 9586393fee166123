"""OffsetCommit: the offsets at which a group goes on reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias
from uuid import UUID

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.delivered_response import PlacedRequest
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group, refuse_topic
from ottla.broker.security.caller import Caller
from ottla.core.catalog import Topic
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import CommitSender, NewOffsets
from ottla.core.outcomes import Refused, error_of
from ottla.core.turn import Turn
from ottla.errors import ErrorCode
from ottla.wire.columns import Columns, columns_of
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.plain_groups import PlainOffsets, read_plain_commit, write_commit_response

# The outcome of the whole request, or of each offset.
Results: TypeAlias = Refused | list[Refused | None]

# The offsets of a request up to this size are written as one batch.
OFFSETS_AT_ONCE = 1000
DIVISIONS = Divisions(
    (
        Division(
            "topics",
            "topics",
            OFFSETS_AT_ONCE,
            inner=Division("partitions", "partitions", OFFSETS_AT_ONCE),
            named=("name", "topic_id"),
        ),
    )
)
FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND = 9
FIRST_VERSION_WITH_MEMBER_EPOCHS = 9
FIRST_VERSION_WITH_TOPIC_IDS = 10


class _Asked(NamedTuple):
    """A topic of the request: the offsets that can be committed, and the errors of its partitions.

    There are no errors if all offsets can be committed; else partitions whose offsets can be have NONE.
    """

    topic: PlainOffsets
    offsets: NewOffsets | None
    errors: list[ErrorCode] | None

    @property
    def partitions(self) -> list[int]:
        return self.topic[1]


def handle(
    node: Node, request: OffsetCommitRequest, context: RequestContext
) -> NowOrLater[OffsetCommitResponse]:
    version = context.version
    topics = [_columns(topic, version) for topic in request.topics]
    refused = refuse_group(node, context.caller, Operation.READ, request.group_id)
    if refused is not None:
        return _response([_failed(topic, refused.error) for topic in topics], [], version)
    retention_ms = request.retention_time_ms
    asked = [_asked(node, topic, retention_ms, context.caller, version) for topic in topics]
    offsets = [topic.offsets for topic in asked if topic.offsets is not None]

    def respond(results: Results) -> OffsetCommitResponse:
        return _response(asked, _outcomes(asked, results, version), version)

    if topics and not offsets:
        return respond([])
    sender = CommitSender(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        version >= FIRST_VERSION_WITH_MEMBER_EPOCHS,
    )
    return node.groups.ask(
        request.group_id, lambda groups, turn, _: groups.commit(turn, sender, offsets), respond
    )


def _columns(topic: OffsetCommitRequestTopic, version: int) -> PlainOffsets:
    partitions, offsets, leader_epochs, metadata = columns_of(
        topic.partitions, OffsetCommitRequestPartition
    )
    named = topic.topic_id if version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.name
    return named, partitions, offsets, leader_epochs, metadata


class PlacedCommit(PlacedRequest):
    """A plain OffsetCommit."""

    __slots__ = ("asked", "offsets", "sender", "topics")

    asked: list[_Asked]
    offsets: list[NewOffsets]
    sender: CommitSender
    topics: list[PlainOffsets]

    def frame(self) -> bytearray:
        codes = self._codes()
        return write_commit_response(self.version, self.correlation_id, self.topics, codes)

    def error_codes(self) -> Iterable[int]:
        return self._codes() or ()

    def _codes(self) -> list[int] | None:
        """The errors of all partitions, None if there is none."""
        asked = self.asked
        outcomes = _outcomes(asked, self.result, self.version)
        if outcomes is None and not any(one.errors for one in asked):
            return None
        following = None if outcomes is None else iter(outcomes)
        return [code for one in asked for code in _codes(one, following)]


def handle_plain(
    node: Node, caller: Caller, received: memoryview, start: int, end: int
) -> PlacedRequest | None:
    """As `handle`, for a plain request."""
    found = read_plain_commit(received, start, end)
    if found is None:
        return None
    end, version, correlation_id = found[:3]
    group_id, retention_ms, topics = found[4], found[8], found[9]
    place = PlacedCommit(end, version, correlation_id)
    place.topics = topics
    refused = refuse_group(node, caller, Operation.READ, group_id)
    if refused is not None:
        place.asked = [_failed(topic, refused.error) for topic in topics]
        place.answer([])
        return place
    place.asked = asked = [_asked(node, topic, retention_ms, caller, version) for topic in topics]
    place.offsets = [topic.offsets for topic in asked if topic.offsets is not None]
    if not place.offsets:
        place.answer([])
        return place
    place.sender = CommitSender(*found[4:8], version >= FIRST_VERSION_WITH_MEMBER_EPOCHS)
    coordinator = node.groups.find(group_id)
    if isinstance(coordinator, Refused):
        place.answer(coordinator)
    else:
        coordinator.ask_placed(_decide, place)
    return place


def _decide(groups: GroupMachine, turn: Turn, place: PlacedCommit) -> Results:
    return groups.commit(turn, place.sender, place.offsets)


def _failed(topic: PlainOffsets, error: ErrorCode) -> _Asked:
    return _Asked(topic, None, [error] * len(topic[1]))


def _asked(
    node: Node, topic: PlainOffsets, retention_ms: int, caller: Caller, version: int
) -> _Asked:
    named, partitions, offsets, leader_epochs, metadata = topic
    found = _topic(node, named, caller)
    if isinstance(found, ErrorCode):
        return _failed(topic, found)
    new = NewOffsets(
        found.name,
        partitions,
        offsets,
        leader_epochs,
        [text or "" for text in metadata],
        retention_ms,
        found.topic_id,
    )
    count = found.partition_count
    if not partitions or (min(partitions) >= 0 and max(partitions) < count):
        return _Asked(topic, new if partitions else None, None)
    errors = [
        ErrorCode.NONE if 0 <= partition < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in partitions
    ]
    known = [place for place, error in enumerate(errors) if error is ErrorCode.NONE]
    return _Asked(topic, new.only(known) if known else None, errors)


def _topic(node: Node, named: str | UUID, caller: Caller) -> Topic | ErrorCode:
    catalog = node.cluster.catalog
    if isinstance(named, UUID):
        known = catalog.topics_by_id.get(named)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = known.name
    else:
        name = named
    refused = refuse_topic(node, caller, Operation.READ, name)
    if refused is not None:
        return refused.error
    return catalog.topics.get(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _outcomes(asked: list[_Asked], results: Results, version: int) -> list[ErrorCode] | None:
    """The outcomes of all offsets that could be committed; None if all of them were."""
    if isinstance(results, Refused):
        count = sum(len(one.offsets.partitions) for one in asked if one.offsets is not None)
        results = [results] * count
    if not any(results):
        return None
    return [_known_to(version, error_of(one)) for one in results]


def _known_to(version: int, error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.GROUP_ID_NOT_FOUND and version < FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND:
        return ErrorCode.ILLEGAL_GENERATION  # older clients would not know what to do about that
    if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return ErrorCode.UNKNOWN_TOPIC_ID  # the topic was deleted while the request waited
    return error


def _response(
    asked: list[_Asked], outcomes: list[ErrorCode] | None, version: int
) -> OffsetCommitResponse:
    following = None if outcomes is None else iter(outcomes)
    response = OffsetCommitResponse(topics=[])
    for one in asked:
        columns = [one.partitions.copy(), _codes(one, following)]
        topic = OffsetCommitResponseTopic(
            partitions=Columns(OffsetCommitResponsePartition, columns)
        )
        named = one.topic[0]
        if isinstance(named, UUID):
            topic.topic_id = named
        else:
            topic.name = named
        response.topics.append(topic)
    return response


def _codes(asked: _Asked, outcomes: Iterator[ErrorCode] | None) -> list[int]:
    """The error codes of a topic's partitions."""
    errors = asked.errors
    if errors is None:
        if outcomes is None:
            return [0] * len(asked.partitions)
        return [next(outcomes) for _ in asked.partitions]
    if outcomes is None:
        return list(errors)
    return [next(outcomes) if error is ErrorCode.NONE else error for error in errors]


API = serve(
    OffsetCommitRequest,
    OffsetCommitResponse,
    handle,
    divisions=DIVISIONS,
    handle_plain=handle_plain,
)
