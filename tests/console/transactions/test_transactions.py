"""The transactions of a cluster, as the API of the console tells them."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import KafkaException
from tests.console.api_client import ApiClient
from tests.console.serving import serving
from tests.console.transactions.conftest import SECONDS, Cluster, write

import ottla

HOUR_MS = 3_600_000


def row_of(api: ApiClient, name: str, **expected: Any) -> dict[str, Any]:
    """The row of a transactional id, as soon as it has these values."""

    def find(answer: Any) -> dict[str, Any] | None:
        for row in answer["rows"]:
            if row["transactional_id"] == name and expected.items() <= row.items():
                return dict(row)
        return None

    return api.soon("/api/transactions", find, q=name)


def test_an_open_transaction_shows_what_it_holds_up(cluster: Cluster, api: ApiClient) -> None:
    topic, name, group = cluster.topic("held", 2), cluster.name("holder"), cluster.name("group")
    with (
        cluster.producer(name, transaction_timeout_ms=600_000) as producer,
        cluster.producer(cluster.name("other")) as other,
    ):
        producer.begin_transaction()
        write(producer, topic, b"first")
        other.begin_transaction()
        write(other, topic, b"behind it")
        other.commit_transaction(SECONDS)
        commit(cluster, group, topic, 0)
        row = row_of(api, name, state="Ongoing", held_partition_count=1)
        assert row["is_open"]
        assert row["topics"] == [topic]
        assert row["timeout_ms"] == 600_000
        # The record, the one behind it, and the marker of that.
        assert row["held_count"] == 3
        assert row["waiting_groups"] == [group]
        detail = api.get("/api/transaction", id=name)
        (place,) = detail["partitions"]
        assert (place["topic"], place["partition"]) == (topic, 0)
        assert place["is_held"]
        offsets = ("start_offset", "last_stable_offset", "end_offset", "unseen_count")
        assert [place[each] for each in offsets] == [0, 0, 3, 3]
        assert place["groups"] == [
            {"group_id": group, "committed_offset": 0, "position": "waiting"}
        ]
        assert detail["producer_id"] == row["producer_id"]
        assert detail["problems"] == []
    # It was aborted when it was closed.
    ended = row_of(api, name, is_open=False, aborted_count=1)
    assert ended["held_count"] is None


def test_a_transaction_behind_another_one_holds_nothing_yet(
    cluster: Cluster, api: ApiClient
) -> None:
    topic, first, second = cluster.topic("row"), cluster.name("first"), cluster.name("second")
    with cluster.producer(first) as one, cluster.producer(second) as other:
        one.begin_transaction()
        write(one, topic, b"1")
        other.begin_transaction()
        write(other, topic, b"2", b"3")
        held = row_of(api, first, held_partition_count=1)
        # When it ends, the second one holds the rest.
        assert held["held_count"] == 1
        (place,) = api.get("/api/transaction", id=first)["partitions"]
        assert place["next_stable_offset"] == 1
        assert place["next_producer_id"] == row_of(api, second)["producer_id"]
        (place,) = api.get("/api/transaction", id=second)["partitions"]
        assert (place["start_offset"], place["is_held"], place["freed_count"]) == (1, False, 0)


def test_open_transactions_come_first_and_the_oldest_before_all(
    cluster: Cluster, api: ApiClient
) -> None:
    topic, prefix = cluster.topic("order"), cluster.name("order")
    with (
        cluster.producer(f"{prefix}-done") as done,
        cluster.producer(f"{prefix}-young") as young,
        cluster.producer(f"{prefix}-old") as old,
    ):
        done.begin_transaction()
        write(done, topic, b"done")
        done.commit_transaction(SECONDS)
        for producer in (old, young):
            producer.begin_transaction()
            write(producer, topic, b"open")
        wanted = [f"{prefix}-old", f"{prefix}-young", f"{prefix}-done"]
        api.soon(
            "/api/transactions",
            lambda page: (
                [row["transactional_id"] for row in page["rows"]] == wanted
                and all(row["is_open"] for row in page["rows"][:2])
            ),
            q=prefix,
        )
        page = api.get("/api/transactions", q=prefix, state="open", offset=1, limit=1)
        assert page["total"] == 2
        assert [row["transactional_id"] for row in page["rows"]] == [f"{prefix}-young"]
        api.soon(
            "/api/transactions",
            lambda page: {row["transactional_id"] for row in page["rows"]} == set(wanted[:2]),
            topic=topic,
        )
        by_id = api.get("/api/transactions", q=prefix, sort="transactional_id", order="desc")
        assert [row["transactional_id"] for row in by_id["rows"]] == sorted(wanted, reverse=True)


def test_what_ends_is_counted_and_the_newest_are_listed(cluster: Cluster, api: ApiClient) -> None:
    topic, name = cluster.topic("ended"), cluster.name("ending")
    with cluster.producer(name) as producer:
        for end in (producer.commit_transaction, producer.commit_transaction):
            producer.begin_transaction()
            write(producer, topic, b"x")
            end(SECONDS)
        producer.begin_transaction()
        write(producer, topic, b"x")
        producer.abort_transaction(SECONDS)
    row = row_of(api, name, committed_count=2, aborted_count=1)
    assert row["ended_at_ms"] > 0
    page = api.get("/api/transactions/ended", q=name)
    assert [each["outcome"] for each in page["rows"]] == ["aborted", "committed", "committed"]
    for each in page["rows"]:
        assert each["topics"] == [topic]
        assert each["duration_ms"] >= 0
        assert not each["has_timed_out"]
    assert page["journal"]["source"] == "log"
    assert sum(page["rates"]["committed"]) == page["committed_count"] >= 2
    assert sum(page["rates"]["aborted"]) == page["aborted_count"] >= 1
    assert len(page["rates"]["at_ms"]) == len(page["rates"]["committed"])
    aborted = api.get("/api/transactions/ended", q=name, outcome="aborted")
    assert aborted["total"] == 1


def test_the_history_of_an_id_is_read_from_its_log(cluster: Cluster, api: ApiClient) -> None:
    topic, name = cluster.topic("history"), cluster.name("history")
    with cluster.producer(name) as producer:
        producer.begin_transaction()
        write(producer, topic, b"x")
        producer.commit_transaction(SECONDS)
        row_of(api, name, committed_count=1)
        history = api.get("/api/transaction/history", id=name)
    states = [each["state"] for each in history["changes"]]
    assert states == ["CompleteCommit", "PrepareCommit", "Ongoing", "Empty"]
    assert history["changes"][1]["partitions"] == [f"{topic}-0"]
    assert history["is_to_end"]
    assert api.get("/api/transaction/history", id="nobody")["changes"] == []


def test_a_known_transaction_is_aborted_by_fencing_its_producer(
    cluster: Cluster, api: ApiClient
) -> None:
    topic, name, group = cluster.topic("abort"), cluster.name("slow"), cluster.name("group")
    with cluster.producer(name) as producer, cluster.producer(cluster.name("other")) as other:
        producer.begin_transaction()
        write(producer, topic, b"never seen")
        other.begin_transaction()
        write(other, topic, b"seen")
        other.commit_transaction(SECONDS)
        commit(cluster, group, topic, 0)
        row_of(api, name, held_partition_count=1, waiting_groups=[group])
        preview = api.post("/api/transaction/abort", transactional_id=name)
        plan = preview["plan"]
        assert preview["done"] is None
        assert (plan["way"], plan["groups"], plan["freed_count"]) == ("fence", [group], 3)
        text = " ".join(plan["steps"])
        assert f"InitProducerId for {name}" in text
        assert f"producer id {plan['producer_id']}, epoch {plan['producer_epoch']}" in text
        assert f"The last stable offset of {topic}-0 moves from 0" in text
        assert (plan["lost"]["record_count"], plan["lost"]["is_whole"]) == (1, True)
        assert "never see the 1 record that the transaction wrote" in text
        summary = api.get("/api/transactions/summary")
        assert group in summary["waiting_groups"]
        assert summary["oldest_started_at_ms"] <= plan["started_at_ms"]
        # A preview does nothing.
        assert row_of(api, name)["state"] == "Ongoing"
        seen = {each: plan[each] for each in ("producer_id", "producer_epoch", "started_at_ms")}
        for wrong in ({}, {**seen, "producer_epoch": 99}, {**seen, "started_at_ms": 1}):
            status, text = api.refused(
                "POST", "/api/transaction/abort", transactional_id=name, preview=False, **wrong
            )
            assert (status, "nothing was done" in text) == (409, True)
        done = api.post("/api/transaction/abort", transactional_id=name, preview=False, **seen)
        assert f"the transaction of {name} is aborted" in done["done"]
        row_of(api, name, is_open=False)
        assert cluster.committed_values(topic, 1) == [b"seen"]
        with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
            producer.commit_transaction(SECONDS)
    status, text = api.refused("POST", "/api/transaction/abort", transactional_id=name)
    assert status == 409
    assert f"no transaction of {name} is open" in text


def test_a_hanging_transaction_is_found_and_aborted_on_its_partition(
    cluster: Cluster, api: ApiClient
) -> None:
    topic = cluster.topic("hanging")
    producer_id = cluster.hang(topic)
    with cluster.producer(cluster.name("behind")) as producer:
        producer.begin_transaction()
        write(producer, topic, b"behind it")
        producer.commit_transaction(SECONDS)

    def find(page: Any) -> Any:
        return next((row for row in page["rows"] if row["held"]["topic"] == topic), None)

    row = api.soon("/api/transactions/hanging", find)
    assert (row["producer_id"], row["producer_epoch"]) == (producer_id, 0)
    assert row["transactional_id"] is None
    held = row["held"]
    assert (held["start_offset"], held["last_stable_offset"], held["is_held"]) == (0, 0, True)
    where = {"topic": topic, "partition": 0, "start_offset": 0}
    plan = api.post("/api/transactions/hanging/abort", **where)["plan"]
    assert plan["way"] == "marker"
    assert "WriteTxnMarkers" in plan["steps"][0]
    assert (plan["lost"]["record_count"], plan["lost"]["is_whole"]) == (1, True)
    status, _ = api.refused("POST", "/api/transactions/hanging/abort", **where, preview=False)
    assert status == 409
    seen = {each: plan[each] for each in ("producer_id", "producer_epoch")}
    done = api.post("/api/transactions/hanging/abort", **where, preview=False, **seen)
    assert f"the transaction on {topic}-0 is aborted" in done["done"]
    assert cluster.committed_values(topic, 1) == [b"behind it"]
    api.soon("/api/transactions/hanging", lambda page: find(page) is None)
    status, text = api.refused("POST", "/api/transactions/hanging/abort", **where)
    assert (status, "nothing was done" in text) == (404, True)


def test_no_half_of_a_transaction_is_aborted_while_its_coordinator_knows_it(
    cluster: Cluster, api: ApiClient
) -> None:
    topic, name = cluster.topic("half"), cluster.name("whole")
    with cluster.producer(name) as producer:
        producer.begin_transaction()
        write(producer, topic, b"x")
        row_of(api, name, is_open=True)
        status, text = api.refused(
            "POST", "/api/transactions/hanging/abort", topic=topic, partition=0, start_offset=0
        )
        assert status == 400
        assert f"the coordinator of {name} will end it" in text


def test_a_producer_that_was_killed_stays_open_until_its_timeout(
    cluster: Cluster, api: ApiClient
) -> None:
    topic, name = cluster.topic("killed"), cluster.name("killed")
    program = f"""
