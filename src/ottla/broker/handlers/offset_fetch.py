"""OffsetFetch: the committed offsets of groups; several groups since v8 (KIP-709)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from ottla.access import Operation
from ottla.broker.coordination.coordinator import unchanged
from ottla.broker.loop.loop_share import at_once
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.gather_responses import NowOrLater, all_parts, respond_to_all
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import may_see_topic, refuse_group, refuse_topic
from ottla.core.group.machine import GroupMachine
from ottla.core.group.offset_table import CommittedOffset
from ottla.core.group.requests import FetchedOffset
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket, Turn
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
OFFSETS_PER_STEP = 64
FIRST_VERSION_WITH_TOP_LEVEL_ERROR = 2
FIRST_BATCHED_VERSION = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10
UNKNOWN_ID = Refused(ErrorCode.UNKNOWN_TOPIC_ID)

P = TypeVar("P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)
# How one offset is looked up: as it is, or as it is if no transaction may still change it.
FetchOne = Callable[[GroupMachine, str, str, int], FetchedOffset | Refused]


class WantedTopic(NamedTuple):
    """A topic to answer about, or what is wrong with it; `name` is None for an unknown id."""

    name: str | None
    topic_id: UUID
    partitions: Sequence[int]
    refused: Refused | None = None


class FoundOffsets(NamedTuple):
    """The offsets of a topic by partition."""

    wanted: WantedTopic
    offsets: list[tuple[int, FetchedOffset | Refused]]


class AllOffsets(NamedTuple):
    """All committed offsets of a group, and the partitions for which a transaction may still change them."""

    commits: list[CommittedOffset]
    unstable: frozenset[tuple[str, int]]


class Fetcher(NamedTuple):
    """The group whose offsets are fetched, and the member that fetches them; administrators name no member."""

    group_id: str
    member_id: str | None = None
    member_epoch: int = -1


# The committed offsets of a group, or why they are not known.
Found = list[FoundOffsets] | AllOffsets | Refused


def handle(
    node: Node, request: OffsetFetchRequest, context: RequestContext
) -> Reply[OffsetFetchResponse]:
    if context.version >= FIRST_BATCHED_VERSION:
        return _handle_batch(node, request, context)
    wanted = (
        None
        if request.topics is None
        else [
            _wanted_by_name(node, context, topic.name, ZERO_UUID, topic.partition_indexes)
            for topic in request.topics
        ]
    )
    found = _find(node, context, Fetcher(request.group_id), wanted, request.require_stable)
    if wanted is None:
        return _respond_in_slices(
            node, [found], lambda parts: _response(node, context, parts[0], [])
        )
    later: NowOrLater[OffsetFetchResponse] = respond_to_all(
        [found], lambda parts: at_once(_response(node, context, parts[0], wanted))
    )
    return later


def _handle_batch(
    node: Node, request: OffsetFetchRequest, context: RequestContext
) -> Reply[OffsetFetchResponse]:
    answers: list[NowOrLater[Found]] = []
    for group in request.groups:
        wanted = (
            None
            if group.topics is None
            else [_wanted(node, topic, context) for topic in group.topics]
        )
        fetcher = Fetcher(group.group_id, group.member_id, group.member_epoch)
        answers.append(_find(node, context, fetcher, wanted, request.require_stable))
    names = [group.group_id for group in request.groups]
    if any(group.topics is None for group in request.groups):
        return _respond_in_slices(
            node, answers, lambda parts: _batch_response(node, context, names, parts)
        )
    later: NowOrLater[OffsetFetchResponse] = respond_to_all(
        answers, lambda parts: at_once(_batch_response(node, context, names, parts))
    )
    return later


async def _respond_in_slices(
    node: Node,
    answers: Sequence[NowOrLater[Found]],
    respond: Callable[[list[Found]], Generator[None, None, OffsetFetchResponse]],
) -> OffsetFetchResponse:
    """The response to a request for all offsets of a group, which may be very many."""
    return await node.cluster.share.run(respond(await all_parts(answers)))


def _wanted(node: Node, topic: OffsetFetchRequestTopics, context: RequestContext) -> WantedTopic:
    partitions = topic.partition_indexes
    if context.version < FIRST_VERSION_WITH_TOPIC_IDS:
        return _wanted_by_name(node, context, topic.name, ZERO_UUID, partitions)
    known = node.cluster.catalog.topics_by_id.get(topic.topic_id)
    if known is None:
        return WantedTopic(None, topic.topic_id, partitions, UNKNOWN_ID)
    return _wanted_by_name(node, context, known.name, topic.topic_id, partitions)


def _wanted_by_name(
    node: Node, context: RequestContext, name: str, topic_id: UUID, partitions: Sequence[int]
) -> WantedTopic:
    refused = refuse_topic(node, context.caller, Operation.DESCRIBE, name)
    return WantedTopic(name, topic_id, partitions, refused)


def _find(
    node: Node,
    context: RequestContext,
    fetcher: Fetcher,
    wanted: list[WantedTopic] | None,
    stable: bool,
) -> NowOrLater[Found]:
    """The committed offsets of a group for the wanted topics, or for all of them; or an error."""
    group_id = fetcher.group_id
    refused = refuse_group(node, context.caller, Operation.DESCRIBE, group_id)
    if refused is not None:
        return refused
    fetch_one = GroupMachine.fetch_stable if stable else GroupMachine.fetch

    def decide(groups: GroupMachine, turn: Turn, ticket: Ticket) -> Any:
        refused = groups.check_fetch(group_id, fetcher.member_id, fetcher.member_epoch)
        if refused is not None:
            return refused
        if wanted is None:
            return _all_offsets(groups, group_id, stable)
        return _fetch(groups, group_id, wanted, fetch_one)

    return node.groups.ask(group_id, decide, unchanged)


def _all_offsets(groups: GroupMachine, group_id: str, stable: bool) -> AllOffsets:
    unstable = groups.unstable_partitions(group_id) if stable else frozenset()
    return AllOffsets(groups.committed(group_id), unstable)


def _fetch(
    groups: GroupMachine, group_id: str, wanted: list[WantedTopic], fetch_one: FetchOne
) -> list[FoundOffsets]:
    found = []
    for topic in wanted:
        offsets: list[tuple[int, FetchedOffset | Refused]]
        if topic.refused is not None:
            offsets = [(partition, topic.refused) for partition in topic.partitions]
        else:
            assert topic.name is not None
            offsets = [
                (partition, fetch_one(groups, group_id, topic.name, partition))
                for partition in topic.partitions
            ]
        found.append(FoundOffsets(topic, offsets))
    return found


def _by_topic(
    node: Node, context: RequestContext, found: AllOffsets
) -> Generator[None, None, list[FoundOffsets]]:
    by_topic: dict[str, list[tuple[int, FetchedOffset | Refused]]] = {}
    unstable = Refused(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    for number, kept in enumerate(found.commits):
        if not number % OFFSETS_PER_STEP:
            yield
        one: FetchedOffset | Refused = unstable
        if (kept.topic, kept.partition) not in found.unstable:
            one = FetchedOffset(kept.offset, kept.leader_epoch, kept.metadata)
        by_topic.setdefault(kept.topic, []).append((kept.partition, one))
    visible = []
    for number, (topic, offsets) in enumerate(by_topic.items()):
        if not number % OFFSETS_PER_STEP:
            yield
        if may_see_topic(node, context.caller, topic):
            visible.append(FoundOffsets(WantedTopic(topic, ZERO_UUID, ()), offsets))
    return visible


def _response(
    node: Node, context: RequestContext, found: Found, wanted: list[WantedTopic]
) -> Generator[None, None, OffsetFetchResponse]:
    error = ErrorCode.NONE
    if isinstance(found, Refused):
        error = found.error
        failed: FetchedOffset | Refused = found
        # The oldest version says of every partition what goes for the group.
        has_error_of_all = context.version >= FIRST_VERSION_WITH_TOP_LEVEL_ERROR
        per_partition = [] if has_error_of_all else wanted
        found = [
            FoundOffsets(topic, [(partition, failed) for partition in topic.partitions])
            for topic in per_partition
        ]
    elif isinstance(found, AllOffsets):
        found = yield from _by_topic(node, context, found)
    topics = []
    for topic, offsets in found:
        partitions = yield from _partitions(OffsetFetchResponsePartition, offsets)
        topics.append(OffsetFetchResponseTopic(name=topic.name or "", partitions=partitions))
    return OffsetFetchResponse(error_code=error, topics=topics)


def _batch_response(
    node: Node, context: RequestContext, names: list[str], parts: list[Found]
) -> Generator[None, None, OffsetFetchResponse]:
    groups = []
    for name, part in zip(names, parts, strict=True):
        groups.append((yield from _response_group(node, context, name, part)))
    return OffsetFetchResponse(groups=groups)


def _response_group(
    node: Node, context: RequestContext, group_id: str, found: Found
) -> Generator[None, None, OffsetFetchResponseGroup]:
    if isinstance(found, Refused):
        return OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=found.error)
    if isinstance(found, AllOffsets):
        found = yield from _by_topic(node, context, found)
    topics = []
    for topic, offsets in found:
        partitions = yield from _partitions(OffsetFetchResponsePartitions, offsets)
        topics.append(
            OffsetFetchResponseTopics(
                name=topic.name or "", topic_id=_topic_id(node, topic), partitions=partitions
            )
        )
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _partitions(
    kind: type[P], offsets: list[tuple[int, FetchedOffset | Refused]]
) -> Generator[None, None, list[P]]:
    made = []
    for number, (partition, one) in enumerate(offsets):
        if not number % OFFSETS_PER_STEP:
            yield
        error = ErrorCode.NONE
        if isinstance(one, Refused):
            error, one = one.error, FetchedOffset()
        made.append(
            kind(
                partition_index=partition,
                committed_offset=one.offset,
                committed_leader_epoch=one.leader_epoch,
                metadata=one.metadata,
                error_code=error,
            )
        )
    return made


def _topic_id(node: Node, topic: WantedTopic) -> UUID:
    """A request for all topics names none; the newest version answers with ids."""
    known = None if topic.name is None else node.cluster.catalog.topics.get(topic.name)
    return topic.topic_id if known is None else known.topic_id


API = serve(OffsetFetchRequest, OffsetFetchResponse, handle, divisions=DIVISIONS)
