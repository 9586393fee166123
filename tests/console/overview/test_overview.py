"""The overview's API: what it tells of a cluster that works, and of one in which something is wrong."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Producer
from tests.console.api_client import ApiClient, looking
from tests.console.serving import serving
from tests.console.transactions.conftest import Cluster, api, cluster, kafka_jars
from tests.lasting import LASTING

import ottla

__all__ = ["api", "cluster", "kafka_jars"]

SECONDS = 20


def named(answer: dict[str, Any], kind: str, name: str | None) -> dict[str, Any] | None:
    """The worry of a kind about something."""
    found = [each for each in answer["attention"] if (each["kind"], each["name"]) == (kind, name)]
    return found[0] if found else None


def test_it_tells_what_there_is_and_how_much_goes_through(cluster: Cluster, api: ApiClient) -> None:
    topic = cluster.topic("busy", 2)
    before = api.get("/api/overview")
    producer = Producer({"bootstrap.servers": cluster.servers, "log_level": 0})

    def is_written(answer: dict[str, Any]) -> dict[str, Any] | None:
        producer.produce(topic, b"x" * 100, partition=answer["version"] % 2)
        producer.flush(SECONDS)
        return next((each for each in answer["busiest_topics"] if each["name"] == topic), None)

    busy = api.soon("/api/overview", is_written)
    assert busy["records_per_second"] > 0
    answer = api.get("/api/overview")
    assert answer["cluster_id"] == before["cluster_id"]
    assert answer["version"] > before["version"]
    assert answer["is_whole"] is True
    assert answer["totals"]["topic_count"] >= 1
    assert answer["totals"]["partition_count"] >= 2
    (broker,) = answer["brokers"]
    assert broker["is_controller"]
    assert broker["leader_count"] == answer["totals"]["partition_count"]
    assert [each["error"] for each in broker["log_dirs"]] == [None]
    assert answer["attention_counts"]["bad"] == 0
    # Neither cluster has an address of internals here: that is no problem, and no wrong zero.
    assert answer["internals"] == {"is_offered": False, "problem": None, "now": None}
    told = {each["part"]: each for each in answer["parts"]}
    assert {"brokers", "topics", "end offsets", "groups"} <= told.keys()
    assert all(each["problem"] is None for each in told.values())


def test_rates_and_lag_become_a_history_without_what_the_cluster_does_not_tell(
    cluster: Cluster, api: ApiClient
) -> None:
    topic = cluster.topic("charted")
    producer = Producer({"bootstrap.servers": cluster.servers, "log_level": 0})

    def is_charted(answer: dict[str, Any]) -> bool:
        producer.produce(topic, b"1")
        producer.flush(SECONDS)
        return any(each for each in answer["values"]["records_per_second"])

    api.soon("/api/overview/history", is_charted)
    for span, span_ms in (("recent", 900_000), ("long", 21_600_000)):
        answer = api.get("/api/overview/history", span=span)
        assert answer["span_ms"] == span_ms
        assert all(len(each) == len(answer["times_ms"]) for each in answer["values"].values())
        assert any(each is not None for each in answer["values"]["round_trip_ms"])
        assert set(answer["values"]["request_p99_ms"]) == {None}
    assert api.refused("GET", "/api/overview/history", span="day")[0] == 400


def test_a_group_that_nobody_runs_is_among_the_latest(cluster: Cluster, api: ApiClient) -> None:
    topic, group = cluster.topic("left"), cluster.name("left-behind")
    producer = Producer({"bootstrap.servers": cluster.servers, "log_level": 0})
    for _ in range(20):
        producer.produce(topic, b"1")
    producer.flush(SECONDS)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    while (first := consumer.poll(SECONDS)) is None:
        pass
    consumer.commit(message=first, asynchronous=False)
    consumer.close()
    late = api.soon(
        "/api/overview",
        lambda answer: next(
            (
                each
                for each in answer["latest_groups"]
                if (each["group_id"], each["state"]) == (group, "Empty")
            ),
            None,
        ),
    )
    assert late["lag"] == 19
    assert api.get("/api/overview")["totals"]["lag"] >= 19


def test_a_hanging_transaction_needs_attention(cluster: Cluster, api: ApiClient) -> None:
    topic = cluster.topic("hangs")
    producer_id = cluster.hang(topic)
    title = f"A transaction of producer {producer_id} hangs on {topic}-0"
    found = api.soon(
        "/api/overview",
        lambda answer: next((each for each in answer["attention"] if each["title"] == title), None),
    )
    assert (found["severity"], found["place"]) == ("bad", "transactions")
    assert found["since_ms"] > 0


def test_an_ottla_broker_also_tells_latency_and_errors() -> None:
    with (
        ottla.Broker(LASTING, metrics="127.0.0.1:0") as broker,
        serving(
            broker.bootstrap_servers,
            internals_url=broker.metrics_url.removesuffix("/metrics"),
        ) as console,
        looking(console.url) as api,
    ):
        now = api.soon("/api/overview", lambda answer: answer["internals"]["now"])
        assert now["requests_per_second"] > 0
        assert now["connections"] >= 1
        api.soon(
            "/api/overview/history",
            lambda answer: any(
                each is not None for each in answer["values"]["requests_per_second"]
            ),
        )
