"""The producers of partitions and the last batches of one, as the API of the console tells them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer
from tests.console.api_client import ApiClient
from tests.console.transactions.conftest import SECONDS, Cluster, write


def partition_of(api: ApiClient, topic: str, **query: Any) -> Any:
    """The first partition of the page, as soon as the console knows the topic."""
    api.soon("/api/producers", lambda page: page["total"], q=topic)
    return api.get("/api/producers", topic=topic, **query)["partitions"][0]


def test_a_partition_tells_its_producers_open_transactions_first(
    cluster: Cluster, api: ApiClient
) -> None:
    topic, name = cluster.topic("producers"), cluster.name("transactional")
    plain = Producer({"bootstrap.servers": cluster.servers, "enable.idempotence": True})
    with cluster.producer(name) as producer:
        producer.begin_transaction()
        write(producer, topic, b"1", b"2")
        write(plain, topic, b"3")
        place = partition_of(api, topic)
        opened, idempotent = place["producers"]
        assert opened["transactional_id"] == name
        assert (opened["activity"], opened["open_start_offset"]) == ("open", 0)
        assert (opened["last_sequence"], opened["is_hanging"]) == (1, False)
        assert opened["last_timestamp_ms"] > 0
        assert (idempotent["transactional_id"], idempotent["activity"]) == (None, "active")
        assert idempotent["open_start_offset"] is None
        producer.commit_transaction(SECONDS)
    page = api.get("/api/producers", topic=topic, partition=0)
    assert page["is_expiration_known"]
    assert page["expiration_ms"] == 86_400_000

    def ended(page: Any) -> bool:
        (row,) = (
            each for each in page["partitions"][0]["producers"] if each["transactional_id"] == name
        )
        return row["open_start_offset"] is None and row["coordinator_epoch"] is not None

    # Kafka's coordinator answers before it writes the markers.
    assert api.soon("/api/producers", ended, topic=topic, partition=0)


def test_only_the_partitions_of_the_page_are_asked(cluster: Cluster, api: ApiClient) -> None:
    topic = cluster.topic("many", 5)
    partition_of(api, topic)
    page = api.get("/api/producers", topic=topic, offset=1, limit=2)
    assert [each["partition"] for each in page["partitions"]] == [1, 2]
    assert (page["total"], page["next_offset"]) == (5, 3)
    last = api.get("/api/producers", q=topic, offset=3, limit=2)
    assert [each["partition"] for each in last["partitions"]] == [3, 4]
    assert last["next_offset"] is None


def test_a_producer_is_found_in_all_partitions(cluster: Cluster, api: ApiClient) -> None:
    topic, name = cluster.topic("found", 4), cluster.name("wanted")
    with cluster.producer(name) as producer:
        producer.begin_transaction()
        write(producer, topic, b"x", partition=3)
        partition_of(api, topic)
        (place,) = api.get("/api/producers", producer=name)["partitions"]
        assert (place["topic"], place["partition"]) == (topic, 3)
        (row,) = place["producers"]
        by_id = api.get("/api/producers", topic=topic, producer=str(row["producer_id"]))
        assert [each["partition"] for each in by_id["partitions"]] == [3]
        (place,) = api.get("/api/producers", topic=topic, state="open")["partitions"]
        assert place["partition"] == 3
        assert api.get("/api/producers", topic=topic, state="idle")["partitions"] == []


def test_the_last_batches_are_told_with_the_fate_of_their_transactions(
    cluster: Cluster, api: ApiClient
) -> None:
    topic = cluster.topic("batches")
    plain = Producer(
        {"bootstrap.servers": cluster.servers, "linger.ms": 100, "compression.type": "gzip"}
    )
    for _ in range(20):
        plain.produce(topic, b"many the same " * 10)
    assert plain.flush(SECONDS) == 0
    with cluster.producer(cluster.name("batches")) as producer:
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            write(producer, topic, b"in transaction")
            end(SECONDS)
        producer.begin_transaction()
        write(producer, topic, b"open")
        partition_of(api, topic)
        page = api.get("/api/producers/batches", topic=topic, partition=0)
        some = api.get("/api/producers/batches", topic=topic, partition=0, limit=2)
    shown = [
        (each["base_offset"], each["last_offset"], each["is_control"], each["outcome"])
        for each in page["batches"]
    ]
    assert shown == [
        (24, 24, False, "open"),
        (23, 23, True, "aborted"),
        (22, 22, False, "aborted"),
        (21, 21, True, "committed"),
        (20, 20, False, "committed"),
        (0, 19, False, None),
    ]
    first = page["batches"][-1]
    assert (first["codec"], first["record_count"], first["producer_id"]) == ("gzip", 20, None)
    second = page["batches"][-2]
    assert (second["base_sequence"], second["last_sequence"]) == (0, 0)
    assert second["size_bytes"] > 61
    assert (page["last_stable_offset"], page["end_offset"]) == (24, 25)
    assert [each["base_offset"] for each in some["batches"]] == [24, 23]


def test_an_empty_partition_has_no_batches(cluster: Cluster, api: ApiClient) -> None:
    topic = cluster.topic("empty")
    partition_of(api, topic)
    page = api.get("/api/producers/batches", topic=topic, partition=0)
    assert (page["batches"], page["end_offset"], page["is_limited"]) == ([], 0, False)


def test_what_does_not_exist_is_said(api: ApiClient) -> None:
    assert api.refused("GET", "/api/producers", topic="nowhere")[0] == 404
    assert api.refused("GET", "/api/producers/batches", topic="nowhere", partition=0)[0] == 404
    assert api.refused("GET", "/api/producers", partition=1)[0] == 400
    assert api.refused("GET", "/api/producers", limit=1000)[0] == 400
