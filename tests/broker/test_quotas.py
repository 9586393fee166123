"""Quotas at work: who exceeds one waits as long as Kafka would have it wait, and nobody else does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from tests.broker.quota_requests import alter as alter_quotas
from tests.broker.quota_requests import describe, entry, set_quotas
from tests.broker.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch_of,
    create,
    eventually,
    fetch_request,
    on_loop,
    produce_request,
    session_with,
    values_in,
)
from tests.lasting import LASTING

import ottla
from ottla.admin import NewTopic, QuotaEntity
from ottla.client.raw import RawConnection
from ottla.core.security.quotas.entities import QuotaKind
from ottla.errors import ErrorCode
from ottla.testing import Broker
from ottla.wire.framing import frame_request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import ProduceResponse

TOPIC = "orders"
LIMITED = "app"
APP = {"client-id": LIMITED}
VALUE = b"x" * 5000
RATE = 100
API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
# The rate of a first burst is measured over the ten windows that are always whole.
SECONDS = 10


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(LASTING) as broker:
        with session_with(broker) as connection:
            create(connection, TOPIC)
        yield broker


@pytest.fixture
def broker(running: Broker) -> Iterator[Broker]:
    """A broker without quotas, whose clock stands still; what clients did before is long ago."""
    running.clock.freeze()
    yield running
    with RawConnection(running.bootstrap_servers) as connection:
        for names, quotas in describe(connection):
            alter_quotas(connection, entry(names, dict.fromkeys(quotas)))
    running.clock.advance("2h")
    running.clock.reset()


@pytest.fixture
def admin(broker: Broker) -> Iterator[RawConnection]:
    """A connection of a client without a quota."""
    with session_with(broker) as connection:
        yield connection


@contextmanager
def client(broker: Broker) -> Iterator[RawConnection]:
    with session_with(broker) as connection:
        yield connection


def call(
    connection: RawConnection,
    request: Any,
    response_class: type[Any],
    version: int,
    client_id: str | None = LIMITED,
) -> Any:
    connection.send(request, version, client_id)
    return connection.receive(response_class, version)


def produce(
    connection: RawConnection, client_id: str | None = LIMITED, value: bytes = VALUE
) -> ProduceResponse:
    request = produce_request(TOPIC, batch_of(value))
    response = call(connection, request, ProduceResponse, PRODUCE_VERSION, client_id)
    assert isinstance(response, ProduceResponse)
    (topic,) = response.responses
    assert topic.partition_responses[0].error_code == ErrorCode.NONE
    return response


def request_bytes(client_id: str = LIMITED, value: bytes = VALUE) -> int:
    """The size of a produce request as a quota counts it: without the size of its frame."""
    request = produce_request(TOPIC, batch_of(value))
    return len(frame_request(request, PRODUCE_VERSION, 0, client_id)) - 4


def expected_wait_ms(used: float, rate: float = RATE) -> int:
    return round((used / SECONDS - rate) / rate * SECONDS * 1000)


def api_versions(connection: RawConnection, client_id: str | None = LIMITED) -> int:
    response = call(connection, API_VERSIONS, ApiVersionsResponse, 3, client_id)
    return int(response.throttle_time_ms)


def has_answer(connection: RawConnection) -> bool:
    connection.socket.settimeout(0)
    try:
        return bool(connection.socket.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.socket.settimeout(10)


def test_a_producer_over_its_quota_is_answered_at_once_and_then_muted(
    broker: Broker, admin: RawConnection
) -> None:
    set_quotas(admin, APP, producer_byte_rate=RATE)
    with client(broker) as limited, client(broker) as free:
        wait_ms = produce(limited).throttle_time_ms
        assert wait_ms == expected_wait_ms(request_bytes())
        limited.send(API_VERSIONS, 3, LIMITED)
        # Others are not held up, and the clock does not move.
        for _ in range(3):
            assert produce(free, "other").throttle_time_ms == 0
        assert not has_answer(limited)
        broker.clock.advance(f"{wait_ms - 1}ms")
        assert api_versions(free, "other") == 0
        assert not has_answer(limited)
        broker.clock.advance("1ms")
        limited.receive(ApiVersionsResponse, 3)


def test_a_quota_is_shared_by_the_connections_of_a_client_id(
    broker: Broker, admin: RawConnection
) -> None:
    set_quotas(admin, APP, producer_byte_rate=RATE)
    with client(broker) as one, client(broker) as other:
        assert produce(one).throttle_time_ms == expected_wait_ms(request_bytes())
        assert produce(other).throttle_time_ms == expected_wait_ms(2 * request_bytes())


def test_clients_of_a_default_quota_do_not_share_it(broker: Broker, admin: RawConnection) -> None:
    set_quotas(admin, {"client-id": None}, producer_byte_rate=RATE)
    with client(broker) as one, client(broker) as other:
        expected = expected_wait_ms(request_bytes("one"))
        assert produce(one, "one").throttle_time_ms == expected
        assert produce(other, "two").throttle_time_ms == expected


def test_a_user_shares_its_quota_whatever_the_client_ids(
    broker: Broker, admin: RawConnection
) -> None:
    set_quotas(admin, {"user": "ANONYMOUS"}, producer_byte_rate=RATE)
    with client(broker) as one, client(broker) as other:
        produce(one, "one")
        expected = expected_wait_ms(2 * request_bytes("one"))
        assert produce(other, "two").throttle_time_ms == expected


def test_within_the_quota_nobody_waits(broker: Broker, admin: RawConnection) -> None:
    # The window of now counts over the ten whole ones: eleven requests in ten seconds.
    set_quotas(admin, APP, producer_byte_rate=request_bytes() * 11 // SECONDS + 1)
    with client(broker) as limited:
        for _ in range(3 * SECONDS):
            assert produce(limited).throttle_time_ms == 0
            broker.clock.advance("1s")


def test_a_new_quota_counts_at_once_and_a_removed_one_no_more(
    broker: Broker, admin: RawConnection
) -> None:
    with client(broker) as limited:
        assert produce(limited).throttle_time_ms == 0
        set_quotas(admin, APP, producer_byte_rate=1_000_000_000)
        assert produce(limited).throttle_time_ms == 0
        set_quotas(admin, APP, producer_byte_rate=RATE)
        assert produce(limited).throttle_time_ms > 0
        set_quotas(admin, APP, producer_byte_rate=None)
    with client(broker) as limited:
        assert produce(limited).throttle_time_ms == 0


def test_a_producer_without_acknowledgements_is_muted_too(
    broker: Broker, admin: RawConnection
) -> None:
    set_quotas(admin, APP, producer_byte_rate=RATE)
    with client(broker) as limited:
        limited.send(produce_request(TOPIC, batch_of(VALUE), acks=0), PRODUCE_VERSION, LIMITED)
        limited.send(API_VERSIONS, 3, LIMITED)
        assert eventually(lambda: throttled(broker, QuotaKind.PRODUCER_BYTE_RATE) > 0)
        assert not has_answer(limited)
        broker.clock.advance("1h")
        limited.receive(ApiVersionsResponse, 3)


def throttled(broker: Broker, kind: QuotaKind) -> int:
    return on_loop(broker, lambda found: found.node.quotas.throttles.requests[kind])


def test_pipelined_requests_wait_in_their_order(broker: Broker, admin: RawConnection) -> None:
    """A client that does not care about throttle times sends on; the broker reads no further."""
    set_quotas(admin, APP, producer_byte_rate=RATE)
    with client(broker) as limited:
        for _ in range(3):
            limited.send(produce_request(TOPIC, batch_of(VALUE)), PRODUCE_VERSION, LIMITED)
        for number in (1, 2, 3):
            response = limited.receive(ProduceResponse, PRODUCE_VERSION)
            assert response.throttle_time_ms > 0, number
            assert api_versions(admin, "other") == 0
            assert not has_answer(limited)
            broker.clock.advance(f"{response.throttle_time_ms}ms")


def fetch(
    connection: RawConnection, client_id: str | None = LIMITED, **fields: Any
) -> FetchResponse:
    request = fetch_request(TOPIC, 0, **fields)
    response = call(connection, request, FetchResponse, FETCH_VERSION, client_id)
    assert isinstance(response, FetchResponse)
    return response


def test_a_consumer_over_its_quota_gets_nothing_and_the_same_later(
    broker: Broker, admin: RawConnection
) -> None:
    with client(broker) as limited:
        for _ in range(3):
            produce(limited)
        everything = fetch(limited)
        assert everything.responses
        set_quotas(admin, APP, consumer_byte_rate=600)
        # A response of at most the quota of all whole windows, which is one batch here.
        first = fetch(limited)
        assert first.throttle_time_ms == 0
        assert len(values_in(first.responses[0].partitions[0])) == 1
        second = fetch(limited)
        assert second.throttle_time_ms > 0
        assert second.responses == []
        assert second.error_code == ErrorCode.NONE
        broker.clock.advance(f"{second.throttle_time_ms}ms")
        # What was not given did not count: after the wait there is room again.
        broker.clock.advance("11s")
        third = fetch(limited)
        assert third.throttle_time_ms == 0
        assert values_in(third.responses[0].partitions[0])


def test_a_fetch_session_does_not_change_by_a_response_that_was_withheld(
    broker: Broker, admin: RawConnection
) -> None:
    with client(broker) as limited:
        produce(limited)
        set_quotas(admin, APP, consumer_byte_rate=600)
        begun = fetch(limited, session_id=0, session_epoch=0)
        assert begun.throttle_time_ms == 0
        session_id = begun.session_id
        assert session_id
        produce(admin, "other")
        again = fetch(limited, session_id=session_id, session_epoch=1)
        assert (again.session_id, again.responses) == (session_id, [])
        assert again.throttle_time_ms > 0
        broker.clock.advance("1m")
        later = fetch(limited, session_id=session_id, session_epoch=2)
        assert later.error_code == ErrorCode.NONE
        assert values_in(later.responses[0].partitions[0])


def test_a_session_that_would_begin_with_a_withheld_response_does_not_begin(
    broker: Broker, admin: RawConnection
) -> None:
    with client(broker) as limited:
        produce(limited)
        set_quotas(admin, APP, consumer_byte_rate=600)
        fetch(limited)
        sessions = on_loop(broker, lambda found: len(found.node.sessions))
        withheld = fetch(limited, session_id=0, session_epoch=0)
        assert withheld.throttle_time_ms > 0
        assert withheld.session_id == 0
        assert on_loop(broker, lambda found: len(found.node.sessions)) == sessions


def test_any_request_may_exceed_the_share_of_the_brokers_time(
    broker: Broker, admin: RawConnection
) -> None:
    set_quotas(admin, APP, request_percentage=1e-9)
    with client(broker) as limited, client(broker) as free:
        # At most one window, as in Kafka.
        assert api_versions(limited) == 1000
        limited.send(MetadataRequest(topics=[]), 12, LIMITED)
        assert api_versions(free, "other") == 0
        assert not has_answer(limited)
        broker.clock.advance("1s")
        assert limited.receive(MetadataResponse, 12).throttle_time_ms == 1000
        broker.clock.advance("1s")
        fetched = fetch(limited)
        assert (fetched.throttle_time_ms, fetched.responses) == (1000, [])
        broker.clock.advance("1s")
        assert produce(limited).throttle_time_ms == 1000
        broker.clock.advance("1s")
        # An old version cannot say so, but the connection is muted all the same.
        limited.send(API_VERSIONS, 0, LIMITED)
        assert limited.receive(ApiVersionsResponse, 0).throttle_time_ms == 0
        limited.send(API_VERSIONS, 0, LIMITED)
        assert api_versions(free, "other") == 0
        assert not has_answer(limited)


def test_a_client_that_uses_little_of_the_brokers_time_does_not_wait(
    broker: Broker, admin: RawConnection
) -> None:
    set_quotas(admin, APP, request_percentage=50)
    with client(broker) as limited:
        for _ in range(20):
            assert api_versions(limited) == 0


# Changes of partitions.


def create_topics(
    connection: RawConnection, version: int, *names: str, partitions: int = 1, **fields: Any
) -> CreateTopicsResponse:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            for name in names
        ],
        timeout_ms=1000,
        **fields,
    )
    response = call(connection, request, CreateTopicsResponse, version)
    assert isinstance(response, CreateTopicsResponse)
    return response


def delete_topics(connection: RawConnection, version: int, *names: str) -> DeleteTopicsResponse:
    topics = [DeleteTopicState(name=name) for name in names]
    request = (
        DeleteTopicsRequest(topics=topics, timeout_ms=1000)
        if version >= 6
        else DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)
    )
    response = call(connection, request, DeleteTopicsResponse, version)
    assert isinstance(response, DeleteTopicsResponse)
    return response


def add_partitions(
    connection: RawConnection, version: int, name: str, count: int
) -> CreatePartitionsResponse:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)],
        timeout_ms=1000,
        validate_only=False,
    )
    response = call(connection, request, CreatePartitionsResponse, version)
    assert isinstance(response, CreatePartitionsResponse)
    return response


def test_new_clients_are_refused_what_their_quota_does_not_allow(
    broker: Broker, admin: RawConnection, topic: str
) -> None:
    set_quotas(admin, APP, controller_mutation_rate=1)
    with client(broker) as limited:
        # Eleven windows allow eleven partitions, and the bucket may be overdrawn once.
        first = create_topics(limited, 7, f"{topic}-1", partitions=21)
        assert first.topics[0].error_code == ErrorCode.NONE
        assert first.throttle_time_ms == 0
        refused = create_topics(limited, 7, f"{topic}-2")
        assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert refused.topics[0].error_message == "The throttling quota has been exceeded."
        assert refused.throttle_time_ms == 10_000
        broker.clock.advance("10s")
        assert create_topics(limited, 7, f"{topic}-2").topics[0].error_code == ErrorCode.NONE
        more = add_partitions(limited, 3, f"{topic}-2", 2)
        assert more.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert more.throttle_time_ms == 1000
        broker.clock.advance("1s")
        deleted = delete_topics(limited, 6, f"{topic}-1", f"{topic}-2")
        assert [one.error_code for one in deleted.responses] == [
            ErrorCode.NONE,
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ]
        assert deleted.throttle_time_ms == 21_000


def test_old_clients_get_what_they_want_and_wait(
    broker: Broker, admin: RawConnection, topic: str
) -> None:
    set_quotas(admin, APP, controller_mutation_rate=1)
    with client(broker) as limited:
        made = create_topics(limited, 5, topic, partitions=21)
        assert made.topics[0].error_code == ErrorCode.NONE
        assert made.throttle_time_ms == 10_000
        broker.clock.advance("10s")
        more = add_partitions(limited, 2, topic, 22)
        assert (more.results[0].error_code, more.throttle_time_ms) == (ErrorCode.NONE, 1000)
        broker.clock.advance("1s")
        deleted = delete_topics(limited, 4, topic)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        assert deleted.throttle_time_ms == 22_000


def test_what_is_only_validated_counts_too(
    broker: Broker, admin: RawConnection, topic: str
) -> None:
    set_quotas(admin, APP, controller_mutation_rate=1)
    with client(broker) as limited:
        create_topics(limited, 7, topic, partitions=21, validate_only=True)
        assert create_topics(limited, 7, topic, validate_only=True).throttle_time_ms == 10_000


def test_topics_are_not_created_on_first_use_beyond_the_quota(
    broker: Broker, admin: RawConnection, topic: str
) -> None:
    set_quotas(admin, APP, controller_mutation_rate=1)

    def metadata(connection: RawConnection, name: str) -> tuple[int, int]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
        )
        response = call(connection, request, MetadataResponse, 9)
        return response.topics[0].error_code, response.throttle_time_ms

    with client(broker) as limited:
        create_topics(limited, 7, f"{topic}-1", partitions=21)
        assert metadata(limited, f"{topic}-2") == (ErrorCode.LEADER_NOT_AVAILABLE, 0)
        broker.clock.advance("10s")
        assert metadata(limited, f"{topic}-2") == (ErrorCode.NONE, 0)


# Nodes and users.


def test_a_quota_is_in_force_on_all_nodes_at_once_and_counts_on_each() -> None:
    with Broker(LASTING, nodes=3) as broker:
        addresses = broker.bootstrap_servers.split(",")
        with ExitStack() as opened:
            nodes = [opened.enter_context(RawConnection(address)) for address in addresses]
            broker.clock.freeze()
            set_quotas(nodes[0], APP, request_percentage=1e-9)
            assert [api_versions(node) for node in nodes] == [1000] * 3
            broker.clock.advance("1s")
            set_quotas(nodes[1], APP, request_percentage=None, controller_mutation_rate=1)
            # Kafka has one controller.
            create_topics(nodes[0], 7, "one", partitions=21)
            refused = create_topics(nodes[2], 7, "two")
            assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_users_that_have_logged_in_have_quotas_of_their_own() -> None:
    options = {**LASTING, "allow.everyone.if.no.acl.found": "true"}
    with Broker(options, security="scram") as broker:
        with ottla.Admin(broker.client_options("admin")) as admin:
            admin.create_topics([NewTopic(TOPIC)])
            admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1}})
        for user, expected in (("bob", 0), ("alice", 1)):
            with ottla.Producer(broker.client_options(user)) as producer:
                producer.send(TOPIC, b"x" * 1000).result(10)
            assert throttled(broker, QuotaKind.PRODUCER_BYTE_RATE) == expected


# Connections that are muted.


def test_a_muted_client_that_goes_away_leaves_nothing_behind(
    broker: Broker, admin: RawConnection
) -> None:
    set_quotas(admin, APP, producer_byte_rate=1)
    before = on_loop(broker, lambda found: found.server.connection_count)
    with client(broker) as limited:
        assert produce(limited).throttle_time_ms > 1_000_000
    assert eventually(
        lambda: on_loop(broker, lambda found: found.server.connection_count) == before
    )


def test_a_broker_with_muted_connections_stops_at_once() -> None:
    with Broker(LASTING) as broker, session_with(broker) as admin, session_with(broker) as limited:
        create(admin, TOPIC)
        set_quotas(admin, APP, producer_byte_rate=1)
        assert produce(limited).throttle_time_ms > 1_000_000
        limited.send(API_VERSIONS, 3, LIMITED)
        broker.stop()
        with pytest.raises(ConnectionError):
            limited.receive(ApiVersionsResponse, 3)


def test_a_flood_of_client_ids_is_not_remembered(
    broker: Broker, admin: RawConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_quotas(admin, {"client-id": None}, request_percentage=1e6)
    rates = on_loop(broker, lambda found: found.node.quotas._rates[QuotaKind.REQUEST_PERCENTAGE])
    monkeypatch.setattr(rates, "_most", 50)
    with client(broker) as flood:
        for number in range(120):
            flood.send(API_VERSIONS, 3, f"client-{number}" * 100)
        for _ in range(120):
            flood.receive(ApiVersionsResponse, 3)
    assert len(rates) == 50
    broker.clock.advance("2h")
    assert len(rates) <= 1
