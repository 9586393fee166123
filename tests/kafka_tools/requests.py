"""Requests whose answers are compared with those of Apache Kafka, word for word."""

from __future__ import annotations

import importlib
import re
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

from ottla.client.raw import RawConnection
from ottla.wire.declare import info_of
from ottla.wire.messages import (
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    create_acls,
    create_delegation_token,
    create_topics,
    delete_acls,
    delete_share_group_offsets,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_delegation_token,
    describe_quorum,
    describe_share_group_offsets,
    describe_user_scram_credentials,
    expire_delegation_token,
    incremental_alter_configs,
    list_config_resources,
    remove_raft_voter,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    unregister_broker,
    update_features,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
SPECIFIED, DEFAULT, EXACT = 2, 1, 0
LOGGER = 8
TOPIC = "moving"


class Question(NamedTuple):
    """A request in one version."""

    request: Any
    version: int

    @property
    def title(self) -> str:
        return f"v{self.version} {self.request}"


def create_topic(connection: RawConnection) -> None:
    """The topic that some of the requests name."""
    wanted = create_topics.CreatableTopic(
        name=TOPIC, num_partitions=2, replication_factor=1, assignments=[], configs=[]
    )
    request = create_topics.CreateTopicsRequest(
        topics=[wanted], timeout_ms=5000, validate_only=False
    )
    answer = connection.call(request, create_topics.CreateTopicsResponse, 7)
    assert [topic.error_code for topic in answer.topics] == [0], answer


def questions() -> list[Question]:
    return [
        Question(request, version)
        for request, versions in [
            *_features(),
            *_quorum(),
            *_config_resources(),
            *_loggers(),
            *_replicas(),
            *_acls(),
            *_tokens(),
            *_users(),
            *_groups(),
        ]
        for version in versions
    ]


Asked = Iterator[tuple[Any, list[int]]]


def _features() -> Asked:
    def update(*levels: tuple[str, int, int], validate_only: bool = False) -> Any:
        return update_features.UpdateFeaturesRequest(
            feature_updates=[
                update_features.FeatureUpdateKey(
                    feature=name, max_version_level=level, upgrade_type=upgrade_type
                )
                for name, level, upgrade_type in levels
            ],
            validate_only=validate_only,
        )

    yield update(("metadata.version", 30, UPGRADE)), [0, 1, 2]
    for upgrade_type in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, 0, 9):
        yield update(("group.version", 1, upgrade_type)), [2]
    yield (
        update(
            ("group.version", 1, UPGRADE), ("transaction.version", 2, UPGRADE), validate_only=True
        ),
        [1, 2],
    )
    for name, level in (
        ("group.version", 0),
        ("group.version", 5),
        ("group.version", -1),
        ("nonsense", 1),
        ("nonsense", 0),
        ("metadata.version", 31),
        ("metadata.version", 29),
        ("metadata.version", 6),
        ("kraft.version", 0),
        ("kraft.version", 2),
    ):
        yield update((name, level, UPGRADE)), [1, 2]
    yield update(("metadata.version", 20, SAFE_DOWNGRADE), validate_only=True), [2]
    yield update(("metadata.version", 20, UNSAFE_DOWNGRADE), validate_only=True), [2]
    yield update(("kraft.version", 1, SAFE_DOWNGRADE), validate_only=True), [2]
    yield update(("kraft.version", 0, SAFE_DOWNGRADE), validate_only=True), [2]
    yield update(("group.version", 1, UPGRADE), ("group.version", 0, UPGRADE)), [2]
    yield update(), [0, 2]


def _quorum() -> Asked:
    def ask(*topics: tuple[str, list[int]]) -> Any:
        return describe_quorum.DescribeQuorumRequest(
            topics=[
                describe_quorum.TopicData(
                    topic_name=name,
                    partitions=[
                        describe_quorum.PartitionData(partition_index=one) for one in partitions
                    ],
                )
                for name, partitions in topics
            ]
        )

    yield ask(("__cluster_metadata", [0])), [0, 1, 2]
    yield ask(("__cluster_metadata", [0, 1])), [2]
    yield ask(("missing", [0])), [1, 2]
    yield ask(), [2]
    yield unregister_broker.UnregisterBrokerRequest(broker_id=77), [0]
    yield (
        remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=None, voter_id=5, voter_directory_id=uuid.UUID(int=9)
        ),
        [0],
    )


