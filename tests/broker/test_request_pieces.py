"""Requests that are taken apart: their pieces, and the response that is put together again."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.handlers import list_offsets, offset_fetch, write_txn_markers
from ottla.broker.loop.loop_share import LoopShare, at_once
from ottla.broker.requests.apis import SERVED
from ottla.broker.requests.divisions import Division
from ottla.broker.requests.request import RequestContext
from ottla.broker.requests.request_pieces import answer_in_pieces, arrange, cut
from ottla.broker.security.caller import Caller
from ottla.errors import ErrorCode
from ottla.model import Endpoint
from ottla.wire.declare import fields_of
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

CONTEXT = RequestContext(1, None, Caller(Endpoint("h", 1), Endpoint("h", 2)))
LIST_OFFSETS = list_offsets.DIVISIONS.choices[0]


class OneCluster:
    """As much of a node as the pieces need."""

    def __init__(self) -> None:
        self.share = LoopShare(lambda: 0.0)
        self.cluster = self


def topics_of(*topics: tuple[str, list[int]]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=number, timestamp=-1)
                    for number in partitions
                ],
            )
            for name, partitions in topics
        ],
    )


def asked_in(request: Any) -> list[tuple[str, int]]:
    return [
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    ]


def answer(node: Any, request: Any, context: RequestContext) -> Any:
    """An answer that says what was asked, and whether it was asked twice in the same piece."""
    asked = asked_in(request)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=one.partition_index,
                        error_code=asked.count((topic.name, one.partition_index)) - 1,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def answer_soon(node: Any, request: Any, context: RequestContext) -> Any:
    return answer(node, request, context)


async def answer_later(node: Any, request: Any, context: RequestContext) -> Any:
    await asyncio.sleep(0)
    return answer(node, request, context)


def answer_in_the_future(node: Any, request: Any, context: RequestContext) -> Any:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, answer(node, request, context))
    return future


requests = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 40), max_size=30)), max_size=12
).map(lambda topics: topics_of(*topics))


@given(requests, st.integers(1, 9), st.sampled_from([answer, answer_later, answer_in_the_future]))
def test_the_response_in_pieces_is_that_of_the_whole(
    request: ListOffsetsRequest, size: int, handle: Any
) -> None:
    division = LIST_OFFSETS._replace(piece_elements=size)
    node: Any = OneCluster()
    response: Any = asyncio.run(answer_in_pieces(handle, node, request, CONTEXT, division))

    def told(found: Any) -> dict[tuple[str, int], bool]:
        return {
            (topic.name, one.partition_index): one.error_code != ErrorCode.NONE
            for topic in found.topics
            for one in topic.partitions
        }

    assert told(response) == told(answer(node, topics_of(*_together(request)), CONTEXT))
    assert len({topic.name for topic in response.topics}) == len(response.topics)


def _together(request: ListOffsetsRequest) -> list[tuple[str, list[int]]]:
    """The topics of a request, each of them once."""
    partitions: dict[str, list[int]] = {}
    for topic in request.topics:
        found = partitions.setdefault(topic.name, [])
        found += [asked.partition_index for asked in topic.partitions]
    return list(partitions.items())


@pytest.mark.parametrize("handle", [answer, answer_soon])
def test_others_have_their_turn_between_pieces(handle: Any) -> None:
    async def serve() -> None:
        node: Any = OneCluster()
        node.share = LoopShare(
            itertools.count().__next__
        )  # every look at the clock is a second later
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(others())
        request = topics_of(("a", list(range(50))))
        division = LIST_OFFSETS._replace(piece_elements=1)
        await answer_in_pieces(handle, node, request, CONTEXT, division)
        task.cancel()
        assert turns >= 50

    asyncio.run(serve())


@given(requests, st.integers(1, 9))
def test_pieces_are_small_and_nothing_is_missing(request: ListOffsetsRequest, size: int) -> None:
    division = LIST_OFFSETS._replace(piece_elements=size)
    arranged = at_once(arrange(request, division))
    pieces = list(cut(arranged, division))
    assert [one for piece in pieces for one in asked_in(piece)] == asked_in(arranged)
    assert set(asked_in(arranged)) == set(asked_in(request))
    for piece in pieces:
        weight = sum(max(len(topic.partitions), 1) for topic in piece.topics)
        # One that is asked twice stays with the other.
        assert weight <= size + 1


def test_three_levels() -> None:
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=number,
                producer_epoch=0,
                transaction_result=True,
                coordinator_epoch=0,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=list(range(7)))
                    for name in "ab"
                ],
            )
            for number in range(3)
        ]
    )
    division = write_txn_markers.DIVISIONS.choices[0]._replace(piece_elements=5)
    pieces = list(cut(request, division))
    found = [
        (marker.producer_id, topic.name, partition)
        for piece in pieces
        for marker in piece.markers
        for topic in marker.topics
        for partition in topic.partition_indexes
    ]
    assert found == [(n, name, part) for n in range(3) for name in "ab" for part in range(7)]
    assert len(pieces) >= 9


def test_a_request_for_everything_stays_whole() -> None:
    everything = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="g", topics=None),
            OffsetFetchRequestGroup(
                group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[1])]
            ),
        ]
    )
    division = offset_fetch.DIVISIONS.choices[0]
    (piece,) = cut(at_once(arrange(everything, division)), division)
    assert [(group.group_id, group.topics) for group in piece.groups] == [("g", None)]


@pytest.mark.parametrize(
    "division",
    [
        pytest.param((api.request, division), id=f"{api.name}-{division.field}")
        for api in SERVED.values()
        if api.divisions is not None
        for division in api.divisions.choices
    ],
)
def test_divisions_name_fields_that_exist(division: tuple[type, Division]) -> None:
    asked: Any
    asked, level = division
    answered: Any = getattr(
        sys.modules[asked.__module__], asked.__name__.removesuffix("Request") + "Response"
    )
    while True:
        assert set(level.also_joined) <= set(names_in(answered))
        asked, answered = element_of(asked, level.field), element_of(answered, level.answered_in)
        assert set(level.named) <= set(names_in(answered))
        if level.repeated is not None and level.repeated.fields:
            assert set(level.repeated.fields) <= set(names_in(asked))
        if level.inner is None:
            break
        assert level.named, "what is divided has to be found again"
        level = level.inner


def names_in(cls: Any) -> list[str]:
    return [field.name for field in fields_of(cls)]


def element_of(cls: Any, name: str) -> Any:
    (element,) = [field.type.element for field in fields_of(cls) if field.name == name]
    return element
