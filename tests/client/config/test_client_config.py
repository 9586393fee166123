"""Reading the options of a client, and the rules that all clients share."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.config.admin import AdminConfig
from ottla.config.client import ClientConfig, read_client_config
from ottla.config.consumer import ConsumerConfig
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigError
from ottla.model import Endpoint

SERVERS = "127.0.0.1:9092"
CLIENTS: list[type[ClientConfig]] = [ProducerConfig, ConsumerConfig, AdminConfig]


def admin(**options: Any) -> AdminConfig:
    return read_client_config(AdminConfig, {"bootstrap.servers": SERVERS}, options)


@pytest.mark.parametrize("config_class", CLIENTS)
def test_bootstrap_servers_are_required(config_class: type[ClientConfig]) -> None:
    for options in ({}, {"bootstrap.servers": ""}, {"bootstrap_servers": None}):
        with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing: give the HOST:PORT"):
            read_client_config(config_class, None, options)


@pytest.mark.parametrize(
    "servers", ["a:1,[::1]:2", " a:1 , [::1]:2 ", ["a:1", "[::1]:2"], ("a:1", "[::1]:2")]
)
def test_bootstrap_servers_are_a_list_or_text_with_commas(servers: Any) -> None:
    config = read_client_config(AdminConfig, {"bootstrap.servers": servers}, {})
    assert config.bootstrap_endpoints == (Endpoint("a", 1), Endpoint("::1", 2))


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        ("broker", r"bootstrap\.servers is not valid: 'broker' has no port"),
        ("a:1,,b:2", "without empty parts"),
        ("a:70000", "port '70000'"),
        ("PLAINTEXT://a:1", r"begins with a protocol: write a:1, and set security\.protocol"),
        (9092, "a comma-separated list"),
    ],
)
def test_a_bad_server_is_refused(servers: object, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read_client_config(AdminConfig, {"bootstrap.servers": servers}, {})


@pytest.mark.parametrize("config_class", CLIENTS)
def test_a_config_that_was_read_before_takes_the_place_of_the_dict(
    config_class: type[ClientConfig],
) -> None:
    ready = read_client_config(config_class, {"bootstrap.servers": SERVERS}, {})
    assert read_client_config(config_class, ready, {}) is ready
    with pytest.raises(ConfigError, match=f"client_id: a {config_class.__name__} takes no more"):
        read_client_config(config_class, ready, {"client_id": "me"})


def test_options_come_as_dict_and_as_keywords() -> None:
    config = read_client_config(
        AdminConfig, {"bootstrap.servers": SERVERS, "request_timeout_ms": "5"}, {"client_id": "me"}
    )
    assert (config.request_timeout_ms, config.client_id) == (5, "me")


def test_an_option_that_is_given_twice_is_refused() -> None:
    config = {"bootstrap.servers": SERVERS, "client.id": "a"}
    with pytest.raises(ConfigError, match=r"client\.id is given in the dict and as a keyword"):
        read_client_config(AdminConfig, config, {"client_id": "a"})
    with pytest.raises(ConfigError, match="with dots and with underscores"):
        read_client_config(AdminConfig, {**config, "client_id": "a"}, {})


def test_names_are_text() -> None:
    bad: Any = {7: "x"}
    with pytest.raises(ConfigError, match="names are text"):
        read_client_config(AdminConfig, bad, {})


def test_none_is_not_given() -> None:
    config = admin(request_timeout_ms=None, client_id=None, ssl_key_password=None)
    assert config.request_timeout_ms == 30_000
    assert config.client_id.startswith("adminclient-")


def test_none_does_not_hide_a_wrong_name() -> None:
    with pytest.raises(ConfigError, match=r"did you mean request\.timeout\.ms"):
        admin(request_timeout=None)


@pytest.mark.parametrize(
    ("config_class", "name", "reason"),
    [
        (
            ProducerConfig,
            "linger.sm",
            r"'linger\.sm' is not a producer option: did you mean linger\.ms\?",
        ),
        (
            AdminConfig,
            "retry.backof.ms",
            r"is not an admin option: did you mean retry\.backoff\.ms\?",
        ),
        (ProducerConfig, "group.id", "is not a producer option: it is an option of consumers"),
        (ConsumerConfig, "acks", "is not a consumer option: it is an option of producers"),
        (AdminConfig, "linger.ms", "it is an option of producers, remove it here"),
        (ProducerConfig, "queue.buffering.max.ms", r"librdkafka's name, use linger\.ms"),
        (ProducerConfig, "error_cb", "librdkafka's name, use the exceptions"),
        (ConsumerConfig, "ssl.ca.location", r"use ssl\.truststore\.location"),
        (ConsumerConfig, "enable.partition.eof", r"librdkafka's name, use end_offsets\(\)"),
        (ConsumerConfig, "stats_cb", r"use metrics\(\)"),
        (ConsumerConfig, "on_commit", r"callback of commit_async"),
        (ConsumerConfig, "consumer_timeout_ms", r"kafka-python's name, use poll\(timeout\)"),
        (ConsumerConfig, "api_version_auto_timeout_ms", "kafka-python's name, remove it"),
        (ProducerConfig, "api_version", "kafka-python's name, remove it"),
        (ProducerConfig, "ssl_cafile", r"use ssl\.truststore\.location"),
        (ConsumerConfig, "metric.reporters", r"Ottla does not have: remove it, metrics\(\)"),
        (ConsumerConfig, "group.remote.assignor", r"use partition\.assignment\.strategy"),
        (AdminConfig, "bootstrap.controllers", r"use bootstrap\.servers"),
        (ProducerConfig, "ssl.keystore.password", r"ssl\.key\.password"),
        (ProducerConfig, "sasl.oauthbearer.token.endpoint.url", r"sasl\.login\.callback\.handler"),
        (ProducerConfig, "brokers", r"^brokers is not a producer option: use bootstrap\.servers, "),
        (ConsumerConfig, "servers", r"use bootstrap\.servers, with the HOST:PORT of a broker"),
        (AdminConfig, "port", r"use bootstrap\.servers, with the HOST:PORT of a broker"),
        (ConsumerConfig, "topics", r"topics are named by subscribe\(\)"),
        (ProducerConfig, "zzz", "remove it or check its spelling"),
    ],
)
def test_an_option_that_there_is_not_gets_advice(
    config_class: type[ClientConfig], name: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        read_client_config(config_class, {"bootstrap.servers": SERVERS, name: "1"}, {})


@pytest.mark.parametrize(
    ("config_class", "config", "advice"),
    [
        (ConsumerConfig, "orders", r"'orders' is no dict.*subscribe\(\['orders'\]\)"),
        (ConsumerConfig, "localhost:9092", r"as in bootstrap_servers='localhost:9092'"),
        (ProducerConfig, "localhost", r"as in bootstrap_servers='localhost'"),
        (AdminConfig, ["localhost:9092"], "is no dict of options"),
    ],
)
def test_a_topic_or_an_address_instead_of_options_gets_advice(
    config_class: type[ClientConfig], config: Any, advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        read_client_config(config_class, config, {})


def test_clients_without_an_id_are_numbered() -> None:
    first, second = admin(), admin()
    assert first.client_id != second.client_id
    assert int(second.client_id.removeprefix("adminclient-")) > 0


def test_ids_are_those_of_kafka() -> None:
    servers = {"bootstrap.servers": SERVERS}
    assert ProducerConfig.read(servers).default_client_id(3) == "producer-3"
    named = ProducerConfig.read({**servers, "transactional.id": "till"})
    assert named.default_client_id(3) == "producer-till"
    assert ConsumerConfig.read(servers).default_client_id(3) == "consumer-3"
    member = ConsumerConfig.read({**servers, "group.id": "g", "group.instance.id": "i"})
    assert member.default_client_id(3) == "consumer-g-i"


@pytest.mark.parametrize(
    "low", ["reconnect.backoff", "retry.backoff", "socket.connection.setup.timeout"]
)
def test_of_two_limits_the_default_follows_the_given_one(low: str) -> None:
    first, last = f"{low}.ms", f"{low}.max.ms"
    servers = {"bootstrap.servers": SERVERS}
    up = AdminConfig.read({**servers, first: 70_000})
    assert up.as_mapping()[last] == 70_000
    assert up.notes == (f"{last} is 70000: {first} was given and is above the default",)
    down = AdminConfig.read({**servers, last: 1})
    assert down.as_mapping()[first] == 1
    with pytest.raises(ConfigError, match=rf"{first} \(2\) is above {last} \(1\)"):
        AdminConfig.read({**servers, first: 2, last: 1})


def test_a_config_without_contradictions_has_no_notes() -> None:
    assert admin().notes == ()


def test_an_admins_default_timeout_is_not_below_that_of_requests() -> None:
    config = admin(request_timeout_ms=90_000)
    assert config.default_api_timeout_ms == 90_000
    assert "default.api.timeout.ms is 90000" in config.notes[0]
    config = admin(default_api_timeout_ms=3000)
    assert (config.default_api_timeout_ms, config.request_timeout_ms) == (3000, 3000)
    assert config.notes == (
        "request.timeout.ms is 3000: default.api.timeout.ms was given and is below the default",
    )
    with pytest.raises(ConfigError, match=r"default\.api\.timeout\.ms \(10\) is below"):
        admin(default_api_timeout_ms=10, request_timeout_ms=30_000)


def test_metrics_push_can_only_be_off() -> None:
    assert admin(enable_metrics_push="false").enable_metrics_push is False
    with pytest.raises(ConfigError, match=r"enable\.metrics\.push=true is not available"):
        admin(enable_metrics_push=True)


def test_choices_without_case_have_one_spelling() -> None:
    config = admin(metadata_recovery_strategy="REBOOTSTRAP", security_protocol="plaintext")
    assert config.metadata_recovery_strategy == "rebootstrap"
    assert config.security_protocol == "PLAINTEXT"
    with pytest.raises(ConfigError, match="one of rebootstrap, none"):
        admin(metadata_recovery_strategy="hope")


def test_the_mapping_has_every_option_with_the_value_that_counts() -> None:
    config = ProducerConfig.read({"bootstrap.servers": SERVERS, "acks": "1"})
    mapping = config.as_mapping()
    assert mapping["enable.idempotence"] is False
    assert mapping["bootstrap.servers"] == (SERVERS,)
    assert mapping["transactional.id"] is None


@pytest.mark.parametrize("config_class", CLIENTS)
def test_a_config_survives_as_text(config_class: type[ClientConfig]) -> None:
    config = config_class.read(
        {"bootstrap.servers": SERVERS, "retry.backoff.ms": 5000, "security.protocol": "SSL"}
    )
    assert config_class.read(config.texts()) == config
