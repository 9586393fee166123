"""Every API that the broker serves has its call, which asks that API and has a test; the guide says the same."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from tests.broker import group_requests
from tests.client.admin import (
    test_acls,
    test_cluster,
    test_configs,
    test_groups,
    test_offsets,
    test_quotas,
    test_topics,
    test_transactions,
    test_users,
)
from tests.client.admin.stage import Stage

from ottla.admin import (
    AbortTransactionSpec,
    AlterConfig,
    ConfigResource,
    ElectionType,
    NewTopic,
    QuotaEntity,
    UserScramCredentialUpsertion,
)
from ottla.broker import handlers
from ottla.broker.requests.apis import SERVED
from ottla.client.blocking.admin import Admin
from ottla.errors import KafkaError
from ottla.model import TopicPartition

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "admin.md"
MODULES = (
    test_acls,
    test_cluster,
    test_configs,
    test_groups,
    test_offsets,
    test_quotas,
    test_topics,
    test_transactions,
    test_users,
)

# Call → the APIs that it asks, beside those that find the node (Metadata, FindCoordinator).
TABLE: dict[str, tuple[str, ...]] = {
    "create_topics": ("CreateTopics",),
    "delete_topics": ("DeleteTopics",),
    "list_topics": ("Metadata",),
    "describe_topics": ("DescribeTopicPartitions", "Metadata"),
    "describe_all_topics": ("DescribeTopicPartitions",),
    "create_partitions": ("CreatePartitions",),
    "elect_leaders": ("ElectLeaders",),
    "list_partition_reassignments": ("ListPartitionReassignments",),
    "alter_partition_reassignments": ("AlterPartitionReassignments",),
    "list_config_resources": ("ListConfigResources",),
    "describe_configs": ("DescribeConfigs",),
    "alter_configs": ("AlterConfigs",),
    "incremental_alter_configs": ("IncrementalAlterConfigs",),
    "list_groups": ("ListGroups",),
    "list_consumer_groups": ("ListGroups",),
    "describe_groups": ("FindCoordinator", "ConsumerGroupDescribe", "DescribeGroups"),
    "describe_consumer_groups": ("FindCoordinator", "ConsumerGroupDescribe", "DescribeGroups"),
    "delete_consumer_groups": ("FindCoordinator", "DeleteGroups"),
    "remove_members_from_consumer_group": ("FindCoordinator", "LeaveGroup"),
    "list_consumer_group_offsets": ("FindCoordinator", "OffsetFetch"),
    "alter_consumer_group_offsets": ("FindCoordinator", "OffsetCommit"),
    "delete_consumer_group_offsets": ("FindCoordinator", "OffsetDelete"),
    "list_offsets": ("ListOffsets",),
    "offsets_for_leader_epochs": ("OffsetForLeaderEpoch",),
    "delete_records": ("DeleteRecords",),
    "list_transactions": ("ListTransactions",),
    "describe_transactions": ("FindCoordinator", "DescribeTransactions"),
    "abort_transaction": ("WriteTxnMarkers",),
    "describe_producers": ("DescribeProducers",),
    "fence_producers": ("FindCoordinator", "InitProducerId"),
    "describe_cluster": ("DescribeCluster",),
    "describe_log_dirs": ("DescribeLogDirs",),
    "describe_features": ("ApiVersions",),
    "describe_api_versions": ("ApiVersions",),
    "update_features": ("UpdateFeatures",),
    "describe_metadata_quorum": ("DescribeQuorum",),
    "unregister_broker": ("UnregisterBroker",),
    "create_acls": ("CreateAcls",),
    "describe_acls": ("DescribeAcls",),
    "delete_acls": ("DeleteAcls",),
    "alter_user_scram_credentials": ("AlterUserScramCredentials",),
    "describe_user_scram_credentials": ("DescribeUserScramCredentials",),
    "alter_client_quotas": ("AlterClientQuotas",),
    "describe_client_quotas": ("DescribeClientQuotas",),
}
NOT_FOR_ADMINISTRATORS = {
    "Produce": "writing is the producer's",
    "Fetch": "reading is the consumer's",
    "JoinGroup": "a consumer joins for itself",
    "SyncGroup": "a consumer joins for itself",
    "Heartbeat": "a consumer lives for itself",
    "ConsumerGroupHeartbeat": "a consumer joins and lives for itself",
    "AlterReplicaLogDirs": "a broker has one folder",
    "AddPartitionsToTxn": "part of a producer's transaction",
    "AddOffsetsToTxn": "part of a producer's transaction",
    "TxnOffsetCommit": "part of a producer's transaction",
    "EndTxn": "part of a producer's transaction",
    "GetTelemetrySubscriptions": "a client pushes its own metrics",
    "PushTelemetry": "a client pushes its own metrics",
    "SaslHandshake": "part of making a connection",
    "SaslAuthenticate": "part of making a connection",
}
NO_CALLS = {"metrics", "close"}

TOPIC, GROUP, ID = "of-the-table", "group-of-the-table", "id-of-the-table"
PARTITION = (TOPIC, 0)
RESOURCE = ConfigResource.topic(TOPIC)
ACL = test_acls.allowed("User:of-the-table", TOPIC)
QUOTAS_OF = QuotaEntity(user="of-the-table")
CALLS: dict[str, Callable[[Admin], object]] = {
    "create_topics": lambda a: a.create_topics([NewTopic("another", 1)]),
    "delete_topics": lambda a: a.delete_topics(["another"]),
    "list_topics": lambda a: a.list_topics(),
    "describe_topics": lambda a: a.describe_topics(
        [one.topic_id for one in a.describe_topics([TOPIC]).values() if one.topic_id is not None]
    ),
    "describe_all_topics": lambda a: a.describe_all_topics(),
    "create_partitions": lambda a: a.create_partitions({TOPIC: 2}),
    "elect_leaders": lambda a: a.elect_leaders(ElectionType.PREFERRED),
    "list_partition_reassignments": lambda a: a.list_partition_reassignments(),
    "alter_partition_reassignments": lambda a: a.alter_partition_reassignments({PARTITION: [1]}),
    "list_config_resources": lambda a: a.list_config_resources(),
    "describe_configs": lambda a: a.describe_configs([RESOURCE]),
    "alter_configs": lambda a: a.alter_configs({RESOURCE: {}}),
    "incremental_alter_configs": lambda a: a.incremental_alter_configs(
        {RESOURCE: [AlterConfig("retention.ms", "1")]}
    ),
    "list_groups": lambda a: a.list_groups(),
    "list_consumer_groups": lambda a: a.list_consumer_groups(),
    "describe_groups": lambda a: a.describe_groups([GROUP]),
    "describe_consumer_groups": lambda a: a.describe_consumer_groups([GROUP]),
    "delete_consumer_groups": lambda a: a.delete_consumer_groups([GROUP]),
    "remove_members_from_consumer_group": lambda a: a.remove_members_from_consumer_group(GROUP),
    "list_consumer_group_offsets": lambda a: a.list_consumer_group_offsets([GROUP]),
    "alter_consumer_group_offsets": lambda a: a.alter_consumer_group_offsets(GROUP, {PARTITION: 0}),
    "delete_consumer_group_offsets": lambda a: a.delete_consumer_group_offsets(GROUP, [PARTITION]),
    "list_offsets": lambda a: a.list_offsets({PARTITION: -1}),
    "offsets_for_leader_epochs": lambda a: a.offsets_for_leader_epochs({PARTITION: 0}),
    "delete_records": lambda a: a.delete_records({PARTITION: 0}),
    "list_transactions": lambda a: a.list_transactions(),
    "describe_transactions": lambda a: a.describe_transactions([ID]),
    "abort_transaction": lambda a: a.abort_transaction(
        AbortTransactionSpec(TopicPartition(*PARTITION), 0, 0, 0)
    ),
    "describe_producers": lambda a: a.describe_producers([PARTITION]),
    "fence_producers": lambda a: a.fence_producers([ID]),
    "describe_cluster": lambda a: a.describe_cluster(),
    "describe_log_dirs": lambda a: a.describe_log_dirs(),
    "describe_features": lambda a: a.describe_features(),
    "describe_api_versions": lambda a: a.describe_api_versions(),
    "update_features": lambda a: a.update_features({"group.version": 1}),
    "describe_metadata_quorum": lambda a: a.describe_metadata_quorum(),
    "unregister_broker": lambda a: a.unregister_broker(99),
    "create_acls": lambda a: a.create_acls([ACL]),
    "describe_acls": lambda a: a.describe_acls(),
    "delete_acls": lambda a: a.delete_acls([ACL.to_filter()]),
    "alter_user_scram_credentials": lambda a: a.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("of-the-table", "secret")]
    ),
    "describe_user_scram_credentials": lambda a: a.describe_user_scram_credentials(),
    "alter_client_quotas": lambda a: a.alter_client_quotas({QUOTAS_OF: {"request_percentage": 9}}),
    "describe_client_quotas": lambda a: a.describe_client_quotas(),
}


def requests_of(admin: Admin) -> dict[str, float]:
    return {
        name.removeprefix("request-total{api=").removesuffix("}"): count
        for name, count in admin.metrics().items()
        if name.startswith("request-total")
    }


def test_every_api_that_the_broker_serves_has_a_call() -> None:
    asked = {api for apis in TABLE.values() for api in apis}
    not_enabled = {
        import_module(f"{handlers.not_enabled.__name__}.{module.name}").API.name
        for module in iter_modules(handlers.not_enabled.__path__)
    }
    served = {api.name for api in SERVED.values()} - not_enabled
    assert served - asked - set(NOT_FOR_ADMINISTRATORS) == set()
    assert asked <= served
    assert not asked & set(NOT_FOR_ADMINISTRATORS)


def test_every_call_is_in_the_table() -> None:
    public = {name for name in vars(Admin) if not name.startswith("_")}
    assert public - NO_CALLS == set(TABLE) == set(CALLS)


def test_every_call_has_a_test() -> None:
    sources = "".join(inspect.getsource(module) for module in MODULES)
    assert [name for name in TABLE if f".{name}(" not in sources] == []


@pytest.fixture(scope="module")
def prepared(admin: Admin) -> Admin:
    admin.create_topics([NewTopic(TOPIC, 1), NewTopic("another", 1)])
    return admin


@pytest.mark.parametrize("name", TABLE)
def test_each_call_asks_what_the_table_says(prepared: Admin, stage: Stage, name: str) -> None:
    if name == "remove_members_from_consumer_group":
        group_requests.await_coordinator(stage.connection, GROUP)
        group_requests.enter(stage.connection, GROUP, instance_id="static")
    before = requests_of(prepared)
    with contextlib.suppress(KafkaError):
        CALLS[name](prepared)
    after = requests_of(prepared)
    assert [api for api in TABLE[name] if after.get(api, 0) == before.get(api, 0)] == []


def test_the_guide_has_the_same_table() -> None:
    rows = {}
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            call, apis, *_ = line.strip("| ").split(" | ")
            rows[call.strip("`")] = tuple(apis.split(", "))
    assert rows == TABLE
