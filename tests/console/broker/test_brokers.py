"""Brokers, their versions and configs, as the API of the console tells and changes them."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AdminClient, ConfigResource
from tests.console.api_client import ApiClient
from tests.console.broker.conftest import Looked

CONFIG = "log.retention.ms"


def broker_id(api: ApiClient) -> int:
    rows = api.soon("/api/brokers", lambda found: found["rows"])
    return int(rows[0]["id"])


def config_of(api: ApiClient, broker: int, name: str = CONFIG) -> Any:
    rows = api.get("/api/broker/configs", id=broker)["rows"]
    return next(row for row in rows if row["name"] == name)


def seen_by_others(cluster: Looked, broker: int) -> str:
    """The value as a client of another make sees it."""
    resource = ConfigResource("broker", str(broker))
    admin = AdminClient({"bootstrap.servers": cluster.servers, "log_level": 0})
    found = admin.describe_configs([resource])[resource].result(20)
    return str(found[CONFIG].value)


def test_brokers_have_addresses_and_disks(cluster: Looked) -> None:
    found = cluster.api.soon(
        "/api/brokers",
        lambda page: page if page["rows"] and page["rows"][0]["log_dirs"] else None,
    )
    (row,) = found["rows"]
    assert f"{row['host']}:{row['port']}" == cluster.servers
    assert (row["is_controller"], found["controller_id"]) == (True, row["id"])
    (log_dir,) = row["log_dirs"]
    assert log_dir["path"].startswith("/")
    assert log_dir["error"] is None
    assert 0 < log_dir["usable_bytes"] <= log_dir["total_bytes"]
    assert found["cluster_id"]


def test_a_broker_tells_its_apis_and_features(cluster: Looked, api: ApiClient) -> None:
    found = api.get("/api/broker/versions", id=broker_id(api))
    apis = {row["name"]: row for row in found["apis"]}
    assert [row["key"] for row in found["apis"]] == sorted(row["key"] for row in found["apis"])
    assert (apis["Produce"]["key"], apis["Metadata"]["min_version"]) == (0, 0)
    assert "transaction.version" in {row["name"] for row in found["features"]}
    assert api.refused("GET", "/api/broker/versions", id=77)[0] == 404


def test_configs_have_sources_and_documentation(api: ApiClient) -> None:
    broker = broker_id(api)
    row = config_of(api, broker, "log.segment.bytes")
    assert (row["value"], row["source"], row["is_set"]) == ("1073741824", "default", False)
    assert "segment" in row["documentation"] or "log file" in row["documentation"]
    assert "<" not in row["documentation"]
    assert config_of(api, broker, "node.id")["is_read_only"]
    assert api.refused("GET", "/api/broker/configs", id=77)[0] == 404


def change(api: ApiClient, broker: int, value: str | None, scope: str) -> Any:
    """Changes the config as the page does: a preview, and then what it showed."""
    body = {"id": broker, "scope": scope, "changes": [{"name": CONFIG, "value": value}]}
    before = config_of(api, broker)
    plan = api.post("/api/broker/configs", **body)["plan"]
    assert config_of(api, broker) == before, "a preview changes nothing"
    answer = api.post("/api/broker/configs", **body, preview=False, state=plan["state"])
    assert CONFIG in answer["done"]
    return plan


def test_a_config_is_changed_for_one_broker_for_all_and_taken_back(
    cluster: Looked, api: ApiClient
) -> None:
    broker = broker_id(api)
    plan = change(api, broker, "1000000", "all")
    assert "every broker that has no value of its own" in plan["steps"][0]
    api.soon(
        "/api/broker/configs", lambda _: seen_by_others(cluster, broker) == "1000000", id=broker
    )
    assert config_of(api, broker)["source"] == "all brokers, dynamic"
    plan = change(api, broker, "2000000", "broker")
    (planned,) = plan["changes"]
    assert (planned["before"], planned["after"]) == ("1000000", "2000000")
    api.soon(
        "/api/broker/configs", lambda _: seen_by_others(cluster, broker) == "2000000", id=broker
    )
    row = config_of(api, broker)
    assert (row["is_set"], row["fallback_value"]) == (True, "1000000")
    plan = change(api, broker, "3000000", "all")
    assert f"Broker {broker} keeps its own value." in plan["steps"]
    plan = change(api, broker, None, "broker")
    (planned,) = plan["changes"]
    assert (planned["is_reset"], planned["after"]) == (True, "3000000")
    api.soon(
        "/api/broker/configs",
        lambda _: config_of(api, broker)["value"] == "3000000",
        id=broker,
    )
    change(api, broker, None, "all")


def test_what_makes_no_sense_is_refused_with_a_reason(api: ApiClient) -> None:
    broker = broker_id(api)

    def refused(name: str, value: str | None, **body: Any) -> str:
        changes = [{"name": name, "value": value}]
        status, text = api.refused(
            "POST", "/api/broker/configs", **{"id": broker, "changes": changes, **body}
        )
        assert status in (400, 404, 409), text
        return text

    assert "brokers have no config 'no.such'" in refused("no.such", "1")
    assert "cannot be changed while brokers run" in refused("node.id", "7")
    assert "no value of all brokers' own" in refused(CONFIG, None, scope="all")
    assert CONFIG in refused(CONFIG, "soon")
    assert "no broker 77" in refused(CONFIG, "1", id=77)
    assert "has changed since" in refused(CONFIG, "77", preview=False, state="stale")
