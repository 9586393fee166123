"""What a fault does to a request, down to the bytes; how long it does so; and what counts as a hit."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from tests.broker import group_requests
from tests.broker.requests import (
    batch_of,
    create,
    fetch_request,
    fill,
    produce,
    produce_request,
    session_with,
    waiter_count,
)

import ottla
from ottla.broker.requests.apis import SERVED
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.caller import Caller
from ottla.client.raw import RawConnection
from ottla.errors import ConfigError, ErrorCode
from ottla.model import Endpoint
from ottla.testing import Broker, wait_for
from ottla.testing.clock import MovableClock
from ottla.testing.faults import Faults
from ottla.testing.interception import Interception
from ottla.testing.request_log import RequestLog
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

SECONDS = 20.0
LONG = "10m"
LARGE = 3000


@pytest.fixture
def connection(ottla_broker: Broker) -> Iterator[RawConnection]:
    with session_with(ottla_broker) as connected:
        yield connected


# How long it lasts.


@pytest.mark.parametrize("ending", ["remove", "clear", "reset", "with"])
def test_a_delay_ends_with_its_fault(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str, ending: str
) -> None:
    create(connection, ottla_topic)
    fault = ottla_broker.faults.add("Produce", topic=ottla_topic, delay=LONG)
    connection.send(produce_request(ottla_topic, batch_of(b"1")), 12)
    wait_for(lambda: fault.hits == 1)
    match ending:
        case "remove":
            fault.remove()
            fault.remove()  # which does nothing
        case "clear":
            ottla_broker.faults.clear()
        case "reset":
            ottla_broker.reset()
        case "with":
            with fault:
                pass
    (answer,) = connection.receive(ProduceResponse, 12).responses[0].partition_responses
    assert answer.error_code == ErrorCode.NONE


def test_a_delay_of_one_fault_stays_when_another_ends(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str
) -> None:
    create(connection, ottla_topic)
    fault = ottla_broker.faults.add("Produce", topic=ottla_topic, delay=LONG)
    other = ottla_broker.faults.add("Metadata", delay=LONG)
    connection.send(produce_request(ottla_topic, batch_of(b"1")), 12)
    wait_for(lambda: fault.hits == 1)
    other.remove()
    connection.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        connection.receive_frame()


def test_writes_that_a_slow_disk_holds_back_are_durable_when_it_ends(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str
) -> None:
    create(connection, ottla_topic)
    slower = ottla_broker.faults.slow_disk(LONG)
    with ottla_broker.faults.slow_disk("1h"):
        connection.send(produce_request(ottla_topic, batch_of(b"1")), 12)
        wait_for(lambda: len(ottla_broker.requests("Produce", topic=ottla_topic)) == 1)
    connection.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        connection.receive_frame()
    connection.socket.settimeout(SECONDS)
    slower.remove()
    (answer,) = connection.receive(ProduceResponse, 12).responses[0].partition_responses
    assert answer.error_code == ErrorCode.NONE
    assert len(ottla_broker.records(ottla_topic)) == 1


def test_a_test_that_leaves_long_delays_behind_does_not_hold_up_the_next_one() -> None:
    """With clients that were not told: a broker with an answer in hand stops, and starts again, at once."""
    with Broker() as broker, session_with(broker) as connection:
        create(connection, "tea")
        fault = broker.faults.add("Produce", delay=LONG)
        broker.faults.slow_disk(LONG)
        connection.send(produce_request("tea", batch_of(b"1")), 12)
        wait_for(lambda: fault.hits == 1)
        began = time.monotonic()
        broker.stop()
        assert time.monotonic() - began < SECONDS


def test_a_fault_of_another_broker_is_not_removed(ottla_broker: Broker) -> None:
    with Broker() as other:
        fault = other.faults.add("Produce", delay="1s")
        with pytest.raises(ConfigError, match="another broker"):
            ottla_broker.faults.remove(fault)
        assert list(other.faults) == [fault]
        assert fault.lasts
    with pytest.raises(ConfigError, match="is no fault"):
        ottla_broker.faults.remove("Produce")  # type: ignore[arg-type]


# What is a hit.


def test_a_request_without_a_place_for_the_error_is_not_hit(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str
) -> None:
    create(connection, ottla_topic)
    faults = [
        ottla_broker.faults.add("Metadata", error="LEADER_NOT_AVAILABLE", times=1),
        ottla_broker.faults.add("Fetch", error="NOT_LEADER_OR_FOLLOWER", times=1),
        ottla_broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", times=1),
    ]
    connection.call(MetadataRequest(topics=[]), MetadataResponse, 12)
    connection.call(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), FetchResponse, 12)
    connection.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[]), ProduceResponse, 12)
    assert [fault.hits for fault in faults] == [0, 0, 0]
    assert [each.fault for each in ottla_broker.requests()[-3:]] == [None, None, None]
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=ottla_topic)])
    (found,) = connection.call(asked, MetadataResponse, 12).topics
    assert found.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert produce(connection, ottla_topic, batch_of(b"1")).error_code != ErrorCode.NONE
    assert [fault.hits for fault in faults] == [1, 0, 1]


def test_partitions_that_leave_a_fetch_session_are_not_hit(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str
) -> None:
    from ottla.wire.messages.fetch import ForgottenTopic

    create(connection, ottla_topic)
    asked = fetch_request(ottla_topic, 0, max_wait_ms=0)
    asked.session_id, asked.session_epoch = 0, 0
    session = connection.call(asked, FetchResponse, 12).session_id
    assert session
    fault = ottla_broker.faults.add(
        "Fetch", topic=ottla_topic, error="NOT_LEADER_OR_FOLLOWER", times=1
    )
    leaving = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[],
        session_id=session,
        session_epoch=1,
        forgotten_topics_data=[ForgottenTopic(topic=ottla_topic, partitions=[0])],
    )
    connection.call(leaving, FetchResponse, 12)
    assert fault.hits == 0


# Errors by topic in OffsetFetch.


@pytest.mark.parametrize("version", [7, 8, 9])
def test_an_error_of_committed_offsets_is_for_the_topic_that_it_names(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str, version: int
) -> None:
    other = f"{ottla_topic}-other"
    for topic in (ottla_topic, other):
        create(connection, topic)
    group_requests.await_coordinator(connection, ottla_topic)
    positions = {(ottla_topic, 0): 3, (other, 0): 4}
    assert set(group_requests.commit(connection, ottla_topic, positions)) == {ErrorCode.NONE}
    fault = ottla_broker.faults.add(
        "OffsetFetch", topic=ottla_topic, error="UNSTABLE_OFFSET_COMMIT", times=1
    )
    wanted = {ottla_topic: [0], other: [0]}
    answer = group_requests.fetch_offsets(connection, ottla_topic, wanted, version=version)
    found = answer.groups[0] if version > 7 else answer
    assert found.error_code == ErrorCode.NONE
    assert {
        topic.name: (topic.partitions[0].error_code, topic.partitions[0].committed_offset)
        for topic in found.topics
    } == {ottla_topic: (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1), other: (ErrorCode.NONE, 4)}
    assert fault.hits == 1
    (logged,) = ottla_broker.requests("OffsetFetch", topic=ottla_topic)
    assert logged.names(other)
    assert ottla_broker.requests("OffsetFetch", topic="elsewhere") == []


def test_an_error_of_a_group_is_told_once_for_the_group(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str
) -> None:
    create(connection, ottla_topic)
    ottla_broker.faults.add("OffsetFetch", group=ottla_topic, error="NOT_COORDINATOR", times=1)
    request = group_requests.fetch_groups_request({ottla_topic: {ottla_topic: [0]}})
    assert isinstance(request, OffsetFetchRequest)
    (found,) = connection.call(request, OffsetFetchResponse, 9).groups
    assert (found.error_code, found.topics) == (ErrorCode.NOT_COORDINATOR, [])


def test_a_consumer_of_librdkafka_asks_again_for_offsets_that_are_unstable(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        producer.send(ottla_topic, b"1").result(SECONDS)
    fault = ottla_broker.faults.add(
        "OffsetFetch", topic=ottla_topic, error="UNSTABLE_OFFSET_COMMIT", times=2
    )
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": ottla_broker.bootstrap_servers,
            "group.id": ottla_topic,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([ottla_topic])
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.value() == b"1"
    finally:
        consumer.close()
    assert fault.hits == 2


# What is logged.


def test_the_error_of_a_fetch_that_waited_is_in_the_log(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str
) -> None:
    create(connection, ottla_topic)
    with session_with(ottla_broker) as reader:
        reader.send(fetch_request(ottla_topic, 0, max_wait_ms=60_000), 12)
        wait_for(lambda: waiter_count(ottla_broker) == 1)
        (waiting,) = ottla_broker.requests("Fetch", topic=ottla_topic)
        assert not waiting.is_answered
        with ottla.Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
            admin.delete_topics([ottla_topic])
        (answer,) = reader.receive(FetchResponse, 12).responses[0].partitions
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wait_for(lambda: waiting.is_answered)
        assert waiting.errors == {"UNKNOWN_TOPIC_OR_PARTITION": 1}


# Without acknowledgements.


def test_a_lost_answer_without_acknowledgements_is_a_cut_connection_with_the_record_written(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str
) -> None:
    create(connection, ottla_topic)
    ottla_broker.faults.script("Produce", ["200ms", "lost answer"], topic=ottla_topic)
    for value in (b"1", b"2"):
        connection.send(produce_request(ottla_topic, batch_of(value), acks=0), 9)
    assert connection.socket.recv(1) == b""
    wait_for(lambda: len(ottla_broker.records(ottla_topic)) == 2)


def test_a_delay_without_acknowledgements_holds_back_what_follows_and_answers_nothing(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str
) -> None:
    create(connection, ottla_topic)
    fault = ottla_broker.faults.add("Produce", topic=ottla_topic, delay=LONG, times=1)
    connection.send(produce_request(ottla_topic, batch_of(b"1"), acks=0), 9)
    connection.send(MetadataRequest(topics=[]), 12)
    wait_for(lambda: fault.hits == 1)
    fault.remove()
    assert connection.receive(MetadataResponse, 12).brokers


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_confluent_kafka_sends_again_what_was_refused_or_lost(
    ottla_broker: Broker, ottla_topic: str, acks: int
) -> None:
    with session_with(ottla_broker) as connection:
        create(connection, ottla_topic)
    script = ["lost request", "NOT_LEADER_OR_FOLLOWER", "ok"]
    fault = ottla_broker.faults.script("Produce", script, topic=ottla_topic)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": ottla_broker.bootstrap_servers,
            "acks": acks,
            "retry.backoff.ms": 10,
        }
    )
    for _ in range(3):
        producer.produce(ottla_topic, b"v")
        assert producer.flush(SECONDS) == 0
        if acks == 0:
            time.sleep(0.05)  # the cut connection has to be noticed
    assert fault.hits == 3
    # Without acknowledgements nothing is sent again, and what was refused is lost.
    expected = 1 if acks == 0 else 3
    wait_for(lambda: len(ottla_broker.records(ottla_topic)) >= expected)


# Large requests.


def large(topic: str) -> ListOffsetsRequest:
    """A request that is answered in slices, and takes one of four places meanwhile."""
    partitions = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(LARGE)]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
    )


@pytest.mark.parametrize("fault", ["network partition", "delay", "lost answer"])
def test_large_requests_that_a_fault_holds_leave_their_places_to_others(
    ottla_broker: Broker, ottla_topic: str, fault: str
) -> None:
    if fault == "network partition":
        ottla_broker.faults.partition_network(client_id="held")
    elif fault == "delay":
        ottla_broker.faults.add("ListOffsets", client_id="held", delay=LONG)
    else:
        ottla_broker.faults.add("ListOffsets", client_id="held", delay=LONG, drop="after")
    with ExitStack() as connections:
        held = [connections.enter_context(session_with(ottla_broker)) for _ in range(6)]
        for each in held:
            each.send(large(ottla_topic), 7, "held")
        wait_for(lambda: len(ottla_broker.requests("ListOffsets")) == 6)
        with session_with(ottla_broker) as connection:
            connection.socket.settimeout(SECONDS)
            answer = connection.call(large(ottla_topic), ListOffsetsResponse, 7)
        assert len(answer.topics[0].partitions) == LARGE
        ottla_broker.faults.clear()
        for each in held:
            each.socket.settimeout(SECONDS)
            if fault == "delay":
                each.receive(ListOffsetsResponse, 7)
            else:
                assert each.socket.recv(1) == b""


@pytest.mark.parametrize("outcome", ["NOT_LEADER_OR_FOLLOWER", "lost request", "lost answer"])
def test_a_large_request_meets_a_fault_as_a_small_one_does(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str, outcome: str
) -> None:
    create(connection, ottla_topic)
    fill(connection, ottla_topic, b"1")
    ottla_broker.faults.script("ListOffsets", [outcome], topic=ottla_topic, partition=0)
    connection.send(large(ottla_topic), 7)
    if outcome.startswith("lost"):
        assert connection.socket.recv(1) == b""
        return
    found = connection.receive(ListOffsetsResponse, 7).topics
    errors = {each.partition_index: each.error_code for topic in found for each in topic.partitions}
    assert errors[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(errors) == LARGE
    assert set(list(errors.values())[:-1]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_a_search_for_a_coordinator_names_its_group_or_transactional_id(
    ottla_broker: Broker, connection: RawConnection, ottla_topic: str, version: int
) -> None:
    def search(key: str, key_type: int) -> int:
        request = FindCoordinatorRequest(
            key=key if version < 4 else "",
            key_type=key_type,
            coordinator_keys=[key] if version >= 4 else [],
        )
        answer = connection.call(request, FindCoordinatorResponse, version)
        return int(answer.error_code if version < 4 else answer.coordinators[0].error_code)

    by_group = ottla_broker.faults.add(
        "FindCoordinator", group=ottla_topic, error="COORDINATOR_NOT_AVAILABLE", times=1
    )
    by_id = ottla_broker.faults.add(
        "FindCoordinator", transactional_id=ottla_topic, error="COORDINATOR_LOAD_IN_PROGRESS"
    )
    assert search("other", 0) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (by_group.hits, by_id.hits) == (0, 0)
    assert search(ottla_topic, 1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (by_group.hits, by_id.hits) == (0, 1)
    assert search(ottla_topic, 0) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (by_group.hits, by_id.hits) == (1, 1)
    assert f"(group {ottla_topic})" in str(ottla_broker.requests("FindCoordinator")[-1])


@pytest.mark.parametrize("fault", [None, "delay", "network partition"])
def test_a_request_whose_connection_ends_at_once_leaves_no_coroutine_behind(
    fault: str | None,
) -> None:
    faults = Faults([1])
    if fault == "delay":
        faults.add("Metadata", delay="1s")
    elif fault == "network partition":
        faults.partition_network(client_id="c")

    async def answer() -> MetadataResponse:
        raise AssertionError("it does not begin")

    api = SERVED[3]._replace(handle=lambda node, request, context: answer())
    interception = Interception(faults, RequestLog(), MovableClock())
    intercepted = interception.intercept({3: api})[3].handle
    node: Any = SimpleNamespace(node_id=1)
    context = RequestContext(12, "c", Caller(Endpoint("127.0.0.1", 1), Endpoint("127.0.0.1", 2)))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        reply: Any = intercepted(node, MetadataRequest(topics=[]), context)
        reply.close()
        del reply
        gc.collect()
    assert [str(each.message) for each in warned] == []
