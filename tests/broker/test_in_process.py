"""Clients in the broker's own process: they need no listener and no login, and nobody else gets in that way."""

from __future__ import annotations

import asyncio

import pytest
from tests.broker.requests import on_loop

import ottla
from ottla import in_process
from ottla.errors import KafkaError

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_a_part_of_the_process_may_do_what_a_node_may() -> None:
    with ottla.Broker(authorizer_class_name=AUTHORIZER, super_users="User:admin") as broker:
        servers = on_loop(broker, lambda found: found.in_process_servers())
        assert servers == on_loop(broker, lambda found: found.in_process_servers())
        with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as stranger:
            assert stranger.list_topics() == {}
        with (
            ottla.Admin(bootstrap_servers=servers) as admin,
            ottla.Producer(bootstrap_servers=servers, transactional_id="t") as producer,
        ):
            admin.create_topics([ottla.admin.NewTopic("orders", 1)])
            producer.init_transactions()
            with producer.transaction():
                producer.send("orders", b"v")
        with ottla.Consumer(
            bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["orders"])
            while not (records := consumer.poll(1)):
                pass
            assert [record.value for record in records] == [b"v"]
    with (
        ottla.Admin(bootstrap_servers=servers, default_api_timeout_ms=300) as admin,
        pytest.raises(KafkaError, match="no server of this process"),
    ):
        admin.list_topics()


def test_rates_of_connections_are_for_clients_outside() -> None:
    with ottla.Broker(max_connection_creation_rate=1) as broker:
        with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            entity = ottla.admin.QuotaEntity(ip=ottla.admin.QuotaName.DEFAULT)
            admin.alter_client_quotas({entity: {"connection_creation_rate": 1}})
        servers = on_loop(broker, lambda found: found.in_process_servers())
        for _ in range(30):
            with ottla.Admin(bootstrap_servers=servers, default_api_timeout_ms=1000) as admin:
                admin.list_topics()


def test_the_address_means_nothing_to_others() -> None:
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(in_process.connect("guessed.in-process.invalid"))
