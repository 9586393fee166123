"""A broker under test that serves as an older release of Kafka."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import confluent_kafka
import pytest
from benchmarks.kafka_jars import KAFKA_CLIENT_VERSION
from tests import maven
from tests.broker.test_api_versions import ask, ranges
from tests.client.apache_kafka.old_kafka import RELEASES as OLD_RELEASES
from tests.client.apache_kafka.old_kafka import Release, running_release

import ottla
from ottla.broker.requests.apis import SERVED
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.testing import Broker
from ottla.testing.kafka_releases import RELEASES
from ottla.wire.compile import decode_message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

PRODUCE, FETCH, JOIN_GROUP, API_VERSIONS, END_TXN, LIST_TRANSACTIONS = 0, 1, 11, 18, 26, 66
TXN_OFFSET_COMMIT = 28
SECONDS = 20.0
# The client of the newest of these releases.
NEWEST = KAFKA_CLIENT_VERSION
# By Kafka's definitions of messages at the tags of these releases.
KNOWN = {
    "2.8": {PRODUCE: 9, FETCH: 12, JOIN_GROUP: 7, API_VERSIONS: 3, END_TXN: 3},
    "3.0": {PRODUCE: 9, FETCH: 12, JOIN_GROUP: 7, API_VERSIONS: 3, LIST_TRANSACTIONS: 0},
    "3.3": {PRODUCE: 9, FETCH: 13, JOIN_GROUP: 9, API_VERSIONS: 3, END_TXN: 3},
    "3.6": {PRODUCE: 9, FETCH: 15, JOIN_GROUP: 9, API_VERSIONS: 3, END_TXN: 3},
    "3.9": {PRODUCE: 11, FETCH: 17, API_VERSIONS: 4, END_TXN: 4, LIST_TRANSACTIONS: 1},
    "4.0": {PRODUCE: 12, FETCH: 17, API_VERSIONS: 4, END_TXN: 5, LIST_TRANSACTIONS: 1},
    "4.1": {PRODUCE: 13, FETCH: 18, API_VERSIONS: 4, END_TXN: 5, LIST_TRANSACTIONS: 2},
    "4.2": {PRODUCE: 13, FETCH: 18, API_VERSIONS: 4, END_TXN: 5, TXN_OFFSET_COMMIT: 5},
    "4.3": {PRODUCE: 13, FETCH: 18, API_VERSIONS: 4, END_TXN: 5, TXN_OFFSET_COMMIT: 5},
    "4.4": {PRODUCE: 13, FETCH: 18, API_VERSIONS: 5, END_TXN: 5, TXN_OFFSET_COMMIT: 6},
}


@pytest.mark.parametrize("release", RELEASES)
def test_a_broker_advertises_what_the_release_does(release: str) -> None:
    with (
        Broker(as_version=release) as broker,
        RawConnection(broker.bootstrap_servers) as connection,
    ):
        answer = ask(connection, 3)
        found = ranges(answer)
    assert {key: found[key][1] for key in KNOWN[release]} == KNOWN[release]
    assert (LIST_TRANSACTIONS in found) == (release != "2.8")
    features = [feature.name for feature in answer.finalized_features]
    expected = ["group.version", "metadata.version", "transaction.version"]
    assert features == (expected if release >= "4.0" else [])
    assert answer.finalized_features_epoch == (0 if features else -1)
    for key, (first, last) in found.items():
        assert first == SERVED[key].first_advertised
        assert first <= last <= SERVED[key].last_version


def test_the_newest_release_is_what_kafkas_definitions_say(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    shared = tmp_path_factory.getbasetemp().parent
    jars = maven.kafka_client(shared, NEWEST)
    newest = newest_versions(jars / f"kafka-clients-{NEWEST}.jar")
    with (
        Broker(as_version=NEWEST.rpartition(".")[0]) as broker,
        RawConnection(broker.bootstrap_servers) as connection,
    ):
        found = ranges(ask(connection, 3))
    assert {key: last for key, (_, last) in found.items()} == {
        key: newest[key]
        for key, api in SERVED.items()
        if newest.get(key, -1) >= 0 and not api.needs_metrics_page
    }


def newest_versions(jar: Path) -> dict[int, int]:
    """The newest stable version of each API, by its key."""
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"common/message/\w+Request\.json", name):
                text = archive.read(name).decode()
                key = re.search(r'"apiKey": (\d+)', text)
                valid = re.search(r'"validVersions": "(?:\d+-)?(\d+)"', text)
                if key is not None and valid is not None:
                    is_unstable = re.search(r'"latestVersionUnstable": true', text) is not None
                    found[int(key[1])] = int(valid[1]) - is_unstable
    return found


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "release",
    [each for each in OLD_RELEASES if each.text.rpartition(".")[0] in RELEASES],
    ids=lambda release: release.text,
)
def test_a_broker_advertises_what_a_running_kafka_does(
    release: Release, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jars = release.jars(tmp_path_factory.getbasetemp().parent)
    with (
        running_release(release, jars, tmp_path_factory.mktemp("kafka")) as address,
        RawConnection(address) as connection,
    ):
        real = ask(connection, 3)
    with (
        Broker(as_version=release.text.rpartition(".")[0]) as broker,
        RawConnection(broker.bootstrap_servers) as connection,
    ):
        found = ask(connection, 3)
    newest = {key: last for key, (_, last) in ranges(real).items() if key in SERVED}
    assert {key: last for key, (_, last) in ranges(found).items()} == newest
    assert "transaction.version" not in [feature.name for feature in real.finalized_features]


def test_newer_requests_are_refused() -> None:
    with Broker(as_version="2.8") as broker:
        for request, response, version in (
            (FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), FetchResponse, 13),
            (
                ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
                ListTransactionsResponse,
                0,
            ),
        ):
            with (
                RawConnection(broker.bootstrap_servers) as connection,
                pytest.raises(ConnectionError),
            ):
                connection.call(request, response, version)
        with RawConnection(broker.bootstrap_servers) as connection:
            # As Kafka does, at version 0: the client learns what it may ask.
            versions = ApiVersionsRequest(client_software_name="x", client_software_version="1")
            connection.send(versions, 4)
            answer = decode_message(ApiVersionsResponse, 0, connection.receive_frame(), 4)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert ranges(answer)[API_VERSIONS] == (0, 3)
            assert ask(connection, 3).error_code == ErrorCode.NONE


@pytest.mark.parametrize("release", ["2.8", "3.6", "4.0"])
def test_clients_work_with_older_releases(release: str) -> None:
    """Also with transactions, whose protocol is another one before 4.0, and across nodes."""
    with Broker(as_version=release, nodes=2) as broker:
        for number, transactional_id in enumerate(("till", "shop"), 1):
            with ottla.Producer(
                bootstrap_servers=broker.bootstrap_servers, transactional_id=transactional_id
            ) as producer:
                producer.init_transactions()
                for _ in range(2):
                    producer.begin_transaction()
                    producer.send("orders", b"%d" % number).result(SECONDS)
                    producer.commit_transaction()
        foreign = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "foreign"}
        )
        foreign.init_transactions(SECONDS)
        foreign.begin_transaction()
        foreign.produce("orders", b"3")
        foreign.commit_transaction(SECONDS)
        with ottla.Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            consumer.subscribe(["orders"])
            values: list[bytes | None] = []
            while len(values) < 5:
                values += [record.value for record in consumer.poll(1.0)]
            consumer.commit()
        assert sorted(filter(None, values)) == [b"1", b"1", b"2", b"2", b"3"]
        broker.wait_lag_zero("billing")
        newest = max(request.version for request in broker.requests("EndTxn"))
        assert newest == {"2.8": 3, "3.6": 3, "4.0": 5}[release]


def test_unknown_releases_are_refused() -> None:
    for unknown in ("3.7", "3.6.0", "", 3.6):
        with pytest.raises(
            ottla.ConfigError, match=r"there are 2\.8, 3\.0, 3\.3, 3\.6, 3\.9, 4\.0"
        ):
            Broker(as_version=unknown)  # type: ignore[arg-type]


def test_a_fault_for_an_api_that_the_release_lacks_is_refused() -> None:
    broker = Broker(as_version="2.8")
    with pytest.raises(ottla.ConfigError, match="ListTransactions can never match"):
        broker.faults.add("ListTransactions", drop="after")
    with pytest.raises(ottla.ConfigError, match="ListTransactions can never match"):
        broker.faults.script("ListTransactions", ["lost answer"])


@pytest.mark.ottla_broker(as_version="3.6")
def test_a_mark_chooses_the_release(ottla_test_broker: Broker) -> None:
    with RawConnection(ottla_test_broker.bootstrap_servers) as connection:
        assert ranges(ask(connection, 3))[FETCH][1] == 15


def test_what_the_release_lacks_is_an_error_of_the_client() -> None:
    with Broker(as_version="2.8") as broker, pytest.raises(ottla.KafkaError) as raised:
        broker.transactions()
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