import sys
from confluent_kafka import Producer
producer = Producer({{"bootstrap.servers": {cluster.servers!r}, "transactional.id": {name!r}, "linger.ms": 0,
                     "transaction.timeout.ms": 1000}})
producer.init_transactions(20)
producer.begin_transaction()
producer.produce({topic!r}, b"left behind")
producer.flush(20)
print("open", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        process.send_signal(signal.SIGKILL)
    row = row_of(api, name, is_open=True)
    assert row["timeout_ms"] == 1000
    # The coordinator ends it, and the console knows why.
    row_of(api, name, is_open=False, aborted_count=1)
    (ended,) = api.get("/api/transactions/ended", q=name)["rows"]
    assert (ended["outcome"], ended["has_timed_out"]) == ("aborted", True)


def test_a_zombie_that_was_fenced_shows_the_new_epoch(cluster: Cluster, api: ApiClient) -> None:
    topic, name = cluster.topic("zombie"), cluster.name("zombie")
    with cluster.producer(name) as zombie:
        zombie.begin_transaction()
        write(zombie, topic, b"of the zombie")
        before = row_of(api, name, is_open=True)
        with cluster.producer(name) as new:
            new.begin_transaction()
            write(new, topic, b"of the new one")
            row_of(api, name, is_open=True, aborted_count=1)
            after = api.get("/api/transaction", id=name)
            assert after["producer_id"] == before["producer_id"]
            assert after["producer_epoch"] > before["producer_epoch"]
            with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
                zombie.commit_transaction(SECONDS)
            new.commit_transaction(SECONDS)
    assert cluster.committed_values(topic, 1) == [b"of the new one"]


def test_what_does_not_exist_is_said(api: ApiClient) -> None:
    status, text = api.refused("GET", "/api/transaction", id="nobody")
    assert status == 404
    assert "no coordinator knows the transactional id 'nobody'" in text
    assert api.refused("GET", "/api/transactions", limit=0)[0] == 400
    assert api.refused("GET", "/api/transactions", state="sleeping")[0] == 400
    where = {"topic": "nowhere", "partition": 0, "start_offset": 0}
    assert api.refused("POST", "/api/transactions/hanging/abort", **where)[0] == 404


def test_a_read_only_console_previews_and_does_nothing(cluster: Cluster) -> None:
    topic, name = cluster.topic("safe"), cluster.name("safe")
    with (
        serving(cluster.servers, is_read_only=True) as console,
        cluster.producer(name) as producer,
    ):
        api = ApiClient(console.url)
        producer.begin_transaction()
        write(producer, topic, b"x")
        api.soon("/api/transactions", lambda page: page["rows"], q=name)
        plan = api.post("/api/transaction/abort", transactional_id=name)["plan"]
        seen = {each: plan[each] for each in ("producer_id", "producer_epoch", "started_at_ms")}
        status, text = api.refused(
            "POST", "/api/transaction/abort", transactional_id=name, preview=False, **seen
        )
        assert (status, "read-only" in text) == (403, True)
        producer.commit_transaction(SECONDS)
        api.close()


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    """A group that has read up to an offset."""
    with ottla.Admin(bootstrap_servers=cluster.servers) as admin:
        admin.alter_consumer_group_offsets(group, {(topic, 0): offset})