def _config_resources() -> Asked:
    yield list_config_resources.ListConfigResourcesRequest(), [0]
    for types in ([4], [8], [4, 8], [3], [4, 77]):
        yield list_config_resources.ListConfigResourcesRequest(resource_types=types), [1]


def _loggers() -> Asked:
    for name in ("", "2", "x"):
        wanted = describe_configs.DescribeConfigsResource(
            resource_type=LOGGER, resource_name=name, configuration_keys=None
        )
        yield (
            describe_configs.DescribeConfigsRequest(
                resources=[wanted], include_synonyms=True, include_documentation=False
            ),
            [4],
        )
    replaced = alter_configs.AlterConfigsResource(
        resource_type=LOGGER,
        resource_name="1",
        configs=[alter_configs.AlterableConfig(name="root", value="INFO")],
    )
    yield alter_configs.AlterConfigsRequest(resources=[replaced], validate_only=True), [2]
    for operation, name, value, broker in (
        (0, "root", "INFO", "1"),
        (0, "missing", "INFO", "1"),
        (0, "root", "LOUD", "1"),
        (0, "root", None, "1"),
        (1, "root", None, "1"),
        (1, "missing", None, "1"),
        (2, "root", "INFO", "1"),
        (3, "root", "INFO", "1"),
        (0, "root", "INFO", "2"),
        (0, "root", "INFO", ""),
        (0, "root", "INFO", "x"),
    ):
        altered = incremental_alter_configs.AlterConfigsResource(
            resource_type=LOGGER,
            resource_name=broker,
            configs=[
                incremental_alter_configs.AlterableConfig(
                    name=name, config_operation=operation, value=value
                )
            ],
        )
        yield (
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[altered], validate_only=True
            ),
            [1],
        )


def _replicas() -> Asked:
    def reassign(
        *partitions: tuple[int, list[int] | None], topic: str = TOPIC, may_change: bool = True
    ) -> Any:
        return alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=may_change,
            topics=[
                alter_partition_reassignments.ReassignableTopic(
                    name=topic,
                    partitions=[
                        alter_partition_reassignments.ReassignablePartition(
                            partition_index=number, replicas=replicas
                        )
                        for number, replicas in partitions
                    ],
                )
            ],
        )

    yield reassign((0, [1]), (1, None), (7, [1])), [0, 1]
    yield reassign((0, []), (1, [2])), [1]
    yield reassign((0, [1, 1]), (1, [1, 2])), [1]
    yield reassign((0, [1]), may_change=False), [1]
    yield reassign((0, [1]), topic="missing"), [1]
    elsewhere = alter_replica_log_dirs.AlterReplicaLogDir(
        path="/nowhere",
        topics=[
            alter_replica_log_dirs.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0]),
            alter_replica_log_dirs.AlterReplicaLogDirTopic(name="missing", partitions=[0]),
        ],
    )
    yield alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[elsewhere]), [1, 2]


def _acls() -> Asked:
    yield (
        describe_acls.DescribeAclsRequest(
            resource_type_filter=2,
            resource_name_filter=None,
            pattern_type_filter=3,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        ),
        [1, 3],
    )
    creation = create_acls.AclCreation(
        resource_type=2,
        resource_name="a",
        resource_pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    for creations in ([creation, creation], []):
        yield create_acls.CreateAclsRequest(creations=creations), [1, 3]
    removed = delete_acls.DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter=None,
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    yield delete_acls.DeleteAclsRequest(filters=[removed, removed]), [1, 3]


def _tokens() -> Asked:
    yield (
        create_delegation_token.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
        [1, 2, 3],
    )
    yield (
        create_delegation_token.CreateDelegationTokenRequest(
            owner_principal_type="User",
            owner_principal_name="bob",
            renewers=[],
            max_lifetime_ms=-1,
        ),
        [3],
    )
    yield (
        renew_delegation_token.RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1),
        [1, 2],
    )
    yield (
        expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1),
        [1, 2],
    )
    yield describe_delegation_token.DescribeDelegationTokenRequest(owners=None), [1, 2, 3]


