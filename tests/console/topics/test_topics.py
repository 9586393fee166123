"""Topics as the API of the console tells them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.console.api_client import ApiClient
from tests.console.transactions.conftest import SECONDS, Cluster, write

import ottla


def row_of(api: ApiClient, name: str, **expected: Any) -> dict[str, Any]:
    """The row of a topic in the list, as soon as it has these values."""

    def find(page: Any) -> dict[str, Any] | None:
        for row in page["rows"]:
            if row["name"] == name and expected.items() <= row.items():
                return dict(row)
        return None

    return api.soon("/api/topics", find, q=name)


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    """Commit an offset with librdkafka."""
    consumer = Consumer({"bootstrap.servers": cluster.servers, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_a_topic_is_listed_with_its_records_groups_and_lag(
    cluster: Cluster, api: ApiClient
) -> None:
    topic, group = cluster.topic("listed", 2), cluster.name("reader")
    with ottla.Producer(bootstrap_servers=cluster.servers) as producer:
        for n in range(5):
            producer.send(topic, b"%d" % n, partition=0).result(SECONDS)
    commit(cluster, group, topic, 2)
    row = row_of(api, topic, record_count=5, lag=3)
    assert (row["partition_count"], row["replication_factor"], row["group_count"]) == (2, 1, 1)
    assert row["size_bytes"] > 0
    assert row["problems"] == []
    detail = api.get(f"/api/topics/{topic}")
    assert [detail[each] for each in ("record_count", "lag", "group_count")] == [5, 3, 1]
    assert detail["leaders"] == [{"broker_id": 1, "partition_count": 2}]
    places = api.get(f"/api/topics/{topic}/partitions", sort="records", order="desc")
    assert [(each["partition"], each["record_count"]) for each in places["rows"]] == [
        (0, 5),
        (1, 0),
    ]
    assert places["rows"][0]["groups"] == [
        {"group_id": group, "committed_offset": 2, "position": "behind"}
    ]
    assert set(api.get(f"/api/topics/{topic}/history")["values"]) == {
        "records_per_second",
        "bytes_per_second",
        "lag",
    }


def test_a_partition_tells_which_transactions_hold_its_last_stable_offset(
    cluster: Cluster, api: ApiClient
) -> None:
    topic, first, second = cluster.topic("why", 2), cluster.name("first"), cluster.name("second")
    group = cluster.name("waiting")
    with (
        cluster.producer(first, transaction_timeout_ms=600_000) as one,
        cluster.producer(second) as other,
    ):
        for producer, value in ((one, b"1"), (other, b"2")):
            producer.begin_transaction()
            write(producer, topic, value)
        commit(cluster, group, topic, 0)
        row_of(api, topic, unstable_count=2)

        def held(page: Any) -> Any:
            rows = page["rows"]
            is_known = rows and len(rows[0]["transactions"]) == 2
            has_times = is_known and all(each["started_at_ms"] for each in rows[0]["transactions"])
            return rows[0] if has_times and rows[0]["group_count"] else None

        place = api.soon(f"/api/topics/{topic}/partitions", held, show="held")
        assert place["partition"] == 0
        offsets = ("start_offset", "last_stable_offset", "end_offset", "unstable_count")
        assert [place[each] for each in offsets] == [0, 0, 2, 2]
        assert place["standing_since_ms"] > 0
        assert place["groups"][0]["position"] == "waiting"
        holder, behind = place["transactions"]
        assert [holder["transactional_id"], behind["transactional_id"]] == [first, second]
        assert [holder["start_offset"], behind["start_offset"]] == [0, 1]
        assert holder["holds_last_stable_offset"]
        assert not behind["holds_last_stable_offset"]
        assert holder["timeout_ms"] == 600_000
        assert holder["coordinator_id"] == 1
        assert not holder["is_hanging"]
        described = api.get("/api/transaction", id=first)
        for each in ("producer_id", "producer_epoch", "started_at_ms"):
            assert holder[each] == described[each]
        page = api.get("/api/topics", q=topic, show="held")
        assert [row["held_partition_count"] for row in page["rows"]] == [1]
        assert page["counts"]["held"] == 1
    row_of(api, topic, held_partition_count=0, held_since_ms=None)


def test_a_transaction_that_no_coordinator_knows_is_a_problem_of_the_topic(
    cluster: Cluster, api: ApiClient
) -> None:
    topic = cluster.topic("hanging")
    producer_id = cluster.hang(topic)
    row = api.soon(
        "/api/topics", lambda page: page["rows"] and page["rows"][0], q=topic, show="problems"
    )
    assert [(each["kind"], each["is_severe"]) for each in row["problems"]] == [
        ("hanging transaction", True)
    ]
    (place,) = api.get(f"/api/topics/{topic}/partitions", show="held")["rows"]
    (holder,) = place["transactions"]
    assert (holder["producer_id"], holder["is_hanging"]) == (producer_id, True)
    assert holder["transactional_id"] is None


def test_pages_are_cut_by_the_server_and_internal_topics_are_switched_on(
    cluster: Cluster, api: ApiClient
) -> None:
    prefix = cluster.name("paged")
    topics = [cluster.topic(prefix) for _ in range(3)]
    api.soon("/api/topics", lambda page: page["total"] == 3, q=prefix)
    page = api.get("/api/topics", q=prefix, sort="name", order="desc", offset=1, limit=1)
    assert page["total"] == 3
    assert [row["name"] for row in page["rows"]] == [sorted(topics)[1]]
    commit(cluster, cluster.name("any"), topics[0], 0)
    api.soon(
        "/api/topics", lambda page: page["total"] == 1, q="__consumer_offsets", internal="true"
    )
    assert api.get("/api/topics", q="__consumer_offsets")["total"] == 0


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/topics", {"limit": 0}),
        ("/api/topics", {"limit": 501}),
        ("/api/topics", {"offset": -1}),
        ("/api/topics", {"sort": "colour"}),
        ("/api/topics", {"show": "all of them"}),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(
    api: ApiClient, path: str, query: dict[str, Any]
) -> None:
    status, text = api.refused("GET", path, **query)
    assert (status, bool(text)) == (400, True)


def test_a_topic_that_does_not_exist_is_not_found(api: ApiClient) -> None:
    for path in ("", "/partitions", "/history"):
        status, text = api.refused("GET", f"/api/topics/nobody-made-it{path}")
        assert status == 404
        assert "no topic 'nobody-made-it'" in text


def test_markers_do_not_count_as_records_that_a_group_has_yet_to_read(
    cluster: Cluster, api: ApiClient
) -> None:
    topic, name, group = cluster.topic("marked"), cluster.name("writer"), cluster.name("reader")
    with cluster.producer(name) as producer:
        for n in range(3):
            producer.begin_transaction()
            write(producer, topic, b"%d" % n)
            producer.commit_transaction(SECONDS)
    # Three records and three markers; all records but the last one are read.
    commit(cluster, group, topic, 3)
    row_of(api, topic, lag=3)

    def counted(page: Any) -> Any:
        rows = page["rows"]
        return rows[0] if rows and rows[0]["is_counted"] else None

    row = api.soon(f"/api/topics/{topic}/groups", counted)
    assert (row["group_id"], row["lag"], row["record_lag"]) == (group, 3, 1)
    assert (row["partition_count"], row["lagging_count"], row["state"]) == (1, 1, "Empty")
    assert row["first_at_ms"] > 0
    commit(cluster, group, topic, 5)
    row_of(api, topic, lag=1)
    row = api.soon(
        f"/api/topics/{topic}/groups", lambda page: page["rows"][0]["record_lag"] == 0 and page
    )["rows"][0]
    assert (row["lag"], row["record_lag"]) == (1, 0), "only a marker is left"
    found = api.get(f"/api/topics/{topic}/groups", q="no such group")
    assert (found["total"], found["rows"], found["lag"]) == (0, [], 0)


def test_a_group_waits_where_a_transaction_holds_it_up_and_has_lost_what_was_deleted(
    cluster: Cluster, api: ApiClient
) -> None:
    topic, group = cluster.topic("waits", 2), cluster.name("reader")
    with (
        ottla.Producer(bootstrap_servers=cluster.servers) as plain,
        ottla.Admin(bootstrap_servers=cluster.servers) as admin,
        cluster.producer(cluster.name("holder")) as producer,
    ):
        for n in range(3):
            plain.send(topic, b"%d" % n, partition=1).result(SECONDS)
        admin.alter_consumer_group_offsets(group, {(topic, 0): 0, (topic, 1): 1})
        admin.delete_records({(topic, 1): 2})
        producer.begin_transaction()
        write(producer, topic, b"held")

        def waits(page: Any) -> bool:
            rows = page["rows"]
            return bool(rows) and (rows[0]["waiting_count"], rows[0]["lost_count"]) == (1, 1)

        row_of(api, topic, unstable_count=1)
        api.soon(f"/api/topics/{topic}/groups", waits)
