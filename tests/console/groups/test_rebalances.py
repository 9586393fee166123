"""Rebalances as the console tells them: read from the log of a cluster with real members, while they happen."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.console.api_client import ApiClient
from tests.console.groups.conftest import SECONDS, GroupCluster
from tests.console.serving import serving
from tests.console.users import OPERATOR, VIEWER, allow, user

import ottla
from ottla.admin import AclOperation, AclResourceType, NewTopic
from ottla.console.groups import journal


@pytest.fixture(autouse=True, scope="module")
def _the_brokers_log_is_kept() -> Iterator[None]:
    """As `ottla serve` keeps it."""
    log = logging.getLogger("ottla")
    before = log.level
    log.setLevel(logging.INFO)
    yield
    log.setLevel(before)


def rebalances(api: ApiClient, group: str, count: int) -> dict[str, Any]:
    """The timeline of a group as soon as so many rebalances are over; the oldest of them first."""

    def find(answer: Any) -> dict[str, Any] | None:
        rows = answer["rebalances"]
        is_over = len(rows) >= count and all(row["ended_at_ms"] for row in rows)
        return {**answer, "rebalances": rows[::-1]} if is_over else None

    api.soon("/api/groups", lambda page: page["total"], q=group)
    return api.soon("/api/group/rebalances", find, id=group)


@contextmanager
def events(api: ApiClient) -> Iterator[Iterator[dict[str, Any]]]:
    """The rebalances of the live stream."""
    with (
        httpx.Client(base_url=api.url, trust_env=False, timeout=SECONDS) as http,
        http.stream("GET", "/api/live") as answer,
    ):

        def told() -> Iterator[dict[str, Any]]:
            name = ""
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: ") and name == "rebalance":
                    yield json.loads(line.removeprefix("data: "))

        yield told()


def by_client(timeline: dict[str, Any]) -> dict[str, list[int]]:
    """How many partitions each client had, one after the other."""
    return {
        lane["client_id"]: [stint["partition_count"] for stint in lane["stints"]]
        for lane in timeline["lanes"]
    }


def test_generations_of_the_classic_protocol(cluster: GroupCluster, api: ApiClient) -> None:
    topic, group = cluster.topic("generations", 4), cluster.name("generations")
    with cluster.member(group, [topic], "first"):
        rebalances(api, group, 1)
        with events(api) as told, cluster.member(group, [topic], "second"):
            event = next(each for each in told if each["group_id"] == group)
            assert (event["number"], event["is_over"]) == (2, True)
            timeline = rebalances(api, group, 2)
            first, second = timeline["rebalances"]
            assert (first["number"], first["why"]) == (1, ["first joined."])
            assert (second["number"], second["why"]) == (2, ["second joined."])
            assert (second["member_count"], second["moved_count"]) == (2, 2)
            assert by_client(timeline) == {"first": [4, 2], "second": [2]}
            (stint,) = next(
                lane["stints"] for lane in timeline["lanes"] if lane["client_id"] == "second"
            )
            assert stint["topics"] == [{"topic": topic, "ranges": [[2, 3]]}]
        rebalances(api, group, 3)
    timeline = rebalances(api, group, 4)
    kinds = [(row["kind"], row["why"]) for row in timeline["rebalances"][2:]]
    assert kinds == [
        ("rebalanced", ["second left, or was removed."]),
        ("emptied", ["first left, or was removed."]),
    ]
    assert not any(lane["is_present"] for lane in timeline["lanes"])


def test_a_group_that_is_rebalanced_again_and_again_needs_attention(
    cluster: GroupCluster, api: ApiClient
) -> None:
    topic, group = cluster.topic("restless", 2), cluster.name("restless")
    with cluster.member(group, [topic], "stays"):
        for _ in range(4):
            with cluster.member(group, [topic], "comes-and-goes"):
                pass
        found = api.soon(
            "/api/overview",
            lambda answer: next(
                (
                    each
                    for each in answer["attention"]
                    if (each["kind"], each["name"]) == ("repeated_rebalances", group)
                ),
                None,
            ),
        )
    assert found["title"].startswith(f"Group {group} was rebalanced ")


def test_epochs_of_the_new_protocol_begin_and_end(cluster: GroupCluster, api: ApiClient) -> None:
    topic, group = cluster.topic("epochs", 4), cluster.name("epochs")
    with cluster.member(group, [topic], "one", group_protocol="consumer"):
        rebalances(api, group, 1)
        with cluster.member(group, [topic], "two", group_protocol="consumer"):
            timeline = rebalances(api, group, 2)
            first, second = timeline["rebalances"][:2]
            assert second["number"] == first["number"] + 1
            assert (first["why"], second["why"]) == (["one joined."], ["two joined."])
            assert second["protocol"] == "consumer"
            assert second["moved_count"] == 2
            assert second["duration_ms"] >= 0
            found = by_client(timeline)
            assert (found["one"][-1], found["two"][-1]) == (2, 2)
            lanes = {lane["client_id"]: lane["stints"][-1]["topics"] for lane in timeline["lanes"]}
            assert {each["topic"] for topics in lanes.values() for each in topics} == {topic}


def test_a_static_member_that_restarts_is_no_rebalance(
    cluster: GroupCluster, api: ApiClient
) -> None:
    topic, group = cluster.topic("static", 2), cluster.name("static")
    for _ in range(2):
        with cluster.static_member(group, topic, "one"):
            pass
    timeline = rebalances(api, group, 2)
    # kafka-python joins twice where it does not know the topic yet.
    before, restarted = timeline["rebalances"][-2:]
    assert (before["kind"], restarted["kind"]) == ("rebalanced", "restarted")
    assert before["number"] == restarted["number"]
    assert "without a rebalance" in restarted["why"][0]
    (lane,) = timeline["lanes"]
    assert (lane["instance_id"], lane["client_id"]) == ("one", "client-of-one")
    assert [stint["partition_count"] for stint in lane["stints"][-2:]] == [2, 2]


def test_the_brokers_own_reasons_are_told(cluster: GroupCluster, api: ApiClient) -> None:
    if cluster.internals_url is None:
        pytest.skip("only Ottla tells them")
    topic, group = cluster.topic("reasons", 2), cluster.name("reasons")
    with cluster.member(group, [topic], "stays"):
        with cluster.member(group, [topic], "goes"):
            rebalances(api, group, 2)
        rebalances(api, group, 3)

        def told(answer: Any) -> Any:
            row = answer["rebalances"][0]
            return row if row["notes"] else None

        row = api.soon("/api/group/rebalances", told, id=group)
        assert [note["name"] for note in row["notes"]] == ["rebalance_begins"]
        assert row["notes"][0]["sentence"].startswith("began because goes left")
        assert row["duration_ms"] >= 0


def test_what_was_long_before_the_console_began_is_read_when_somebody_asks(
    cluster: GroupCluster,
) -> None:
    topic, group = cluster.topic("long-before"), cluster.name("long-before")
    with cluster.member(group, [topic], "early"):
        pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "EARLIER_OFFSETS", 0)
        with serving(cluster.servers) as console:
            late = ApiClient(console.url)
            assert by_client(rebalances(late, group, 2)) == {"early": [1]}
            late.close()


def test_a_console_that_may_not_read_the_log_says_so() -> None:
    with ottla.Broker(security="scram") as broker:
        with ottla.Admin(broker.client_options()) as admin:
            admin.create_topics([NewTopic("t")])
            admin.alter_consumer_group_offsets("g", {("t", 0): 0})
        user(broker, "half-blind", *VIEWER)
        allow(broker, "half-blind", AclResourceType.TOPIC, "*", AclOperation.DESCRIBE)
        allow(broker, "half-blind", AclResourceType.GROUP, "*", AclOperation.DESCRIBE)
        with serving(
            broker.bootstrap_servers, options=broker.client_options("half-blind")
        ) as console:
            api = ApiClient(console.url)

            def refused(answer: Any) -> Any:
                found = answer["journal"]
                return found if found["problem"] else None

            found = api.soon("/api/group/rebalances", refused, id="g")
            assert found["source"] == "none"
            assert "__consumer_offsets cannot be read" in found["problem"]
            api.close()


def test_users_see_only_the_rebalances_of_their_groups() -> None:
    with ottla.Broker(security="scram") as broker:
        with ottla.Admin(broker.client_options()) as admin:
            admin.create_topics([NewTopic("t")])
            for group in ("open", "secret"):
                admin.alter_consumer_group_offsets(group, {("t", 0): 0})
        form = user(broker, "reader", *OPERATOR)
        allow(broker, "reader", AclResourceType.GROUP, "open", AclOperation.DESCRIBE)
        options = broker.client_options()
        login = {name: value for name, value in options.items() if not name.startswith("sasl.p")}
        login.pop("sasl.username", None)
        with serving(broker.bootstrap_servers, options=options, login_options=login) as console:
            http = httpx.Client(base_url=console.url, trust_env=False, timeout=SECONDS)
            answer = http.post("/api/login", json=form)
            assert answer.status_code == 200, answer.text
            assert [row["group_id"] for row in http.get("/api/groups").json()["rows"]] == ["open"]
            for path in ("/api/group", "/api/group/rebalances", "/api/group/partitions"):
                assert http.get(path, params={"id": "open"}).status_code == 200, path
                assert http.get(path, params={"id": "secret"}).status_code in (403, 404), path
            http.close()
