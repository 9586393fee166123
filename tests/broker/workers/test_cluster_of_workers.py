"""What clients see of workers: one cluster, whose changes are in force everywhere, and that loses nothing."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from tests.waiting import in_time

import ottla
from ottla import Admin, Consumer, Producer
from ottla.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    NewTopic,
    PatternType,
    QuotaEntity,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

WAIT_SECONDS = 60.0
PARTITIONS = 4


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(workers=2, auto_create_topics_enable=False) as found:
        yield found


@pytest.fixture(scope="module")
def admin(broker: ottla.Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as found:
        yield found


def topic_at(broker: ottla.Broker, node_id: int, name: str) -> MetadataResponseTopic:
    """What a node says of a topic."""
    asked = MetadataRequestTopic(name=name)
    with RawConnection(broker.address_of(node_id)) as connection:
        request = MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
        found: MetadataResponseTopic
        (found,) = connection.call(request, MetadataResponse, 12).topics
    return found


def test_topics_are_known_and_gone_everywhere_when_that_is_answered(
    broker: ottla.Broker, admin: Admin
) -> None:
    ids = set()
    for _ in range(5):
        admin.create_topics([NewTopic("again", num_partitions=PARTITIONS)])
        at_first, at_second = topic_at(broker, 1, "again"), topic_at(broker, 2, "again")
        assert at_first.error_code == at_second.error_code == ErrorCode.NONE
        assert at_first.topic_id == at_second.topic_id
        ids.add(at_first.topic_id)
        leaders = [each.leader_id for each in at_first.partitions]
        assert leaders == [each.leader_id for each in at_second.partitions]
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            # Nothing of the earlier topic of this name is left.
            sent = [producer.send("again", b"x", partition=each) for each in range(PARTITIONS)]
            assert [each.result(WAIT_SECONDS).offset for each in sent] == [0] * PARTITIONS
        admin.delete_topics(["again"])
        for node_id in (1, 2):
            error = topic_at(broker, node_id, "again").error_code
            assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(ids) == 5


def test_quotas_are_known_everywhere(broker: ottla.Broker, admin: Admin) -> None:
    admin.alter_client_quotas({QuotaEntity(client_id="slow"): {"producer_byte_rate": 1000.0}})
    asked = ComponentData(entity_type="client-id", match_type=0, match="slow")
    for node_id in (1, 2):
        with RawConnection(broker.address_of(node_id)) as connection:
            request = DescribeClientQuotasRequest(components=[asked], strict=True)
            answer = connection.call(request, DescribeClientQuotasResponse, 1)
        assert answer.entries is not None
        (entry,) = answer.entries
        assert [(each.key, each.value) for each in entry.values] == [("producer_byte_rate", 1000.0)]


def read_all(broker: ottla.Broker, topic: str, counts: dict[int, int]) -> dict[int, list[bytes]]:
    """The values of each partition, read until there are so many, and what may be behind them."""
    options = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "nobody",
        "isolation.level": "read_committed",
    }
    consumer = ConfluentConsumer(options)
    found: dict[int, list[bytes]] = defaultdict(list)
    try:
        consumer.assign([ConfluentPartition(topic, partition, 0) for partition in counts])
        deadline = time.monotonic() + WAIT_SECONDS
        while any(len(found[partition]) < count for partition, count in counts.items()):
            in_time(deadline, f"{ {each: len(values) for each, values in found.items()} }")
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    partition, value = message.partition(), message.value()
                    assert partition is not None
                    assert value is not None
                    found[partition].append(value)
        assert not [each for each in consumer.consume(1, 0.3) if each.error() is None]
    finally:
        consumer.close()
    return dict(found)


def test_idempotent_producers_lose_and_double_nothing_while_workers_die(
    broker: ottla.Broker, admin: Admin
) -> None:
    admin.create_topics([NewTopic("sure", num_partitions=PARTITIONS)])
    options = {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True}
    producer = ConfluentProducer(options)
    kills = {500: 1, 1000: 2, 1500: 1}
    for number in range(2000):
        producer.produce("sure", b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0)
        if number in kills:
            broker.kill_node(kills[number])
            broker.start_node(kills[number])
    assert producer.flush(WAIT_SECONDS) == 0
    found = read_all(broker, "sure", dict.fromkeys(range(PARTITIONS), 500))
    for partition in range(PARTITIONS):
        assert found[partition] == [b"%d" % each for each in range(partition, 2000, PARTITIONS)]


def test_transactions_over_all_nodes_are_whole_while_workers_die(
    broker: ottla.Broker, admin: Admin
) -> None:
    admin.create_topics([NewTopic("whole", num_partitions=PARTITIONS)])
    options = {
        "bootstrap.servers": broker.bootstrap_servers,
        "transactional.id": "whole",
        "transaction.timeout.ms": 60_000,
    }
    producer = ConfluentProducer(options)
    producer.init_transactions(WAIT_SECONDS)
    committed: list[bytes] = []
    for number in range(12):
        producer.begin_transaction()
        value = b"%d" % number
        for partition in range(PARTITIONS):
            producer.produce("whole", value, partition=partition)
        if number % 4 == 3:
            # Between the records and their end: its markers are written by workers of which one has just come back.
            producer.flush(WAIT_SECONDS)
            broker.kill_node(1 + number % 2)
        if number % 3 == 2:
            producer.abort_transaction(WAIT_SECONDS)
        else:
            producer.commit_transaction(WAIT_SECONDS)
            committed.append(value)
        broker.start_node(1)
        broker.start_node(2)
    found = read_all(broker, "whole", dict.fromkeys(range(PARTITIONS), len(committed)))
    assert found == dict.fromkeys(range(PARTITIONS), committed)


def test_users_and_acls_are_in_force_everywhere() -> None:
    with (
        ottla.Broker(workers=2, security="scram") as secured,
        Admin(secured.client_options()) as admin,
    ):
        admin.create_topics([NewTopic("secret", num_partitions=2)])
        assert {secured.leader_of("secret", each) for each in range(2)} == {1, 2}
        admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion("carol", "a password", ScramMechanism.SCRAM_SHA_512)]
        )
        options = {
            **secured.client_options(),
            "sasl.username": "carol",
            "sasl.password": "a password",
            "retries": 0,
        }
        allowed = AclBinding(
            AclResourceType.TOPIC,
            "secret",
            PatternType.LITERAL,
            "User:carol",
            "*",
            AclOperation.WRITE,
            AclPermission.ALLOW,
        )
        for node_id in (1, 2):
            at_node = {**options, "bootstrap.servers": secured.address_of(node_id)}
            with Admin(at_node) as carol:  # she can log in
                assert carol.list_topics() == {}
        for _ in range(3):
            admin.create_acls([allowed])
            with Producer(options) as producer:
                for partition in range(2):
                    producer.send("secret", b"x", partition=partition).result(WAIT_SECONDS)
            admin.delete_acls([AclFilter()])
            with Producer(options) as producer:
                for partition in range(2):
                    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                        producer.send("secret", b"x", partition=partition).result(WAIT_SECONDS)


def test_data_groups_and_transactions_survive_any_number_of_workers(tmp_path: Path) -> None:
    written: list[bytes] = []
    for round_number, workers in enumerate([2, 3, 1, 2]):
        with ottla.Broker(workers=workers, data_dir=tmp_path / "data") as broker:
            servers = broker.bootstrap_servers
            with Admin(bootstrap_servers=servers) as admin:
                if round_number == 0:
                    admin.create_topics([NewTopic("moved", num_partitions=PARTITIONS)])
                else:
                    found = read_all(
                        broker, "moved", dict.fromkeys(range(PARTITIONS), len(written))
                    )
                    assert found == dict.fromkeys(range(PARTITIONS), written)
                    offsets = admin.list_consumer_group_offsets(["movers"])["movers"]
                    assert [each and each.offset for each in offsets.values()] == [
                        round_number
                    ] * PARTITIONS
                    (listed,) = admin.list_transactions().values()
                    assert listed.state == "CompleteCommit"
            if workers > 1:
                leaders = {broker.leader_of("moved", each) for each in range(PARTITIONS)}
                assert leaders == set(range(1, workers + 1))
            written.append(b"%d" % round_number)
            add_one(servers, written[-1], len(written))


def add_one(servers: str, value: bytes, position: int) -> None:
    """A transaction over all partitions, with the positions of a group; its id is known from before."""
    with Producer(bootstrap_servers=servers, transactional_id="mover") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send("moved", value, partition=partition)
        positions = {("moved", partition): position for partition in range(PARTITIONS)}
        producer.send_offsets_to_transaction(positions, "movers")
        producer.commit_transaction()


def test_a_group_goes_on_after_its_coordinator_died(broker: ottla.Broker, admin: Admin) -> None:
    admin.create_topics([NewTopic("followed", num_partitions=PARTITIONS)])
    options = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "followers",
        "auto.offset.reset": "earliest",
    }
    with (
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        Consumer(options) as reader,
    ):
        reader.subscribe(["followed"])
        seen: list[bytes | None] = []
        for round_number in range(3):
            for partition in range(PARTITIONS):
                producer.send("followed", b"%d" % round_number, partition=partition)
            producer.flush()
            deadline = time.monotonic() + WAIT_SECONDS
            while len(seen) < PARTITIONS * (round_number + 1):
                in_time(deadline, seen)
                seen += [record.value for record in reader.poll(0.5)]
            reader.commit()
            coordinator = broker.leader_of("__consumer_offsets", 0)
            for node_id in (coordinator, 3 - coordinator):
                broker.kill_node(node_id)
                broker.start_node(node_id)
        assert sorted(map(str, seen)) == sorted(
            str(b"%d" % each) for each in range(3) for _ in range(PARTITIONS)
        )
