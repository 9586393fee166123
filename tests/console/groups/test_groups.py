"""Groups as the API of the console tells them: members of librdkafka and kafka-python, lags in offsets and records."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer
from tests.console.api_client import ApiClient
from tests.console.groups.conftest import SECONDS, GroupCluster

import ottla
from ottla.model import TopicPartition


def row_of(api: ApiClient, group: str, **expected: Any) -> dict[str, Any]:
    """The row of a group, as soon as it has these values."""

    def find(page: Any) -> dict[str, Any] | None:
        for row in page["rows"]:
            if row["group_id"] == group and expected.items() <= row.items():
                return dict(row)
        return None

    return api.soon("/api/groups", find, q=group)


def names(page: Any) -> list[str]:
    return [row["group_id"] for row in page["rows"]]


def test_groups_are_listed_searched_sorted_and_cut(cluster: GroupCluster, api: ApiClient) -> None:
    topic, other = cluster.topic("listed", records=9), cluster.topic("other", records=3)
    prefix = cluster.name("list")
    for number in range(4):
        cluster.commit(f"{prefix}-{number}", {(topic, 0): number * 3})
    cluster.commit(f"{prefix}-other", {(other, 0): 3})
    row = row_of(api, f"{prefix}-1", lag=6, member_count=0)
    assert (row["state"], row["topics"], row["is_stuck"]) == ("Empty", [topic], False)
    row_of(api, f"{prefix}-other", lag=0)

    def ask(**query: Any) -> list[str]:
        return names(api.get("/api/groups", q=prefix.upper(), **query))

    assert ask(sort="lag", order="desc")[:3] == [f"{prefix}-{number}" for number in range(3)]
    assert ask(state="lagging") == [f"{prefix}-{number}" for number in range(3)]
    assert ask(topic=other) == [f"{prefix}-other"]
    assert ask(topic="unknown") == []
    assert ask(state="stuck") == ask(type="consumer") == []
    page = api.get("/api/groups", q=prefix, offset=2, limit=2)
    assert (page["total"], names(page)) == (5, [f"{prefix}-2", f"{prefix}-3"])
    assert page["counts"]["all"] >= 5
    assert page["counts"]["lagging"] >= 3


def test_members_of_the_classic_protocol_are_shown_with_their_partitions(
    cluster: GroupCluster, api: ApiClient
) -> None:
    topic, group = cluster.topic("classic", 3, records=2), cluster.name("classic")
    with cluster.static_member(group, topic, "one"):
        row_of(api, group, state="Stable", member_count=1, lag=0, type="Classic")
        detail = api.get("/api/group", id=group)
        (member,) = detail["members"]
        assert (member["client_id"], member["instance_id"]) == ("client-of-one", "one")
        assert member["assignment"] == [{"topic": topic, "partitions": [0, 1, 2]}]
        assert (member["target"], member["epoch"], detail["epoch"]) == (None, None, None)
        assert member["subscribed_topics"] == [topic]
        assert [each["topic"] for each in detail["topics"] if each["is_subscribed"]] == [topic]
        page = api.get("/api/group/partitions", id=group, topic=topic)
        assert [row["client_id"] for row in page["rows"]] == ["client-of-one"] * 3


def test_members_of_the_new_protocol_are_shown_with_targets_and_epochs(
    cluster: GroupCluster, api: ApiClient
) -> None:
    topic, group = cluster.topic("new", 4, records=1), cluster.name("new")
    with (
        cluster.member(group, [topic], "first", group_protocol="consumer"),
        cluster.member(group, [topic], "second", group_protocol="consumer"),
    ):

        def settled(answer: Any) -> Any:
            members = {each["client_id"]: each for each in answer["members"]}
            is_done = len(members) == 2 and all(each["is_at_target"] for each in members.values())
            return (answer, members) if is_done and answer["state"] == "Stable" else None

        detail, members = api.soon("/api/group", settled, id=group)
        assert detail["type"] == "Consumer"
        assert detail["epoch"] == detail["target_epoch"] >= 2
        assert {each["epoch"] for each in members.values()} == {detail["epoch"]}
        assert sorted(each["partition_count"] for each in members.values()) == [2, 2]
        assert members["first"]["target"] == members["first"]["assignment"]
    row_of(api, group, member_count=0, state="Empty")


def test_a_lag_of_markers_only_is_no_lag_in_records(cluster: GroupCluster, api: ApiClient) -> None:
    topic, group = cluster.topic("marked"), cluster.name("marked")
    producer = Producer(
        {"bootstrap.servers": cluster.servers, "transactional.id": group, "linger.ms": 0}
    )
    producer.init_transactions(SECONDS)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=0)
        producer.commit_transaction(SECONDS)
    # A record and its marker, twice: the group has read all records.
    cluster.commit(group, {(topic, 0): 3})
    row = row_of(api, group, lag=1, record_lag=0)
    assert row["topics"] == [topic]
    cluster.commit(group, {(topic, 0): 1})
    row_of(api, group, lag=3)

    def counted(page: Any) -> Any:
        (row,) = page["rows"]
        return row if row["is_counted"] else None

    row = api.soon("/api/group/partitions", counted, id=group)
    assert (row["committed_offset"], row["end_offset"], row["lag"]) == (1, 4, 3)
    assert row["record_lag"] == 1
    assert row["oldest_at_ms"] > 0
    found = api.get("/api/group/record-lag", id=group)
    assert (found["lag"], found["record_lag"], found["is_counted"]) == (3, 1, True)
    assert found["problems"] == []


def test_committed_metadata_and_epochs_are_shown(cluster: GroupCluster, api: ApiClient) -> None:
    topic, group = cluster.topic("meta", 2, records=2), cluster.name("meta")
    with ottla.Admin(bootstrap_servers=cluster.servers) as admin:
        at = ottla.OffsetAndMetadata(1, "<b>batch 7</b>", 0)
        admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 1): at})
    page = api.soon(
        "/api/group/partitions",
        lambda page: page if page["total"] and page["rows"][0]["lag"] else None,
        id=group,
    )
    (row,) = page["rows"]
    assert (row["partition"], row["metadata"], row["leader_epoch"]) == (1, "<b>batch 7</b>", 0)
    assert (row["lag"], row["record_lag"], row["member_id"]) == (1, 1, None)


def test_the_lag_is_known_over_time(cluster: GroupCluster, api: ApiClient) -> None:
    topic, group = cluster.topic("over-time", records=5), cluster.name("over-time")
    cluster.commit(group, {(topic, 0): 1})
    row_of(api, group, lag=4)
    found = api.soon(
        "/api/group/history", lambda found: found if 4 in found["lag"] else None, id=group
    )
    assert len(found["at_ms"]) == len(found["lag"]) == len(found["records_per_second"])
    assert api.get("/api/group/history", id=group, span="long")["lag"][-1] is not None


def test_a_group_that_does_not_exist_is_not_found(api: ApiClient) -> None:
    for path in ("/api/group", "/api/group/partitions"):
        status, text = api.refused("GET", path, id="nobody/knows me")
        assert status == 404, path
        assert "no group 'nobody/knows me'" in text
    assert api.refused("GET", "/api/groups", limit=501)[0] == 400


def test_no_offset_is_committed_behind_the_end_that_is_shown(
    cluster: GroupCluster, api: ApiClient
) -> None:
    """The ends are a poll old: where the group went on since then, its lag would be too small."""
    topic, group = cluster.topic("moving", records=1), cluster.name("moving")
    cluster.commit(group, {(topic, 0): 1})
    row_of(api, group, lag=0)
    producer = Producer({"bootstrap.servers": cluster.servers, "linger.ms": 0, "log_level": 0})
    for offset in range(2, 30):
        producer.produce(topic, b"more", partition=0)
        assert producer.flush(SECONDS) == 0
        cluster.commit(group, {(topic, 0): offset})
        (row,) = api.get("/api/group/partitions", id=group)["rows"]
        # An end that was not asked for since the commit is not shown at all.
        if row["end_offset"] is not None:
            assert row["committed_offset"] <= row["end_offset"], row

    def caught_up(page: Any) -> bool:
        (row,) = page["rows"]
        return (row["committed_offset"], row["end_offset"], row["lag"]) == (29, 29, 0)

    assert api.soon("/api/group/partitions", caught_up, id=group)
