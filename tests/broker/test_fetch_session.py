"""Fetch sessions (KIP-227): what is remembered between fetches, and what ends it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    create,
    delete,
    delete_records,
    eventually,
    fill,
    on_loop,
    session_with,
    values_in,
    waiter_count,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

FULL, FINAL = 0, -1
VERSION = 12
LONG_MS = 20_000
Answer = FetchResponse


class Reader:
    """A consumer's side of a session: it says what it reads once, then only what changed."""

    def __init__(self, connection: RawConnection, version: int = VERSION) -> None:
        self.connection = connection
        self.version = version
        self.session_id = 0
        self.epoch = FULL

    def request(
        self,
        topics: dict[str | uuid.UUID, dict[int, int]] | None = None,
        forget: dict[str | uuid.UUID, list[int]] | None = None,
        **fields: Any,
    ) -> FetchRequest:
        def named(topic: str | uuid.UUID) -> dict[str, Any]:
            return {"topic_id" if self.version >= 13 else "topic": topic}

        options: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, **fields}
        return FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[
                FetchTopic(
                    **named(topic),
                    partitions=[
                        FetchPartition(
                            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                        for partition, offset in offsets.items()
                    ],
                )
                for topic, offsets in (topics or {}).items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(**named(topic), partitions=partitions)
                for topic, partitions in (forget or {}).items()
            ],
            **options,
        )

    def fetch(self, *arguments: Any, **fields: Any) -> Answer:
        request = self.request(*arguments, **fields)
        return self.took(self.connection.call(request, FetchResponse, self.version))

    def took(self, answer: Answer) -> Answer:
        if answer.error_code == ErrorCode.NONE:
            self.session_id = answer.session_id
            self.epoch += 1
        return answer


def told(answer: Answer) -> dict[int, PartitionData]:
    """The partitions that an answer mentions, of one topic."""
    assert answer.error_code == ErrorCode.NONE
    assert len(answer.responses) <= 1
    return {each.partition_index: each for topic in answer.responses for each in topic.partitions}


def test_a_full_fetch_begins_a_session_and_tells_of_every_partition(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, partitions=3)
    fill(connection, topic, b"v", partition=1)
    reader = Reader(connection)
    first = reader.fetch({topic: {0: 0, 1: 0, 2: 0}})
    assert first.session_id > 0
    assert list(told(first)) == [0, 1, 2]
    assert values_in(told(first)[1]) == [b"v"]


def test_an_incremental_fetch_tells_only_of_what_is_new(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, partitions=3)
    reader = Reader(connection)
    reader.fetch({topic: {0: 0, 1: 0, 2: 0}})
    assert told(reader.fetch()) == {}
    fill(connection, topic, b"v", partition=2)
    found = told(reader.fetch())
    assert list(found) == [2]
    assert values_in(found[2]) == [b"v"]
    # The reader has not said that it is done with it, so it comes again.
    assert list(told(reader.fetch())) == [2]
    assert told(reader.fetch({topic: {2: 1}})) == {}


