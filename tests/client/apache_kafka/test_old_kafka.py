"""The same behaviour with releases of Apache Kafka from 2.1 on."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from tests.client.apache_kafka import consuming, producing, transacting
from tests.client.apache_kafka.old_kafka import RELEASES, Release, running_release
from tests.client.apache_kafka.stage import CASES, Stage, read, read_until

import ottla
from ottla.errors import AbortableError, ErrorCode, FatalError
from ottla.model import TopicPartition

assert {case.body.__module__ for case in CASES} == {
    module.__name__ for module in (consuming, producing, transacting)
}


def refuses_static_members(stage: Stage) -> None:
    """Before KIP-345, a static member is an error that says so."""
    topic = stage.topic()
    options: dict[str, Any] = {"group_id": stage.new_name("group"), "group_instance_id": "one"}
    with stage.consumer(**options) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(FatalError, match=r"leave group\.instance\.id out") as refused:
            consumer.poll(10.0)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def refuses_metadata_of_members(stage: Stage) -> None:
    """Before KIP-447, a transaction takes the group's id only, and the error says so."""
    topic, group = stage.topic(), stage.new_name("group")
    with stage.transactional() as producer, stage.consumer(group_id=group) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        producer.begin_transaction()
        with pytest.raises(AbortableError, match="give the group id") as refused:
            producer.send_offsets_to_transaction({(topic, 0): 1}, consumer.group_metadata())
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        producer.abort_transaction()
        with producer.transaction():
            producer.send_offsets_to_transaction({(topic, 0): 1}, group)
        # The offset is there when its marker is, which takes a moment.
        read_until(
            [consumer], [], lambda: consumer.committed()[TopicPartition(topic, 0)] is not None
        )
        assert consumer.committed() == {(topic, 0): ottla.OffsetAndMetadata(1)}


def has_records_of_older_formats(stage: Stage) -> None:
    """Topics whose messages are from before Kafka 0.11 are read, and written without idempotence."""
    for message_format in ("0.9.0", "0.10.2"):
        topic = stage.topic(message_format_version=message_format)
        with stage.producer() as producer, pytest.raises(AbortableError) as refused:
            producer.send(topic, b"v").result(10.0)
        assert refused.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        expected = []
        for codec in ("none", "gzip", "snappy", "lz4"):
            values = [b"%s %d" % (codec.encode(), number) for number in range(50)]
            options: dict[str, Any] = {"enable_idempotence": False, "compression_type": codec}
            with stage.producer(**options) as producer:
                producer.send_many(topic, values).result(10.0)
            expected += values
        assert stage.values(topic) == expected
        with stage.consumer() as consumer:
            consumer.assign([(topic, 0)])
            consumer.seek((topic, 0), 75)
            assert [record.value for record in read(consumer, 125)] == expected[75:]


def has_the_admin_basics(stage: Stage) -> None:
    """Topics, configs, groups, offsets and the cluster."""
    admin, topic, group = stage.admin, stage.topic(2), stage.new_name("group")
    admin.create_partitions({topic: 3})
    assert len(admin.describe_topics([topic])[topic].partitions) == 3
    resource = ottla.admin.ConfigResource.topic(topic)
    admin.alter_configs({resource: {"retention.ms": "50000"}})
    assert admin.describe_configs([resource])[resource]["retention.ms"].value == "50000"
    admin.alter_consumer_group_offsets(group, {(topic, 0): 0, (topic, 1): 0})
    assert group in admin.list_consumer_groups()
    assert len(admin.list_consumer_group_offsets(group)[group]) == 2
    admin.delete_consumer_groups([group])
    assert group not in admin.list_consumer_groups()
    cluster = admin.describe_cluster()
    assert [node.id for node in cluster.nodes] == [1]
    assert "Produce" in admin.describe_api_versions()[1]
    (folders,) = admin.describe_log_dirs().values()
    assert any((topic, 0) in folder.replicas for folder in folders.values())
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.text)
def test_an_old_kafka_passes_what_it_can(
    release: Release, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bodies = [case.body for case in CASES if case.since <= release.version]
    bodies.append(has_the_admin_basics)
    if release.version < (3, 0):
        bodies.append(has_records_of_older_formats)
    if release.version < (2, 3):
        bodies.append(refuses_static_members)
    if release.version < (2, 5):
        bodies.append(refuses_metadata_of_members)
    jars = release.jars(tmp_path_factory.getbasetemp().parent)
    failed: dict[str, list[str]] = {}
    with (
        running_release(release, jars, tmp_path_factory.mktemp("kafka")) as address,
        ottla.Admin(bootstrap_servers=address) as admin,
    ):
        for body in bodies:
            try:
                body(Stage(address, admin, release.version))
            except Exception:
                failed[body.__name__] = traceback.format_exc().splitlines()
    assert not failed, "\n".join(line for lines in failed.values() for line in lines)
