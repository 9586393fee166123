"""Groups and offsets that are deleted by the API of the console, as the preview said."""

from __future__ import annotations

from confluent_kafka import Producer
from tests.console.api_client import ApiClient, looking
from tests.console.groups.conftest import SECONDS, GroupCluster
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving

import ottla

DELETE, DELETE_OFFSETS = "/api/group/delete", "/api/group/delete-offsets"


def is_listed(cluster: GroupCluster, group: str) -> bool:
    with ottla.Admin(bootstrap_servers=cluster.servers) as admin:
        return group in admin.list_groups()


def test_a_group_is_deleted_with_the_offsets_that_were_shown(
    cluster: GroupCluster, api: ApiClient
) -> None:
    topic, group = cluster.topic("deleted", 2, records=5), cluster.name("deleted")
    cluster.commit(group, {(topic, 0): 5, (topic, 1): 2})
    api.soon("/api/group", lambda found: found["lag"] == 3, id=group)
    plan = api.post(DELETE, id=group)["plan"]
    assert [(each["partition"], each["committed_offset"]) for each in plan["offsets"]] == [
        (0, 5),
        (1, 2),
    ]
    assert plan["unread_count"] == 3
    assert is_listed(cluster, group), "a preview deletes nothing"
    # It has committed something else since: nothing is deleted.
    cluster.commit(group, {(topic, 1): 3})
    for fingerprint in (plan["fingerprint"], None, "x"):
        status, text = api.refused("POST", DELETE, id=group, preview=False, fingerprint=fingerprint)
        assert (status, "nothing was deleted" in text) == (409, True), text
    assert cluster.committed(group) == {(topic, 0): 5, (topic, 1): 3}
    plan = api.post(DELETE, id=group)["plan"]
    done = api.post(DELETE, id=group, preview=False, fingerprint=plan["fingerprint"])["done"]
    assert done == f"deleted the group {group}"
    assert not is_listed(cluster, group)
    assert api.refused("GET", "/api/group", id=group)[0] == 404
    assert api.get("/api/groups", q=group)["rows"] == [], "the page does not show it any more"
    assert api.refused("POST", DELETE, id=group)[0] == 404


def test_offsets_of_one_topic_are_deleted_and_others_stay(
    cluster: GroupCluster, api: ApiClient
) -> None:
    first, second = cluster.topic("first", 2, records=3), cluster.topic("second", records=3)
    group = cluster.name("partly")
    cluster.commit(group, {(first, 0): 1, (first, 1): 2, (second, 0): 3})
    plan = api.post(DELETE_OFFSETS, id=group, topics=[first])["plan"]
    assert (plan["partition_count"], plan["topic_count"]) == (2, 1)
    assert len(cluster.committed(group)) == 3
    # What it commits elsewhere does not matter; what it commits there does.
    cluster.commit(group, {(second, 0): 2})
    done = api.post(
        DELETE_OFFSETS, id=group, topics=[first], preview=False, fingerprint=plan["fingerprint"]
    )["done"]
    assert done == f"deleted 2 offsets of {group}"
    assert cluster.committed(group) == {(second, 0): 2}
    status, text = api.refused("POST", DELETE_OFFSETS, id=group, topics=[first])
    assert (status, f"committed nothing in {first}" in text) == (400, True)
    assert api.refused("POST", DELETE_OFFSETS, id=group, topics=[])[0] == 400


def test_what_members_read_is_left_alone(cluster: GroupCluster, api: ApiClient) -> None:
    read, left = cluster.topic("read", records=1), cluster.topic("left", records=1)
    group = cluster.name("active")
    cluster.commit(group, {(read, 0): 0, (left, 0): 1})
    with cluster.member(group, [read], group_protocol="consumer"):
        api.soon("/api/group", lambda found: found["member_count"] == 1, id=group)
        status, text = api.refused("POST", DELETE, id=group)
        assert (status, "has 1 member" in text, "stop its consumers" in text) == (409, True, True)
        status, text = api.refused("POST", DELETE_OFFSETS, id=group, topics=[read, left])
        assert (status, f"{read} is read by members" in text) == (409, True), text
        # Of a topic that no member reads any more, offsets are deleted while the others work.
        plan = api.post(DELETE_OFFSETS, id=group, topics=[left])["plan"]
        api.post(
            DELETE_OFFSETS, id=group, topics=[left], preview=False, fingerprint=plan["fingerprint"]
        )
        assert (left, 0) not in cluster.committed(group)
    assert is_listed(cluster, group)


def test_a_group_of_any_name_is_deleted(cluster: GroupCluster, api: ApiClient) -> None:
    topic = cluster.topic("names", records=1)
    group = f"{cluster.name('<b>')} /../ %00 \U0001f4a5"
    cluster.commit(group, {(topic, 0): 1})
    plan = api.post(DELETE, id=group)["plan"]
    api.post(DELETE, id=group, preview=False, fingerprint=plan["fingerprint"])
    assert not is_listed(cluster, group)


def test_a_read_only_console_shows_the_plan_and_deletes_nothing(cluster: GroupCluster) -> None:
    topic, group = cluster.topic("kept", records=1), cluster.name("kept")
    producer = Producer({"bootstrap.servers": cluster.servers, "log_level": 0})
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(SECONDS) == 0
    cluster.commit(group, {(topic, 0): 1})
    with (
        quick_polls(),
        serving(cluster.servers, is_read_only=True) as console,
        looking(console.url) as viewer,
    ):
        for path, rest in ((DELETE, {}), (DELETE_OFFSETS, {"topics": [topic]})):
            plan = viewer.post(path, id=group, **rest)["plan"]
            status, text = viewer.refused(
                "POST",
                path,
                id=group,
                preview=False,
                fingerprint=plan["fingerprint"],
                **rest,
            )
            assert (status, "read-only" in text) == (403, True), text
    assert cluster.committed(group) == {(topic, 0): 1}
