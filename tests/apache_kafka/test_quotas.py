"""Quotas: our broker gives the answers, the throttle times and the rates of Apache Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from tests.apache_kafka.programs import running_kafka
from tests.broker.quota_requests import (
    DEFAULT,
    EXACT,
    SPECIFIED,
    Names,
    Outcome,
    alter,
    describe,
    described,
    entry,
    set_quotas,
)
from tests.broker.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch_of,
    eventually,
    fetch_request,
    produce_request,
)
from tests.lasting import LASTING

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.produce import ProduceResponse

TOPIC = "quotas"
RATES = {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0}
ALTERATIONS: tuple[tuple[Names, Mapping[str, float | None]], ...] = (
    ({"user": "ann"}, RATES),
    ({"user": None}, {"request_percentage": 12.5}),
    ({"client-id": "app", "user": "a/b=c%2F"}, {"controller_mutation_rate": 0.5}),
    ({"client-id": None, "user": None}, {"producer_byte_rate": 9e18}),
    ({"ip": "10.0.0.1"}, {"connection_creation_rate": 100.0}),
    ({"ip": None}, {"connection_creation_rate": 2147483647.0}),
    ({"ip": "localhost"}, {"connection_creation_rate": 1000.0}),
    ({"ip": "no such host"}, {"connection_creation_rate": 1.0}),
    ({"ip": "10.0.0.1", "user": "ann"}, {"connection_creation_rate": 1.0}),
    ({"ip": None}, {"connection_creation_rate": 2147483648.0}),
    ({"ip": None}, {"connection_creation_rate": 1.5}),
    ({"ip": None}, {"producer_byte_rate": 1.0}),
    ({}, RATES),
    ({"user": ""}, RATES),
    ({"client-id": ""}, RATES),
    ({"machine": "x"}, RATES),
    ({"user": "ann"}, {"producer_byte_rate": 0.0}),
    ({"user": "ann"}, {"producer_byte_rate": -1.0}),
    ({"user": "ann"}, {"producer_byte_rate": 1.25}),
    ({"user": "ann"}, {"producer_byte_rate": 1e19}),
    ({"user": "ann"}, {"no_such_key": 1.0}),
    ({"user": "ann"}, {"connection_creation_rate": 1.0}),
    ({"user": "ann"}, {"producer_byte_rate": None, "no_such_key": None}),
    ({"user": "nobody"}, {"producer_byte_rate": None}),
)
FILTERS: tuple[tuple[tuple[str, int, str | None], ...], ...] = (
    (),
    (("user", SPECIFIED, None),),
    (("user", EXACT, "ann"),),
    (("user", DEFAULT, None),),
    (("user", SPECIFIED, None), ("client-id", SPECIFIED, None)),
    (("user", EXACT, "a/b=c%2F"), ("client-id", EXACT, "app")),
    (("ip", SPECIFIED, None),),
    (("ip", DEFAULT, None),),
    (("ip", EXACT, "10.0.0.1"),),
    (("ip", EXACT, "10.0.0.1"), ("user", SPECIFIED, None)),
    (("", SPECIFIED, None),),
    (("machine", SPECIFIED, None),),
    (("user", 9, None),),
    (("user", EXACT, None),),
    (("user", DEFAULT, "ann"),),
    (("user", SPECIFIED, None), ("user", SPECIFIED, None)),
)


class Contestant(NamedTuple):
    """A broker, by name."""

    name: str
    address: str


@pytest.fixture(scope="module")
def brokers(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Contestant]]:
    folder = tmp_path_factory.mktemp("kafka")
    with running_kafka(kafka_jars, folder) as kafka, ottla.Broker(LASTING) as ours:
        yield [Contestant("kafka", kafka), Contestant("ottla", ours.bootstrap_servers)]


@pytest.fixture
def both(brokers: list[Contestant]) -> Iterator[list[Contestant]]:
    """Kafka and our broker, without quotas before and after."""
    yield brokers
    for each in brokers:
        with RawConnection(each.address) as connection:
            for names, quotas in describe(connection):
                alter(connection, entry(names, dict.fromkeys(quotas)))
            assert eventually(lambda here=connection: describe(here) == [])  # type: ignore[misc]


def topic_of(connection: RawConnection, partitions: int = 1) -> str:
    name = f"{TOPIC}-{uuid.uuid4().hex[:8]}"
    assert create_topic(connection, name, partitions, None).topics[0].error_code == 0
    time.sleep(0.5)  # Kafka's controller has answered, and its broker learns of the topic soon
    return name


def create_topic(
    connection: RawConnection, name: str, partitions: int, client_id: str | None, version: int = 7
) -> CreateTopicsResponse:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    connection.send(request, version, client_id)
    response = connection.receive(CreateTopicsResponse, version)
    assert isinstance(response, CreateTopicsResponse)
    return response


@pytest.mark.campaign
def test_alterations_and_filters_have_kafkas_answers(both: list[Contestant]) -> None:
    seen: dict[str, list[Any]] = {}
    for name, address in both:
        answers = seen[name] = []
        with RawConnection(address) as connection:
            for names, quotas in ALTERATIONS:
                for version in (0, 1):
                    answers.append(_alone(connection, names, quotas, version))
            twice = entry({"user": "twice"}, RATES)
            answers.append(alter(connection, twice, twice))
            answers.append(alter(connection, entry({"user": "dry"}, RATES), validate_only=True))
            assert eventually(lambda here=connection: len(describe(here)) >= 7)  # type: ignore[misc]
            for strict in (False, True):
                for components in FILTERS:
                    answers.append(_found(connection, components, strict))
    assert seen["ottla"] == seen["kafka"]


def _alone(
    connection: RawConnection, names: Names, quotas: Mapping[str, float | None], version: int
) -> list[Outcome]:
    return [
        (dict(sorted(found.items())), error, text)
        for found, error, text in alter(connection, entry(names, quotas), version=version)
    ]


def _found(
    connection: RawConnection, components: tuple[tuple[str, int, str | None], ...], strict: bool
) -> Any:
    response = described(connection, *components, strict=strict)
    entries = [
        (
            sorted((one.entity_type, one.entity_name or "") for one in each.entity),
            sorted((one.key, one.value) for one in each.values),
        )
        for each in response.entries or []
    ]
    return response.error_code, response.error_message, sorted(entries)


def in_force(connection: RawConnection, names: Names, **quotas: float) -> None:
    """Sets quotas; Kafka's broker follows its controller soon."""
    set_quotas(connection, names, **quotas)
    time.sleep(0.5)


