"""Apps and dead letters as the API of the console tells and moves them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.console.api_client import ApiClient
from tests.console.apps.conftest import GROUP, LetterCluster, Letters

import ottla


def row_of(api: ApiClient, letters: Letters, **expected: Any) -> dict[str, Any]:
    """The row of an app, as soon as it has these values."""

    def find(page: Any) -> dict[str, Any] | None:
        for row in page["rows"]:
            if row["source"] == letters.source and expected.items() <= row.items():
                return dict(row)
        return None

    return api.soon("/api/apps", find, q=letters.source)


def places(page: dict[str, Any]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in page["rows"]]


def moved(api: ApiClient, what: str, topic: str, **body: Any) -> dict[str, Any]:
    """A change that was previewed, begun, and that has ended."""
    path = f"/api/dead-letters/{what}"
    plan = api.post(path, topic=topic, **body)["plan"]
    given = {**body, "end_offsets": plan["end_offsets"], "total": plan["total"]}
    change = api.post(path, topic=topic, preview=False, **given)["change"]

    def ended(answer: Any) -> dict[str, Any] | None:
        found = next(each for each in answer["changes"] if each["id"] == change["id"])
        return dict(found) if found["state"] != "running" else None

    found = api.soon("/api/dead-letters/changes", ended)
    assert found["problem"] is None, found
    assert (found["state"], found["moved_count"]) == ("done", plan["total"])
    return found


def test_an_app_shows_what_waits_and_what_was_given_up(
    cluster: LetterCluster, api: ApiClient
) -> None:
    letters = Letters(cluster, "shown")
    due_ms = int(time.time() * 1000) + 300_000
    letters.wait_for_retry(50, due_ms)
    letters.wait_for_retry(51, due_ms + 1_000)
    with ottla.Admin(bootstrap_servers=cluster.servers) as admin:
        admin.alter_consumer_group_offsets(GROUP, {(letters.source, 0): 0, (letters.retry, 0): 0})
    row = row_of(api, letters, open_count=12, waiting=2, due_ms=due_ms)
    assert (row["group"], row["listeners"], row["naming"]) == (GROUP, ["bill"], "ottla")
    assert (row["lag"], row["is_whole"], row["group_state"]) == (0, True, "Empty")
    (retry,) = row["retry_topics"]
    assert (retry["topic"], retry["number"], retry["waiting"]) == (letters.retry, 1, 2)
    (dead,) = row["dead_letter_topics"]
    assert dead["topic"] == letters.topic
    assert dead["counts"]["errors"] == [
        {"error": "ValueError", "count": 6},
        {"error": "TimeoutError", "count": 6},
    ]
    # Handled by nobody yet; one retry was done.
    with ottla.Admin(bootstrap_servers=cluster.servers) as admin:
        admin.alter_consumer_group_offsets(GROUP, {(letters.retry, 0): 1})
    row_of(api, letters, waiting=1, due_ms=due_ms + 1_000)
    assert row_of(api, letters)["group"] == GROUP
    page = api.get("/api/apps", q=letters.source, state="waiting")
    assert page["total"] == 1
    assert api.get("/api/apps", q=letters.source, state="stopped")["total"] == 1


def test_letters_are_listed_newest_first_a_page_after_the_other(
    cluster: LetterCluster, api: ApiClient
) -> None:
    letters = Letters(cluster, "listed", count=300)
    found: list[dict[str, Any]] = []
    older: str | None = ""
    while older is not None:
        page = api.get("/api/dead-letters", topic=letters.topic, limit=70, older=older)
        assert len(page["rows"]) <= 70
        found += page["rows"]
        older = page["older"]
    assert [row["source_offset"] for row in found] == [*reversed(range(300))]
    first = found[0]
    assert (first["source_topic"], first["source_partition"]) == (letters.source, 1)
    assert (first["key"]["text"], first["value"]["text"]) == ("k299", "v299")
    assert (first["error"], first["message"]) == ("TimeoutError", "the bank does not answer")
    assert (first["group"], first["listener"], first["attempts"]) == (GROUP, "bill", 3)


def test_letters_are_filtered_by_error_partition_and_time(
    cluster: LetterCluster, api: ApiClient
) -> None:
    letters = Letters(cluster, "filtered")

    def listed(**query: Any) -> list[int]:
        page = api.get("/api/dead-letters", topic=letters.topic, **query)
        assert page["older"] is None
        return sorted(row["source_offset"] for row in page["rows"])

    assert listed(error="timeouterror") == [2, 3, 6, 7, 10, 11]
    assert listed(error="NO CARD") == [0, 1, 4, 5, 8, 9]
    assert listed(partition=1) == [1, 3, 5, 7, 9, 11]
    assert listed(source=letters.source) == [*range(12)]
    assert listed(source="other") == []
    all_ms = {
        row["source_offset"]: row["timestamp_ms"]
        for row in api.get("/api/dead-letters", topic=letters.topic)["rows"]
    }
    assert listed(since_ms=all_ms[8]) == [8, 9, 10, 11]
    assert listed(until_ms=all_ms[3], error="no card") == [0, 1]
    assert listed(state="done") == []
    assert api.refused("GET", "/api/dead-letters", topic=letters.topic, partition=2)[0] == 400
    assert api.refused("GET", "/api/dead-letters", topic=letters.topic, older="x")[0] == 400
    assert api.refused("GET", "/api/dead-letters", topic="no-such")[0] == 404


def test_a_letter_is_shown_whole(cluster: LetterCluster, api: ApiClient) -> None:
    letters = Letters(cluster, "whole")
    found = api.get("/api/dead-letter", topic=letters.topic, partition=1, offset=1)
    assert (found["key"]["text"], found["value"]["text"], found["is_done"]) == ("k3", "v3", False)
    assert [each["name"] for each in found["headers"]] == ["trace", "trace"]
    assert found["headers"][1]["value"]["form"] == "null"
    history = found["history"]
    assert (history["source_topic"], history["source_offset"]) == (letters.source, 3)
    assert history["error"] == "TimeoutError"
    assert "the bank does not answer" in history["traceback"]
    assert history["due_ms"] is None
    for place in ((1, 99), (7, 0), (0, -1)):
        status, text = api.refused(
            "GET", "/api/dead-letter", topic=letters.topic, partition=place[0], offset=place[1]
        )
        assert status == 404, text


def test_hostile_letters_are_shown_as_they_are(cluster: LetterCluster, api: ApiClient) -> None:
    letters = Letters(cluster, "hostile", count=0)
    producer = Producer(
        {"bootstrap.servers": cluster.servers, "message.max.bytes": 1_000_000, "log_level": 0}
    )
    values = [
        b"\xff\xfe\x00",
        b"<script>",
        "\u202egnp".encode(),
        b'{"a":1.10,"a":[]}',
        b"x" * 900_000,
    ]
    for value in values:
        producer.produce(
            letters.topic, value, partition=0, headers=[("kafka_dlt-original-topic", b"\xff")]
        )
    assert producer.flush(20) == 0
    rows = api.get("/api/dead-letters", topic=letters.topic)["rows"]
    assert [row["offset"] for row in rows] == [4, 3, 2, 1, 0]
    assert all(row["error"] is None and row["source_topic"] is None for row in rows)
    assert (rows[4]["value"]["form"], rows[4]["value"]["text"]) == ("hex", "ff fe 00")
    assert rows[2]["value"]["text"] == "\u202egnp"
    assert (rows[0]["value"]["is_cut"], rows[0]["value"]["size_bytes"]) == (True, 900_000)
    shown = api.get("/api/dead-letter", topic=letters.topic, partition=0, offset=3)
    assert shown["history"] is None
    assert shown["value"]["form"] == "json"
    # Numbers and repeated names are as they were sent.
    assert shown["value"]["text"] == '{\n  "a": 1.10,\n  "a": []\n}'
    status, text = api.refused("POST", "/api/dead-letters/replay", topic=letters.topic, chosen={})
    assert (status, "no headers that say where it came from" in text) == (400, True)


def test_letters_are_replayed_once(cluster: LetterCluster, api: ApiClient) -> None:
    letters = Letters(cluster, "replayed")
    chosen = {"error": "no card"}
    plan = api.post("/api/dead-letters/replay", topic=letters.topic, chosen=chosen)["plan"]
    assert (plan["total"], plan["action"]) == (6, "replay")
    assert plan["moved"] == [
        {"partition": number, "to": letters.source, "count": 3} for number in (0, 1)
    ]
    moved(api, "replay", letters.topic, chosen=chosen)
    assert cluster.values(letters.source, 6) == sorted(
        f"v{number}".encode() for number in (0, 1, 4, 5, 8, 9)
    )
    page = api.get("/api/dead-letters", topic=letters.topic)
    assert {row["error"] for row in page["rows"]} == {"TimeoutError"}
    assert len(api.get("/api/dead-letters", topic=letters.topic, state="all")["rows"]) == 12
    again = api.post("/api/dead-letters/replay", topic=letters.topic, chosen=chosen)["plan"]
    assert again["total"] == 0
    # One that was selected.
    place = {"partition": 0, "offset": 1}
    moved(api, "replay", letters.topic, chosen={"places": [place]})
    assert b"v2" in cluster.values(letters.source, 7)
    row_of(api, letters, open_count=5)


def test_letters_can_go_to_another_topic_or_to_their_group_alone(
    cluster: LetterCluster, api: ApiClient
) -> None:
    letters = Letters(cluster, "elsewhere")
    target = cluster.name("target")
    body = {"chosen": {"partitions": [0]}, "to": "topic", "to_topic": target}
    status, text = api.refused("POST", "/api/dead-letters/replay", topic=letters.topic, **body)
    assert (status, f"there is no topic {target}" in text) == (400, True)
    cluster.create(target)
    moved(api, "replay", letters.topic, **body)
    assert len(cluster.values(target, 6)) == 6
    done = moved(api, "replay", letters.topic, chosen={}, to="group")
    assert done["moved"] == [{"partition": 1, "to": letters.retry, "count": 6}]
    assert len(cluster.values(letters.retry, 6)) == 6


def test_letters_that_come_after_the_preview_stay(cluster: LetterCluster, api: ApiClient) -> None:
    letters = Letters(cluster, "later", count=4)
    plan = api.post("/api/dead-letters/drop", topic=letters.topic, chosen={})["plan"]
    assert (plan["total"], plan["end_offsets"]) == (4, {"0": 2, "1": 2})
    producer = Producer({"bootstrap.servers": cluster.servers, "log_level": 0})
    producer.produce(letters.topic, b"late", partition=0)
    assert producer.flush(20) == 0
    change = api.post(
        "/api/dead-letters/drop",
        topic=letters.topic,
        chosen={},
        preview=False,
        end_offsets=plan["end_offsets"],
        total=plan["total"],
    )["change"]
    api.soon(
        "/api/dead-letters/changes",
        lambda answer: any(
            each["id"] == change["id"] and each["state"] == "done" for each in answer["changes"]
        ),
    )
    page = api.get("/api/dead-letters", topic=letters.topic, state="all")
    assert [row["value"]["text"] for row in page["rows"]] == ["late"]
    status, _ = api.refused(
        "POST", "/api/dead-letters/drop", topic=letters.topic, chosen={}, preview=False
    )
    assert status == 400


@pytest.mark.parametrize(
    ("retry", "dead"), [("-retry-0", "-dlt"), ("-retry", ".DLT"), ("-retry-1000", "-dlq")]
)
def test_topics_with_the_names_of_others_are_apps_too(
    cluster: LetterCluster, api: ApiClient, retry: str, dead: str
) -> None:
    source, group = cluster.name("spring"), cluster.name("group")
    cluster.create(source, source + retry, source + dead, partitions=1)
    producer = Producer({"bootstrap.servers": cluster.servers, "log_level": 0})
    producer.produce(source + retry, b"x")
    assert producer.flush(20) == 0
    with ottla.Admin(bootstrap_servers=cluster.servers) as admin:
        admin.alter_consumer_group_offsets(group, {(source, 0): 0})
        admin.alter_consumer_group_offsets(f"{group}{retry}", {(source + retry, 0): 0})

    def find(page: Any) -> Any:
        rows = [row for row in page["rows"] if row["group"] == group and row["waiting"] == 1]
        return rows and rows[0]

    row = api.soon("/api/apps", find, q=source)
    assert (row["source"], row["naming"], row["lag"]) == (source, "others", 0)
    assert [each["topic"] for each in row["retry_topics"]] == [source + retry]
    assert [each["topic"] for each in row["dead_letter_topics"]] == [source + dead]
