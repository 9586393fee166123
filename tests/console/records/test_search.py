"""Searching the records of a topic by the console's API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.console.records.conftest import SECONDS, RecordCluster, RecordsApi, values, write


def spread(producer: Producer, topic: str, count: int, partitions: int, base_ms: int = 0) -> None:
    """Records r0, r1, … a second apart, each in the next partition."""
    for n in range(count):
        producer.produce(
            topic, f"r{n}", f"k{n}", partition=n % partitions, timestamp=base_ms + 1000 * (n + 1)
        )
    assert producer.flush(SECONDS) == 0


def test_the_newest_records_of_all_partitions_come_in_the_order_of_time(
    cluster: RecordCluster, api: RecordsApi
) -> None:
    topic = cluster.topic("merged", 3)
    spread(cluster.producer(), topic, 100, 3)
    rows, end = api.search(topic, limit=10)
    assert values(rows) == [f"r{n}" for n in range(99, 89, -1)]
    assert end["reason"] == "limit"
    more, _ = api.search(topic, limit=10, cursor=end["cursor"])
    assert values(more) == [f"r{n}" for n in range(89, 79, -1)]
    oldest, end = api.search(topic, limit=40, order="oldest")
    assert values(oldest) == [f"r{n}" for n in range(40)]
    rest, end = api.search(topic, limit=100, order="oldest", cursor=end["cursor"])
    assert values(rest) == [f"r{n}" for n in range(40, 100)]
    assert (end["reason"], end["cursor"], end["progress"]["share"]) == ("end", [], 1.0)


@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_timestamps_that_go_back_change_no_order_within_a_partition(
    cluster: RecordCluster, api: RecordsApi, order: str
) -> None:
    """Nothing is shown twice or left out by a search that goes on."""
    topic = cluster.topic("backwards", 2)
    producer = cluster.producer()
    for n in range(60):
        producer.produce(topic, f"r{n}", partition=n % 2, timestamp=1_000_000 - 7 * n % 500)
    assert producer.flush(SECONDS) == 0
    found: list[Any] = []
    cursor: list[str] = []
    while True:
        rows, end = api.search(topic, limit=7, order=order, cursor=cursor)
        found += rows
        assert len(found) <= 60, "it goes round"
        cursor = end["cursor"]
        if end["reason"] == "end":
            break
    for partition in (0, 1):
        offsets = [row["offset"] for row in found if row["partition"] == partition]
        assert offsets == sorted(range(30), reverse=order == "newest")


def test_a_busy_partition_does_not_hide_a_quiet_one(
    cluster: RecordCluster, api: RecordsApi
) -> None:
    topic = cluster.topic("uneven", 2)
    producer = cluster.producer()
    for n in range(300):
        producer.produce(topic, f"busy{n}", partition=0, timestamp=10_000 + n)
    for n in range(3):
        producer.produce(topic, f"quiet{n}", partition=1, timestamp=10_290 + n * 2)
    assert producer.flush(SECONDS) == 0
    rows, _ = api.search(topic, limit=13)
    found = values(rows)
    assert [each for each in found if each.startswith("quiet")] == ["quiet2", "quiet1", "quiet0"]
    assert found[0] == "busy299"
    assert [row["timestamp_ms"] for row in rows] == sorted(
        (row["timestamp_ms"] for row in rows), reverse=True
    )


def test_offsets_times_and_partitions_choose_a_range(
    cluster: RecordCluster, api: RecordsApi
) -> None:
    topic = cluster.topic("range", 2)
    spread(cluster.producer(), topic, 40, 2, base_ms=1_000_000)
    rows, _ = api.search(topic, order="oldest", from_offset=18, partition=[1])
    assert [(row["partition"], row["offset"]) for row in rows] == [(1, 18), (1, 19)]
    rows, _ = api.search(topic, since_ms=1_005_000, until_ms=1_008_000, order="oldest")
    assert values(rows) == ["r4", "r5", "r6"]
    rows, _ = api.search(topic, since_ms=9_000_000_000)
    assert rows == []
    rows, _ = api.search(topic, to_offset=1)
    assert values(rows) == ["r1", "r0"]
    status, text = api.refused("GET", f"/api/topics/{topic}/records/search", partition=7)
    assert (status, "has no partition 7" in text) == (404, True)


def test_filters_find_keys_values_headers_and_json(cluster: RecordCluster, api: RecordsApi) -> None:
    topic = cluster.topic("orders")
    producer = cluster.producer()
    for n in range(30):
        value = {
            "order": {"id": n, "note": None},
            "items": [{"sku": f"tea-{n % 3}"}],
            "paid": n < 5,
        }
        producer.produce(
            topic,
            json.dumps(value),
            f"o-{n}",
            partition=0,
            headers=[("trace.id", f"t{n}"), ("raw", b"\xff\xfe")] if n % 2 else [],
        )
    producer.produce(topic, None, "gone", partition=0)
    assert producer.flush(SECONDS) == 0

    def found(*filters: str) -> list[int]:
        rows, end = api.search(topic, filter=list(filters), order="oldest")
        assert end["progress"]["scanned_count"] == 31
        return [row["offset"] for row in rows]

    assert found("value.order.id = 7") == [7]
    assert found("key = o-17") == [17]
    assert found("key contains O-2") == [2, *range(20, 30)]
    assert found("value.paid = true", "value.order.id >= 3") == [3, 4]
    assert found("value.items[*].sku = tea-2", "key matches ^o-1[0-9]$") == [11, 14, 17]
    assert found("header.trace.id = t5") == [5]
    assert found("header.raw exists", 'key = "o-9"') == [9]
    assert found("value = null") == [30]
    assert found("gone") == [30]
    assert found("T21") == [21]
    assert found("value.order.note exists", "value.order.id < 2") == [0, 1]


def test_a_filter_that_makes_no_sense_says_so(cluster: RecordCluster, api: RecordsApi) -> None:
    topic = cluster.topic("wrong")
    for wrong, part in {
        "value matches (": "regular expression",
        "value.a ? 1": "after value.a comes",
        "value.a < x": "compares numbers",
        'key = "x': "has no end",
    }.items():
        status, text = api.refused("GET", f"/api/topics/{topic}/records/search", filter=wrong)
        assert status == 400
        assert part in text, text
    assert api.refused("GET", "/api/topics/nowhere/records/search")[0] == 404
    assert api.refused("GET", f"/api/topics/{topic}/records/search", limit=0)[0] == 400
    for path in ("search", "export"):
        for name in ("since_ms", "until_ms"):
            for number in (-1, -(1 << 63), 1 << 63):
                status, text = api.refused(
                    "GET", f"/api/topics/{topic}/records/{path}", **{name: number}
                )
                assert (status, f"{name} is no time" in text) == (400, True), text


def test_each_bound_ends_a_search_that_can_go_on(cluster: RecordCluster, api: RecordsApi) -> None:
    topic = cluster.topic("bounds", 2)
    producer = cluster.producer()
    for n in range(4000):
        producer.produce(topic, b"x" * 100 + str(n).encode(), partition=n % 2, timestamp=n + 1)
    assert producer.flush(SECONDS) == 0
    query: dict[str, Any] = {"filter": "value matches x(0|3999)$", "limit": 5}
    for bound in ({"max_records": 900}, {"max_bytes": 60_000}):
        rows, end = api.search(topic, **query, **bound)
        assert end["reason"] == next(iter(bound)).removeprefix("max_")
        assert values(rows) == ["x" * 100 + "3999"]
        assert 0 < end["progress"]["share"] < 1
        rows, end = api.search(topic, **query, cursor=end["cursor"])
        assert values(rows) == ["x" * 100 + "0"]
        assert end["reason"] == "end"
    _, end = api.search(topic, max_seconds=0.000001)
    assert end["reason"] == "seconds"


def test_records_of_transactions_are_marked(cluster: RecordCluster, api: RecordsApi) -> None:
    topic = cluster.topic("marked")
    with cluster.transactional() as producer:
        write(producer, topic, "committed")
        producer.commit_transaction(SECONDS)
        producer.begin_transaction()
        write(producer, topic, "aborted")
        producer.abort_transaction(SECONDS)
        producer.begin_transaction()
        write(producer, topic, "open")
        write(cluster.producer(), topic, "behind")

        def marks(**query: Any) -> list[tuple[str, str | None]]:
            rows, _ = api.search(topic, order="oldest", **query)
            return [
                (row["control"]["outcome"] if row["control"] else row["value"]["text"], row["mark"])
                for row in rows
            ]

        assert marks() == [("committed", None)]
        assert marks(aborted=True, control=True) == [
            ("committed", None),
            ("commit", "control"),
            ("aborted", "aborted"),
            ("abort", "control"),
        ]
        assert marks(isolation="uncommitted") == [
            ("committed", None),
            ("aborted", "aborted"),
            ("open", "unstable"),
            ("behind", "unstable"),
        ]
        aborted = api.record(topic, 2)
        assert (aborted["mark"], aborted["batch"]["is_transactional"]) == ("aborted", True)
        marker = api.record(topic, 3)
        assert (marker["control"]["outcome"], marker["batch"]["is_control"]) == ("abort", True)
        opened = api.record(topic, 4)
        assert (opened["mark"], opened["stable_offset"], opened["end_offset"]) == ("unstable", 4, 6)
        (place,) = api.get(f"/api/topics/{topic}/records")["partitions"]
        assert (place["start_offset"], place["stable_offset"], place["end_offset"]) == (0, 4, 6)
        producer.abort_transaction(SECONDS)


def test_a_search_over_compressed_batches_of_every_codec(
    cluster: RecordCluster, api: RecordsApi
) -> None:
    topic = cluster.topic("codecs")
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for codec in codecs:
        producer = cluster.producer(compression_type=codec, linger_ms=50)
        for n in range(20):
            producer.produce(topic, f"{codec} {n} " + "a" * 200, partition=0)
        assert producer.flush(SECONDS) == 0
    rows, _ = api.search(topic, limit=200, order="oldest")
    assert [each.split("a" * 9)[0].strip() for each in values(rows)] == [
        f"{codec} {n}" for codec in codecs for n in range(20)
    ]
    assert {api.record(topic, n * 20)["batch"]["codec"] for n in range(5)} == set(codecs)
