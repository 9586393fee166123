"""The cluster: brokers, log directories, features, versions."""

from __future__ import annotations

import pytest
from tests.broker.requests import fill
from tests.client.admin.stage import Stage, essential

import ottla
from ottla.admin import FeatureUpdate, FeatureUpgrade, NewTopic, VersionRange
from ottla.client.blocking.admin import Admin
from ottla.errors import ErrorCode, IllegalStateError, KafkaError, TimedOutError
from ottla.model import TopicPartition


@essential
def test_the_cluster_has_an_id_brokers_and_a_controller(stage: Stage) -> None:
    found = stage.admin.describe_cluster()
    assert found.cluster_id
    assert len(found.nodes) == 1
    assert found.nodes[0].host == "127.0.0.1"
    assert found.controller == found.nodes[0]
    assert found.authorized_operations is None
    assert stage.admin.describe_cluster(include_fenced_brokers=True).fenced_node_ids == frozenset()


@essential
def test_log_directories_say_how_large_replicas_are(stage: Stage) -> None:
    topic = stage.topic()
    fill(stage.connection, topic, b"some bytes")
    ((node_id, folders),) = stage.admin.describe_log_dirs().items()
    assert node_id == stage.admin.describe_cluster().nodes[0].id
    (found,) = [folder for folder in folders.values() if (topic, 0) in folder.replicas]
    assert found.error is None
    replica = found.replicas[TopicPartition(topic, 0)]
    assert replica.size_bytes > 10
    assert (replica.offset_lag, replica.is_future) == (0, False)
    assert found.total_bytes is not None
    assert found.usable_bytes is not None
    assert found.total_bytes > found.usable_bytes > 0


@essential
def test_log_directories_may_be_asked_about_some_partitions(stage: Stage) -> None:
    topic = stage.topic(2)
    (folders,) = stage.admin.describe_log_dirs(partitions=[(topic, 1)]).values()
    (found,) = folders.values()
    assert list(found.replicas) == [TopicPartition(topic, 1)]


@essential
def test_features_are_described(stage: Stage) -> None:
    found = stage.admin.describe_features()
    assert found.finalized_features["transaction.version"].max_version == 2
    assert found.supported_features["transaction.version"].max_version >= 2
    node_id = stage.admin.describe_cluster().nodes[0].id
    later = stage.admin.describe_features(node_id=node_id)
    assert later.finalized_features == found.finalized_features
    assert later.supported_features == found.supported_features
    # Kafka's counts everything that it notes about the cluster.
    assert found.finalized_features_epoch is not None
    assert later.finalized_features_epoch is not None
    assert later.finalized_features_epoch >= found.finalized_features_epoch


@essential
def test_the_controllers_are_described(stage: Stage) -> None:
    found = stage.admin.describe_metadata_quorum()
    assert found.leader_id in [voter.replica_id for voter in found.voters]
    assert found.leader_id == stage.admin.describe_cluster().nodes[0].id
    assert found.high_watermark >= 0
    assert list(found.endpoints) == [voter.replica_id for voter in found.voters]


@essential
def test_levels_of_features_that_hold_already_are_accepted(stage: Stage) -> None:
    level = stage.admin.describe_features().finalized_features["group.version"].max_version
    stage.admin.update_features({"group.version": level})
    for wrong in (FeatureUpdate(level + 7), FeatureUpdate(99, FeatureUpgrade.UNSAFE_DOWNGRADE)):
        with pytest.raises(KafkaError, match=r"group\.version") as error:
            stage.admin.update_features({"group.version": wrong}, validate_only=True)
        assert error.value.code is ErrorCode.INVALID_UPDATE_VERSION


@essential
def test_a_broker_that_is_not_registered_cannot_be_forgotten(stage: Stage) -> None:
    with pytest.raises(KafkaError) as error:
        stage.admin.unregister_broker(99)
    assert error.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


@essential
def test_versions_of_all_apis_are_listed_by_name(stage: Stage) -> None:
    (found,) = stage.admin.describe_api_versions().values()
    assert found["CreateTopics"].max_version >= 7
    assert found["DescribeTopicPartitions"] == VersionRange(0, 0)
    assert "Produce" in found


@essential
def test_a_broker_that_is_not_there_is_an_error(stage: Stage) -> None:
    with pytest.raises(KafkaError) as error:
        stage.admin.describe_log_dirs([99])
    assert error.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert "99" in str(error.value)


def test_every_broker_is_asked_for_its_own(three: ottla.Broker, admin_of_three: Admin) -> None:
    admin_of_three.create_topics([NewTopic("on-disks", 3)])
    assert sorted(admin_of_three.describe_log_dirs()) == three.node_ids
    assert sorted(admin_of_three.describe_api_versions()) == three.node_ids
    assert list(admin_of_three.describe_log_dirs([2])) == [2]
    found = admin_of_three.describe_cluster()
    assert [node.id for node in found.nodes] == three.node_ids


def test_requests_are_counted_by_api(stage: Stage) -> None:
    before = stage.admin.metrics().get("request-total{api=DescribeCluster}", 0)
    stage.admin.describe_cluster()
    after = stage.admin.metrics()
    assert after["request-total{api=DescribeCluster}"] == before + 1
    assert after["request-latency-avg{api=DescribeCluster}"] > 0


def test_a_closed_client_refuses_calls(ottla_broker: ottla.Broker) -> None:
    admin = Admin(bootstrap_servers=ottla_broker.bootstrap_servers)
    admin.describe_cluster()
    admin.close()
    admin.close()
    with pytest.raises(IllegalStateError, match="closed"):
        admin.describe_cluster()


def test_where_nobody_listens_the_call_ends_in_time_and_says_so() -> None:
    with Admin(bootstrap_servers="127.0.0.1:1") as admin:
        with pytest.raises(TimedOutError) as error:
            admin.list_topics(timeout=0.3)
        with pytest.raises(TimedOutError) as other:
            admin.create_topics([NewTopic("a", 1)], timeout=0.3)
    assert "127.0.0.1:1" in str(error.value)
    assert "127.0.0.1:1" in str(other.value)
