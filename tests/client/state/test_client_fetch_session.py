"""The client's side of fetch sessions, with the broker's own as the other side."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.state.consumer.fetch_session import (
    FetchSession,
    FetchSettings,
    SessionFetch,
    WantedPartition,
)
from ottla.errors import ErrorCode
from ottla.model import NO_TOPIC_ID, TopicPartition
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

SETTINGS = FetchSettings(500, 1, 1000, 100, 0, "rack-a")
ID, OTHER_ID = UUID(int=7), UUID(int=8)
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def want(offset: int = 0, epoch: int = 1, topic_id: UUID = NO_TOPIC_ID) -> WantedPartition:
    return WantedPartition(offset, epoch, topic_id)


def answer(
    *partitions: TopicPartition, session_id: int = 1, error: ErrorCode = ErrorCode.NONE
) -> FetchResponse:
    return FetchResponse(
        error_code=error,
        session_id=session_id,
        responses=[
            FetchableTopicResponse(
                topic=partition.topic,
                partitions=[
                    PartitionData(
                        partition_index=partition.partition,
                        error_code=0,
                        high_watermark=0,
                        aborted_transactions=None,
                        records=None,
                    )
                ],
            )
            for partition in partitions
        ],
    )


def started(*partitions: TopicPartition) -> FetchSession:
    session = FetchSession()
    fetch = session.next_fetch({p: want() for p in partitions})
    assert session.handle(fetch, answer(*partitions), 12) is not None
    return session


def test_the_first_fetch_names_all_and_asks_for_a_session() -> None:
    fetch = FetchSession().next_fetch({A: want(3), B: want(4)})
    request = fetch.request(SETTINGS, 12)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert [(t.topic, t.partitions[0].fetch_offset) for t in request.topics] == [("a", 3), ("b", 4)]
    assert request.topics[0].partitions[0].partition_max_bytes == 100
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1000)
    assert request.rack_id == "rack-a"


def test_a_session_sends_only_what_changed() -> None:
    session = started(A, B)
    fetch = session.next_fetch({A: want(), B: want(9)})
    assert (fetch.session_id, fetch.epoch) == (1, 1)
    assert list(fetch.to_send) == [B]
    assert fetch.to_forget == ()
    assert session.handle(fetch, answer(A), 12) is not None, "A is in the session all the same"
    fetch = session.next_fetch({A: want(), B: want(9)})
    assert fetch.epoch == 2
    assert not fetch.to_send


def test_what_is_not_wanted_any_more_is_forgotten() -> None:
    session = started(A, B)
    request = session.next_fetch({B: want()}).request(SETTINGS, 12)
    assert [(t.topic, t.partitions) for t in request.forgotten_topics_data] == [("a", [0])]
    assert request.topics == []


def test_a_topic_that_was_created_anew_is_replaced() -> None:
    session = FetchSession()
    fetch = session.next_fetch({A: want(topic_id=ID)})
    response = answer(A)
    response.responses[0].topic_id = ID
    assert session.handle(fetch, response, 13) is not None
    fetch = session.next_fetch({A: want(topic_id=OTHER_ID)})
    request = fetch.request(SETTINGS, 13)
    assert [t.topic_id for t in request.topics] == [OTHER_ID]
    assert [t.topic_id for t in request.forgotten_topics_data] == [ID]
    assert not fetch.request(SETTINGS, 12).forgotten_topics_data, "names have not changed"


def test_topics_without_id_hold_the_version_down() -> None:
    assert FetchSession().next_fetch({A: want(topic_id=ID)}).at_most is None
    assert FetchSession().next_fetch({A: want(topic_id=ID), B: want()}).at_most == 12


def test_answers_with_topic_ids_find_their_names() -> None:
    session = FetchSession()
    fetch = session.next_fetch({A: want(topic_id=ID)})
    response = answer(TopicPartition("", 0))
    response.responses[0].topic_id = ID
    found = session.handle(fetch, response, 13)
    assert found is not None
    assert list(found) == [A]


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 1),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 1),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 1),
    ],
)
def test_after_an_error_all_is_asked_for_anew(error: ErrorCode, session_id: int) -> None:
    session = started(A, B)
    fetch = session.next_fetch({A: want(5), B: want()})
    assert session.handle(fetch, answer(error=error), 12) is None
    fetch = session.next_fetch({A: want(5), B: want()})
    assert (fetch.session_id, fetch.epoch) == (session_id, 0)
    assert list(fetch.to_send) == [A, B]


def test_without_an_answer_the_old_session_is_closed_by_a_full_fetch() -> None:
    session = started(A)
    session.next_fetch({A: want(1)})
    session.failed()
    fetch = session.next_fetch({A: want(1)})
    assert (fetch.session_id, fetch.epoch) == (1, 0)
    assert list(fetch.to_send) == [A]


def test_an_answer_about_other_partitions_is_refused() -> None:
    session = started(A)
    fetch = session.next_fetch({A: want(1)})
    assert session.handle(fetch, answer(B), 12) is None
    assert session.next_fetch({A: want(1)}).epoch == 0


def test_a_full_fetch_has_to_be_answered_in_full() -> None:
    session = FetchSession()
    fetch = session.next_fetch({A: want(), B: want()})
    assert session.handle(fetch, answer(A), 12) is None


def test_a_throttled_full_fetch_may_be_answered_empty() -> None:
    session = FetchSession()
    fetch = session.next_fetch({A: want()})
    response = answer(session_id=0)
    response.throttle_time_ms = 10
    assert session.handle(fetch, response, 12) is None
    assert session.next_fetch({A: want()}).epoch == 0


def test_a_broker_without_room_for_a_session_is_asked_in_full_every_time() -> None:
    session = FetchSession()
    for _ in range(3):
        fetch = session.next_fetch({A: want()})
        assert (fetch.session_id, fetch.epoch) == (0, 0)
        assert session.handle(fetch, answer(A, session_id=0), 12) is not None


def test_epochs_begin_again_at_one() -> None:
    session = started(A)
    session.epoch = 2**31 - 1
    fetch = session.next_fetch({A: want()})
    assert session.handle(fetch, answer(), 12) is not None
    assert session.next_fetch({A: want()}).epoch == 1


def test_a_closed_session_is_ended_at_the_broker() -> None:
    session = started(A)
    fetch = session.close()
    assert fetch is not None
    request = fetch.request(SETTINGS, 12)
    assert (request.session_id, request.session_epoch, request.topics) == (1, -1, [])
    assert FetchSession().close() is None


def apply(held: dict[TopicPartition, WantedPartition], fetch: SessionFetch) -> None:
    """What a broker does to its session."""
    if fetch.epoch == 0:
        held.clear()
    for partition, _ in fetch.to_forget:
        del held[partition]
    held.update(fetch.to_send)


@given(
    st.lists(
        st.dictionaries(
            st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 2)),
            st.builds(want, st.integers(0, 3)),
            min_size=1,
        ),
        max_size=12,
    ),
    st.data(),
)
def test_the_broker_always_holds_what_is_wanted(
    steps: list[dict[TopicPartition, WantedPartition]], data: st.DataObject
) -> None:
    session = FetchSession()
    held: dict[TopicPartition, WantedPartition] = {}
    for wanted in steps:
        fetch = session.next_fetch(wanted)
        outcome = data.draw(
            st.sampled_from(["answer", "answer", "lost before", "lost after", "evicted"])
        )
        if outcome == "lost before":
            session.failed()
            continue
        if outcome == "evicted" and fetch.epoch != 0:
            gone = answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            assert session.handle(fetch, gone, 12) is None
            continue
        apply(held, fetch)
        assert held == wanted
        if outcome == "lost after":
            session.failed()
        else:
            assert (
                session.handle(fetch, answer(*(held if fetch.epoch == 0 else ())), 12) is not None
            )