def test_an_incremental_fetch_waits_like_any_other(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    reader = Reader(connection)
    reader.fetch({topic: {0: 0}})
    connection.send(reader.request(max_wait_ms=LONG_MS), VERSION)
    assert eventually(lambda: waiter_count(broker) == 1)
    with session_with(broker) as other:
        fill(other, topic, b"v")
    found = told(reader.took(connection.receive(FetchResponse, VERSION)))
    assert values_in(found[0]) == [b"v"]


def test_a_moved_log_start_is_news(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2")
    reader = Reader(connection)
    reader.fetch({topic: {0: 2}})
    assert told(reader.fetch()) == {}
    delete_records(connection, topic, 1)
    assert told(reader.fetch())[0].log_start_offset == 1
    assert told(reader.fetch()) == {}


def test_partitions_are_added_and_forgotten(connection: RawConnection, topic: str) -> None:
    create(connection, topic, partitions=3)
    for partition in range(3):
        fill(connection, topic, b"v", partition=partition)
    reader = Reader(connection)
    assert list(told(reader.fetch({topic: {0: 0}}))) == [0]
    assert sorted(told(reader.fetch({topic: {1: 0, 2: 0}}))) == [0, 1, 2]
    assert sorted(told(reader.fetch(None, {topic: [0, 2]}))) == [1]
    assert sorted(told(reader.fetch({topic: {0: 0}}))) == [0, 1]


def test_forgetting_everything_ends_the_session(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    reader = Reader(connection)
    session_id = reader.fetch({topic: {0: 0}}).session_id
    answer = reader.fetch(None, {topic: [0]}, max_wait_ms=LONG_MS)
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.NONE, 0, [])
    reader.session_id = session_id
    assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_busy_partition_lets_the_others_come_first(connection: RawConnection, topic: str) -> None:
    create(connection, topic, partitions=3)
    for partition in range(3):
        fill(connection, topic, *[b"x" * 1000] * 3, partition=partition)
    reader = Reader(connection)
    first = [
        next(each for each, found in told(answer).items() if found.records)
        for answer in (
            reader.fetch({topic: {0: 0, 1: 0, 2: 0}}, max_bytes=500),
            reader.fetch(max_bytes=500),
            reader.fetch(max_bytes=500),
            reader.fetch(max_bytes=500),
        )
    ]
    assert first == [0, 1, 2, 0]


@pytest.mark.parametrize("wrong", [1, 3, 100, 2**31 - 1])
def test_a_wrong_epoch_is_refused_and_the_session_goes_on(
    connection: RawConnection, topic: str, wrong: int
) -> None:
    create(connection, topic)
    reader = Reader(connection)
    reader.fetch({topic: {0: 0}})
    reader.fetch()
    reader.epoch = wrong
    answer = reader.fetch()
    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert answer.responses == []
    reader.epoch = 2
    assert reader.fetch().error_code == ErrorCode.NONE


def test_the_largest_epoch_is_followed_by_1(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    reader = Reader(connection)
    session_id = reader.fetch({topic: {0: 0}}).session_id

    def age(found: Any) -> None:
        found.node.sessions._sessions[session_id].next_epoch = 2**31 - 1

    on_loop(broker, age)
    for epoch in (2**31 - 1, 1, 2):
        reader.epoch = epoch
        assert reader.fetch().error_code == ErrorCode.NONE


@pytest.mark.parametrize("session_id", [12345, 2**31 - 1, -7])
def test_an_unknown_session(connection: RawConnection, session_id: int) -> None:
    reader = Reader(connection)
    reader.session_id, reader.epoch = session_id, 1
    assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_does_not_survive_a_restart(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        session_id = Reader(connection).fetch({topic: {0: 0}}).session_id
    broker.stop()
    with session_with(start()) as connection:
        reader = Reader(connection)
        reader.session_id, reader.epoch = session_id, 1
        assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_keeps_to_names_or_to_ids(connection: RawConnection, topic: str) -> None:
    topic_id = create(connection, topic)
    by_name = Reader(connection)
    by_name.fetch({topic: {0: 0}})
    by_name.version = 13
    assert by_name.fetch().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    by_id = Reader(connection, 13)
    by_id.fetch({topic_id: {0: 0}})
    by_id.version = 12
    assert by_id.fetch().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_sessions_by_topic_id(connection: RawConnection, topic: str) -> None:
    topic_id = create(connection, topic, partitions=2)
    reader = Reader(connection, 17)
    reader.fetch({topic_id: {0: 0, 1: 0}})
    fill(connection, topic, b"v", partition=1)
    answer = reader.fetch()
    assert [each.topic_id for each in answer.responses] == [topic_id]
    assert list(told(answer)) == [1]
    assert told(reader.fetch(None, {topic_id: [1]})) == {}


def test_the_final_epoch_closes_the_session_and_still_answers(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    fill(connection, topic, b"v")
    reader = Reader(connection)
    session_id = reader.fetch({topic: {0: 0}}).session_id
    reader.epoch = FINAL
    answer = reader.fetch({topic: {0: 0}})
    assert answer.session_id == 0
    assert values_in(told(answer)[0]) == [b"v"]
    reader.session_id, reader.epoch = session_id, 1
    assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_fetch_replaces_the_session_it_names(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    reader = Reader(connection)
    old = reader.fetch({topic: {0: 0}}).session_id
    reader.epoch = FULL
    new = reader.fetch({topic: {0: 0}}).session_id
    assert new not in (0, old)
    stale = Reader(connection)
    stale.session_id, stale.epoch = old, 1
    assert stale.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert reader.fetch().error_code == ErrorCode.NONE


def test_a_request_without_a_session_gets_none(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    reader = Reader(connection)
    reader.epoch = FINAL
    assert reader.fetch({topic: {0: 0}}).session_id == 0


@pytest.mark.parametrize("slots", [0, 2])
def test_without_a_free_slot_there_is_no_session_but_an_answer(
    start: Starter, topic: str, slots: int
) -> None:
    broker = start(max_incremental_fetch_session_cache_slots=slots)
    with session_with(broker) as connection:
        create(connection, topic)
        fill(connection, topic, b"v")
        kept = [Reader(connection) for _ in range(slots)]
        for reader in kept:
            assert reader.fetch({topic: {0: 0}}).session_id > 0
        late = Reader(connection).fetch({topic: {0: 0}})
        assert late.session_id == 0
        assert values_in(told(late)[0]) == [b"v"]
        assert all(reader.fetch().error_code == ErrorCode.NONE for reader in kept)


def test_a_session_that_nobody_used_for_long_gives_way(start: Starter, topic: str) -> None:
    broker = start(max_incremental_fetch_session_cache_slots=1)
    with session_with(broker) as connection:
        create(connection, topic)
        old = Reader(connection)
        old.fetch({topic: {0: 0}})

        def age(found: Any) -> None:
            for session in found.node.sessions._sessions.values():
                session.last_used_ms -= 120_001

        on_loop(broker, age)
        assert Reader(connection).fetch({topic: {0: 0}}).session_id > 0
        assert old.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert on_loop(broker, lambda found: len(found.node.sessions)) == 1


def test_an_error_is_told_every_time_and_its_end_once(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    reader = Reader(connection)
    reader.fetch({topic: {0: 5}})
    for _ in range(2):
        assert told(reader.fetch())[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert told(reader.fetch({topic: {0: 0}}))[0].error_code == ErrorCode.NONE
    assert told(reader.fetch()) == {}


def test_a_deleted_topic_is_told_in_its_sessions(connection: RawConnection, topic: str) -> None:
    topic_id = create(connection, topic)
    by_name, by_id = Reader(connection), Reader(connection, 13)
    by_name.fetch({topic: {0: 0}})
    by_id.fetch({topic_id: {0: 0}})
    delete(connection, topic)
    assert told(by_name.fetch())[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(by_id.fetch())[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    create(connection, topic)
    # A topic of the same name is the same to who asks by name, and another one to who asks by id.
    assert told(by_name.fetch())[0].error_code == ErrorCode.NONE
    assert told(by_id.fetch())[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [4, 6])
def test_versions_without_sessions_work_without(
    connection: RawConnection, topic: str, version: int
) -> None:
    create(connection, topic)
    fill(connection, topic, b"v")
    reader = Reader(connection, version)
    answer = reader.fetch({topic: {0: 0}})
    assert (answer.session_id, values_in(told(answer)[0])) == (0, [b"v"])
