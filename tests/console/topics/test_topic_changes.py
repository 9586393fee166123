"""Creating, changing and deleting topics by the API: what a preview says is what happens."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.api_client import ApiClient
from tests.console.serving import serving
from tests.console.topics.test_topics import commit, row_of
from tests.console.transactions.conftest import SECONDS, Cluster

import ottla
from ottla.admin import ConfigResource


def fill(cluster: Cluster, topic: str, count: int = 5) -> None:
    """Records in the first partition."""
    with ottla.Producer(bootstrap_servers=cluster.servers) as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n, key=b"%d" % n, partition=0).result(SECONDS)


def exists(cluster: Cluster, topic: str) -> bool:
    with ottla.Admin(bootstrap_servers=cluster.servers) as admin:
        return topic in admin.list_topics()


def values(cluster: Cluster, topic: str, *names: str) -> list[str | None]:
    resource = ConfigResource.topic(topic)
    with ottla.Admin(bootstrap_servers=cluster.servers) as admin:
        found = admin.describe_configs([resource])[resource]
    return [found[name].value for name in names]


def test_a_topic_is_created_as_the_preview_said(cluster: Cluster, api: ApiClient) -> None:
    name = cluster.name("made")
    wanted = {
        "name": name,
        "partition_count": 3,
        "configs": {"retention.ms": "3600000", "cleanup.policy": "compact,delete"},
    }
    plan = api.post("/api/topics", **wanted)["plan"]
    assert (plan["partition_count"], plan["replication_factor"]) == (3, 1)
    assert {row["name"]: row["value"] for row in plan["configs"]} == wanted["configs"]
    assert any("without a key" in step for step in plan["steps"])
    assert not exists(cluster, name), "a preview creates nothing"
    answer = api.post("/api/topics", **wanted, preview=False)
    assert answer["done"] == f"created {name}"
    # The console has looked at the cluster since.
    assert api.get(f"/api/topics/{name}")["partition_count"] == 3
    assert values(cluster, name, "retention.ms") == ["3600000"]
    status, text = api.refused("POST", "/api/topics", name=name)
    assert (status, "exists" in text) == (409, True)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"name": "not/possible"}, "not/possible"),
        ({"name": "x", "replication_factor": 7}, "replication factor"),
        ({"name": "x", "partition_count": 0}, "1 to"),
        ({"name": "x", "configs": {"retention.ms": "long"}}, "retention.ms"),
        ({"name": "x", "configs": {"colour": "red"}}, "colour"),
    ],
)
def test_what_the_cluster_would_refuse_the_preview_refuses(
    api: ApiClient, given: dict[str, Any], wanted: str
) -> None:
    status, text = api.refused("POST", "/api/topics", **given)
    assert status == 400
    assert wanted.lower() in text.lower()


def test_a_new_topic_is_told_its_defaults_with_documentation(
    cluster: Cluster, api: ApiClient
) -> None:
    row_of(api, cluster.topic("any"))
    found = api.get("/api/new-topic")
    assert (found["partition_count"], found["replication_factor"]) == (1, 1)
    assert found["problems"] == []
    rows = {row["name"]: row for row in found["configs"]}
    assert rows["cleanup.policy"]["value"] == "delete"
    assert rows["retention.ms"]["type"] == "long"
    assert not any(row["is_set"] for row in rows.values())
    for row in rows.values():
        assert row["documentation"], row["name"]
        assert "<" not in row["documentation"], "no HTML"


def test_configs_are_changed_and_taken_back(cluster: Cluster, api: ApiClient) -> None:
    topic = cluster.topic("configured")
    row_of(api, topic)
    path = f"/api/topics/{topic}/configs"
    assert api.get(path)["set_count"] == 0
    changes = [
        {"name": "retention.ms", "value": "3600000"},
        {"name": "max.message.bytes", "value": "2000"},
    ]
    plan = api.post(path, changes=changes)["plan"]
    assert [(each["before"], each["after"]) for each in plan["changes"]] == [
        ("604800000", "3600000"),
        ("1048588", "2000"),
    ]
    assert len(plan["steps"]) == 2
    assert values(cluster, topic, "retention.ms") == ["604800000"], "a preview changes nothing"
    api.post(path, changes=changes, preview=False, state=plan["state"])
    found = api.get(path)
    assert found["set_count"] == 2
    row = next(row for row in found["rows"] if row["name"] == "retention.ms")
    assert (row["value"], row["source"], row["is_set"]) == ("3600000", "topic", True)
    assert (row["fallback_value"], row["has_fallback"]) == ("604800000", True)
    assert row["synonyms"][0]["source"] == "topic"
    reset = [{"name": "retention.ms", "value": None}]
    plan = api.post(path, changes=reset)["plan"]
    assert (plan["changes"][0]["after"], plan["changes"][0]["is_reset"]) == ("604800000", True)
    api.post(path, changes=reset, preview=False, state=plan["state"])
    assert values(cluster, topic, "retention.ms", "max.message.bytes") == ["604800000", "2000"]


def test_configs_that_changed_since_the_preview_are_left_alone(
    cluster: Cluster, api: ApiClient
) -> None:
    topic = cluster.topic("contested")
    row_of(api, topic)
    path = f"/api/topics/{topic}/configs"
    changes = [{"name": "retention.ms", "value": "3600000"}]
    state = api.post(path, changes=changes)["plan"]["state"]
    other = [{"name": "retention.ms", "value": "5000"}]
    api.post(
        path, changes=other, preview=False, state=api.post(path, changes=other)["plan"]["state"]
    )
    status, text = api.refused("POST", path, changes=changes, preview=False, state=state)
    assert (status, "nothing was done" in text) == (409, True)
    assert values(cluster, topic, "retention.ms") == ["5000"]
    for value, wanted in (("never", "retention.ms"), ("5000", "already")):
        status, text = api.refused("POST", path, changes=[{"name": "retention.ms", "value": value}])
        assert (status, wanted in text) == (400, True)


def test_partitions_are_added_and_the_preview_warns_of_keys(
    cluster: Cluster, api: ApiClient
) -> None:
    topic = cluster.topic("grown", 2)
    row_of(api, topic)
    path = f"/api/topics/{topic}/partitions"
    plan = api.post(path, total_count=4)["plan"]
    assert (plan["before_count"], plan["after_count"]) == (2, 4)
    assert any("Keys move" in step for step in plan["steps"])
    status, text = api.refused("POST", path, total_count=2)
    assert (status, "larger" in text) == (400, True)
    status, _ = api.refused("POST", path, total_count=4, preview=False, before_count=3)
    assert status == 409
    api.post(path, total_count=4, preview=False, before_count=2)
    assert api.get(f"/api/topics/{topic}")["partition_count"] == 4


def test_records_are_deleted_up_to_an_offset(cluster: Cluster, api: ApiClient) -> None:
    topic, group = cluster.topic("cut", 2), cluster.name("slow")
    fill(cluster, topic)
    commit(cluster, group, topic, 1)
    row_of(api, topic, lag=4)
    path = f"/api/topics/{topic}/delete-records"
    wanted = [{"partition": 0, "before_offset": 3}, {"partition": 1, "before_offset": -1}]
    plan = api.post(path, partitions=wanted)["plan"]
    first, second = plan["partitions"]
    assert [first[each] for each in ("start_offset", "before_offset", "offset_count")] == [0, 3, 3]
    assert first["groups"] == [{"group_id": group, "committed_offset": 1, "unread_count": 2}]
    assert second["offset_count"] == 0
    assert any("not read" in step for step in plan["steps"])
    status, text = api.refused("POST", path, partitions=[{"partition": 0, "before_offset": 9}])
    assert (status, "up to 5" in text) == (400, True)
    api.post(path, partitions=wanted, preview=False)
    row_of(api, topic, record_count=2)
    (place, _) = api.get(f"/api/topics/{topic}/partitions")["rows"]
    assert place["start_offset"] == 3


def test_records_of_a_compacted_topic_are_not_deleted(cluster: Cluster, api: ApiClient) -> None:
    name = cluster.name("compacted")
    api.post("/api/topics", name=name, configs={"cleanup.policy": "compact"}, preview=False)
    status, text = api.refused(
        "POST",
        f"/api/topics/{name}/delete-records",
        partitions=[{"partition": 0, "before_offset": -1}],
    )
    assert (status, "compacted" in text) == (400, True)


def test_a_topic_is_deleted_with_what_the_preview_said(cluster: Cluster, api: ApiClient) -> None:
    topic, group = cluster.topic("doomed", 2), cluster.name("reader")
    fill(cluster, topic)
    commit(cluster, group, topic, 2)
    row_of(api, topic, lag=3)
    path = f"/api/topics/{topic}/delete"
    plan = api.post(path)["plan"]
    assert (plan["partition_count"], plan["record_count"]) == (2, 5)
    assert plan["groups"] == [{"group_id": group, "state": "Empty", "lag": 3}]
    assert any("auto.create.topics.enable" in step for step in plan["steps"])
    assert exists(cluster, topic)
    status, text = api.refused("POST", path, preview=False, topic_id="another one")
    assert (status, "nothing was done" in text) == (409, True)
    api.post(path, preview=False, topic_id=plan["topic_id"])
    assert not exists(cluster, topic)
    assert api.refused("GET", f"/api/topics/{topic}")[0] == 404
    assert api.refused("POST", path)[0] == 404


def test_internal_topics_are_left_alone(cluster: Cluster, api: ApiClient) -> None:
    commit(cluster, cluster.name("any"), cluster.topic("read"), 0)
    name = "__consumer_offsets"
    api.soon("/api/topics", lambda page: page["total"], q=name, internal="true")
    for path, body in (
        ("delete", {}),
        ("delete-records", {"partitions": [{"partition": 0, "before_offset": -1}]}),
    ):
        status, text = api.refused("POST", f"/api/topics/{name}/{path}", **body)
        assert (status, "internal" in text) == (400, True)


def test_a_read_only_console_shows_previews_and_changes_nothing(cluster: Cluster) -> None:
    topic = cluster.topic("kept")
    with serving(cluster.servers, is_read_only=True) as console:
        client = ApiClient(console.url)
        client.soon("/api/topics", lambda page: page["rows"], q=topic)
        changes: dict[str, dict[str, Any]] = {
            "/api/topics": {"name": cluster.name("new")},
            f"/api/topics/{topic}/delete": {},
            f"/api/topics/{topic}/partitions": {"total_count": 3},
            f"/api/topics/{topic}/configs": {"changes": [{"name": "retention.ms", "value": "5"}]},
            f"/api/topics/{topic}/delete-records": {
                "partitions": [{"partition": 0, "before_offset": -1}]
            },
        }
        for path, body in changes.items():
            assert client.post(path, **body)["done"] is None
            status, text = client.refused("POST", path, **body, preview=False)
            assert (status, "read-only" in text) == (403, True), path
        client.close()
    assert exists(cluster, topic)