def waits(address: str) -> dict[str, list[int]]:
    """How long each request of a script has to wait."""
    seen: dict[str, list[int]] = {}
    with RawConnection(address) as admin:
        topic = topic_of(admin)
        in_force(admin, {"client-id": "burst"}, producer_byte_rate=900)
        in_force(admin, {"client-id": None}, producer_byte_rate=1500)
        in_force(admin, {"client-id": "reader"}, consumer_byte_rate=900)
        in_force(admin, {"client-id": "busy"}, request_percentage=0.000001)
        in_force(admin, {"client-id": "maker"}, controller_mutation_rate=1)
        seen["burst"] = [_produce(address, f"{topic}", client, 10_000) for client in ("burst", "x")]
        seen["shared"] = [_produce(address, topic, "y", 8_000) for _ in range(3)]
        seen["fetch"] = [_fetch(address, topic, "reader") for _ in range(2)]
        with RawConnection(address) as connection:
            request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
            connection.send(request, 3, "busy")
            seen["busy"] = [connection.receive(ApiVersionsResponse, 3).throttle_time_ms]
        made: list[int] = []
        with RawConnection(address) as connection:
            for version, partitions in ((7, 21), (7, 1), (5, 1)):
                # Each on a connection of its own: the one before may be muted.
                with RawConnection(address) as other:
                    name = f"{topic}-{version}-{partitions}-{len(made)}"
                    response = create_topic(other, name, partitions, "maker", version)
                made.append(response.throttle_time_ms)
                made.append(response.topics[0].error_code)
        seen["mutations"] = made
    return seen


def _produce(address: str, topic: str, client_id: str, size: int) -> int:
    with RawConnection(address) as connection:
        request = produce_request(topic, batch_of(b"x" * size))
        connection.send(request, PRODUCE_VERSION, client_id)
        response = connection.receive(ProduceResponse, PRODUCE_VERSION)
        (answered,) = response.responses
        assert answered.partition_responses[0].error_code == ErrorCode.NONE
        return int(response.throttle_time_ms)


def _fetch(address: str, topic: str, client_id: str) -> int:
    with RawConnection(address) as connection:
        connection.send(fetch_request(topic, 0), FETCH_VERSION, client_id)
        return int(connection.receive(FetchResponse, FETCH_VERSION).throttle_time_ms)


# By how much the times of the same script may differ: of those that depend on the time between two requests.
NEAR_MS = 150


@pytest.mark.campaign
def test_throttle_times_are_kafkas(both: list[Contestant]) -> None:
    theirs, ours = (waits(each.address) for each in both)
    print(theirs, ours, sep="\n")
    assert ours.keys() == theirs.keys()
    # What a first burst has to wait follows from its size alone.
    assert ours["burst"] == theirs["burst"]
    assert ours["busy"] == theirs["busy"]
    for script in ("shared", "fetch", "mutations"):
        assert ours[script] == pytest.approx(theirs[script], abs=NEAR_MS), script


RATE_BYTES = 200_000
SECONDS = 25.0


@pytest.mark.campaign
def test_a_producer_gets_the_rate_that_it_gets_from_kafka(both: list[Contestant]) -> None:
    rates = {}
    for name, address in both:
        with RawConnection(address) as admin:
            topic = topic_of(admin)
            in_force(admin, {"client-id": "steady"}, producer_byte_rate=RATE_BYTES)
        producer = Producer(
            {
                "bootstrap.servers": address,
                "client.id": "steady",
                "queue.buffering.max.kbytes": 1024,
                "batch.size": 20_000,
                "delivery.timeout.ms": 300_000,
            }
        )
        sent = [0]

        def count(error: Any, message: Any, sent: list[int] = sent) -> None:
            assert error is None
            sent[0] += len(message.value())

        began = time.monotonic()
        while time.monotonic() - began < SECONDS:
            try:
                producer.produce(topic, b"x" * 5000, on_delivery=count)
            except BufferError:
                producer.poll(0.05)
            producer.poll(0)
        rates[name] = sent[0] / (time.monotonic() - began)
        producer.purge()
    print(rates)
    # The first window counts over ten whole ones, so that the first seconds are faster: on both.
    assert rates["ottla"] == pytest.approx(rates["kafka"], rel=0.15)