def _users() -> Asked:
    user = describe_user_scram_credentials.UserName(name="bob")
    for users in (None, [], [user], [user, user]):
        yield (
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=users),
            [0],
        )
    for components in (
        [],
        [("user", SPECIFIED, None)],
        [("user", EXACT, "bob"), ("client-id", DEFAULT, None)],
        [("machine", SPECIFIED, None)],
        [("", SPECIFIED, None)],
        [("user", EXACT, None)],
        [("user", DEFAULT, "bob")],
        [("user", SPECIFIED, "bob")],
        [("user", 7, None)],
        [("user", SPECIFIED, None), ("ip", SPECIFIED, None)],
        [("user", SPECIFIED, None), ("user", SPECIFIED, None)],
    ):
        yield (
            describe_client_quotas.DescribeClientQuotasRequest(
                components=[
                    describe_client_quotas.ComponentData(
                        entity_type=entity_type, match_type=match_type, match=match
                    )
                    for entity_type, match_type, match in components
                ],
                strict=False,
            ),
            [0, 1],
        )
    yield sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"), [0, 1]
    yield sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"x"), [0, 2]


def _groups() -> Asked:
    yield (
        share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=0
        ),
        [1],
    )
    yield (
        share_group_describe.ShareGroupDescribeRequest(
            group_ids=["a", "b"], include_authorized_operations=False
        ),
        [1],
    )
    yield (
        share_fetch.ShareFetchRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=0,
            max_wait_ms=1,
            min_bytes=1,
            max_records=1,
            batch_size=1,
            topics=[],
            forgotten_topics_data=[],
        ),
        [1, 2],
    )
    yield (
        share_acknowledge.ShareAcknowledgeRequest(
            group_id="g", member_id="m", share_session_epoch=0, topics=[]
        ),
        [1, 2],
    )
    named = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup
    yield (
        describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            groups=[named(group_id="g", topics=None), named(group_id="h", topics=[])]
        ),
        [0, 1],
    )
    partition = alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(
        partition_index=0, start_offset=0
    )
    altered = alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
        topic_name="x", partitions=[partition]
    )
    yield (
        alter_share_group_offsets.AlterShareGroupOffsetsRequest(group_id="g", topics=[altered]),
        [0],
    )
    deleted = delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name="x")
    yield (
        delete_share_group_offsets.DeleteShareGroupOffsetsRequest(group_id="g", topics=[deleted]),
        [0],
    )
    yield (
        streams_group_heartbeat.StreamsGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=0, endpoint_information_epoch=0
        ),
        [0],
    )
    yield (
        streams_group_describe.StreamsGroupDescribeRequest(
            group_ids=["a", "b"], include_authorized_operations=False
        ),
        [0],
    )


# What every cluster has of its own.
_REPLACED = (
    (re.compile(r"(high_watermark|log_end_offset)=[1-9]\d*"), r"\1=N"),
    (re.compile(r"(last_\w+_timestamp)=\d+"), r"\1=TIME"),
    (re.compile(r"Listener\(.*?\)"), "LISTENER"),
)


def answer_to(connection: RawConnection, question: Question) -> str:
    """The answer, without what differs from cluster to cluster."""
    request_class = type(question.request)
    module = importlib.import_module(request_class.__module__)
    name = info_of(request_class).name.replace("Request", "Response")
    text = str(connection.call(question.request, getattr(module, name), question.version))
    for pattern, plain in _REPLACED:
        text = pattern.sub(plain, text)
    return text
