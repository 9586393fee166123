"""Any client with admin functions creates, describes, alters and deletes topics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.clients.driver import Driver, RefusedError
from tests.clients.messages import Message, numbered

from ottla.errors import ErrorCode
from ottla.model import TopicPartition

CONFIGS = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "3600000",
    "max.message.bytes": "200000",
    "compression.type": "zstd",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
}
# What a cluster of Kafka's tells of a compacted topic, and MirrorMaker 2, Kafka Connect and operators pass on.
OPTIONS_OF_ANOTHER_CLUSTER = {
    "cleanup.policy": "compact",
    "compression.gzip.level": "-1",
    "follower.replication.throttled.replicas": "",
    "leader.replication.throttled.replicas": "0:1,1:1",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "min.insync.replicas": "1",
    "preallocate": "true",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "unclean.leader.election.enable": "false",
}


def test_a_topic_has_the_partitions_and_options_it_was_created_with(
    admin_client: Driver, ottla_topic: str
) -> None:
    with admin_client.admin() as admin:
        admin.create_topic(ottla_topic, 7, CONFIGS)
        assert ottla_topic in admin.topics()
        assert admin.partition_count(ottla_topic) == 7
        described = admin.configs(ottla_topic)
    assert {name: described[name] for name in CONFIGS} == CONFIGS
    # And Kafka's default where nothing was given.
    assert described["segment.bytes"] == "1073741824"
    assert described["min.insync.replicas"] == "1"


def test_a_compacted_topic_of_another_cluster_is_compacted_here(
    admin_client: Driver, ottla_topic: str
) -> None:
    with admin_client.admin() as admin:
        admin.create_topic(ottla_topic, 2, OPTIONS_OF_ANOTHER_CLUSTER)
        described = admin.configs(ottla_topic)
        shown = {name: described[name] or "" for name in OPTIONS_OF_ANOTHER_CLUSTER}
        assert shown == OPTIONS_OF_ANOTHER_CLUSTER
        # A record without a key is what only a compacted topic refuses.
        with pytest.raises(RefusedError):
            admin_client.send(ottla_topic, [Message(b"value")])
        admin.set_config(ottla_topic, "unclean.leader.election.enable", "true")
        with pytest.raises(
            RefusedError, match=r"remote\.storage\.enable=true is refused"
        ) as caught:
            admin.set_config(ottla_topic, "remote.storage.enable", "true")
        afterwards = admin.configs(ottla_topic)
    assert caught.value.error is ErrorCode.INVALID_CONFIG
    assert afterwards["unclean.leader.election.enable"] == "true"
    assert afterwards["remote.storage.enable"] == "false"


def test_a_deleted_topic_is_gone_and_its_name_free(admin_client: Driver, ottla_topic: str) -> None:
    with admin_client.admin() as admin:
        admin.create_topic(ottla_topic, 3)
        admin_client.send(ottla_topic, numbered(5))
        admin.delete_topic(ottla_topic)
        assert ottla_topic not in admin.topics()
        admin.create_topic(ottla_topic, 2)
        assert admin.partition_count(ottla_topic) == 2
    with admin_client.consumer() as consumer:
        assert consumer.bounds(TopicPartition(ottla_topic, 0)) == (0, 0)


def test_an_altered_option_counts_at_once(admin_client: Driver, ottla_topic: str) -> None:
    with admin_client.admin() as admin:
        admin.create_topic(ottla_topic)
        admin.set_config(ottla_topic, "max.message.bytes", "1000")
        assert admin.configs(ottla_topic)["max.message.bytes"] == "1000"
    with pytest.raises(RefusedError) as caught:
        admin_client.send(ottla_topic, [Message(bytes(2000))])
    assert caught.value.error is ErrorCode.MESSAGE_TOO_LARGE
    assert admin_client.send(ottla_topic, [Message(bytes(500))]) == [0]


def test_an_option_with_a_wrong_value_is_refused(admin_client: Driver, ottla_topic: str) -> None:
    with admin_client.admin() as admin:
        admin.create_topic(ottla_topic)
        with pytest.raises(RefusedError) as caught:
            admin.set_config(ottla_topic, "retention.ms", "long")
        assert caught.value.error is ErrorCode.INVALID_CONFIG
        assert admin.configs(ottla_topic)["retention.ms"] == "604800000"


def test_a_topic_gets_more_partitions(admin_client: Driver, ottla_topic: str) -> None:
    with admin_client.admin() as admin:
        admin.create_topic(ottla_topic, 2)
        admin.create_partitions(ottla_topic, 5)
        assert admin.partition_count(ottla_topic) == 5
        with pytest.raises(RefusedError) as caught:
            admin.create_partitions(ottla_topic, 3)
    assert caught.value.error is ErrorCode.INVALID_PARTITIONS
    assert admin_client.send(ottla_topic, numbered(3), partition=4) == [0, 1, 2]


def test_deleted_records_are_not_read_again(admin_client: Driver, ottla_topic: str) -> None:
    partition = TopicPartition(ottla_topic, 0)
    admin_client.send(ottla_topic, numbered(10))
    with admin_client.admin() as admin, admin_client.consumer() as consumer:
        assert admin.delete_records(partition, 4) == 4
        assert consumer.bounds(partition) == (4, 10)
        with pytest.raises(RefusedError) as caught:
            admin.delete_records(partition, 11)
        assert caught.value.error is ErrorCode.OFFSET_OUT_OF_RANGE
        # -1 stands for all that is there.
        assert admin.delete_records(partition, -1) == 10
        assert consumer.bounds(partition) == (10, 10)
    assert admin_client.send(ottla_topic, numbered(1)) == [10]


@pytest.mark.parametrize("make", [lambda name: name[-1:], lambda name: name.ljust(249, "x")])
def test_the_shortest_and_longest_names_are_good(
    admin_client: Driver,
    ottla_topic_name: Callable[[], str],
    make: Callable[[str], str],
) -> None:
    topic = make(f"._-{ottla_topic_name()}")
    with admin_client.admin() as admin:
        if topic in admin.topics():
            admin.delete_topic(topic)
    assert admin_client.send(topic, numbered(3)) == [0, 1, 2]
    assert [one.content for one in admin_client.read(topic, 3)] == numbered(3)


@pytest.mark.parametrize("name", ["", ".", "..", "with space", "kůň", "a/b", "x" * 250])
def test_a_name_that_is_no_topic_name_is_refused(admin_client: Driver, name: str) -> None:
    with admin_client.admin() as admin, pytest.raises(RefusedError) as caught:
        admin.create_topic(name)
    assert caught.value.error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_that_exists_is_not_created_again(admin_client: Driver, ottla_topic: str) -> None:
    with admin_client.admin() as admin:
        admin.create_topic(ottla_topic, 2)
        with pytest.raises(RefusedError) as caught:
            admin.create_topic(ottla_topic, 3)
        assert caught.value.error is ErrorCode.TOPIC_ALREADY_EXISTS
        assert admin.partition_count(ottla_topic) == 2


def test_more_replicas_than_brokers_are_refused(admin_client: Driver, ottla_topic: str) -> None:
    with admin_client.admin() as admin:
        with pytest.raises(RefusedError) as caught:
            admin.create_topic(ottla_topic, replication_factor=3)
        assert caught.value.error is ErrorCode.INVALID_REPLICATION_FACTOR
        assert ottla_topic not in admin.topics()
        if admin_client.takes_default_replication:
            admin.create_topic(ottla_topic, replication_factor=-1)
            assert admin.partition_count(ottla_topic) == 1


def test_an_unknown_option_is_refused(admin_client: Driver, ottla_topic: str) -> None:
    with admin_client.admin() as admin, pytest.raises(RefusedError) as caught:
        admin.create_topic(ottla_topic, configs={"no.such.option": "1"})
    assert caught.value.error is ErrorCode.INVALID_CONFIG


def test_what_does_not_exist_cannot_be_deleted(admin_client: Driver, ottla_topic: str) -> None:
    with admin_client.admin() as admin, pytest.raises(RefusedError) as caught:
        admin.delete_topic(ottla_topic)
    assert caught.value.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
