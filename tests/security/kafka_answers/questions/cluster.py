"""The cluster: its nodes, features and ACLs."""

from __future__ import annotations

from uuid import UUID

from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.situations import CLUSTER

from ottla.access import Operation, PatternType, Permission, ResourceType

BROKERS, CONTROLLERS = 1, 2
UPGRADE = 1
# Nobody has it.
ACLS_OF_BOB = {
    "resource_type_filter": ResourceType.TOPIC,
    "pattern_type_filter": PatternType.LITERAL,
    "principal_filter": "User:bob",
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}
# With this name it cannot be created.
NAMELESS = {
    "resource_type": ResourceType.TOPIC,
    "resource_name": "",
    "resource_pattern_type": PatternType.LITERAL,
    "principal": "User:bob",
    "host": "*",
    "operation": Operation.READ,
    "permission_type": Permission.ALLOW,
}
QUESTIONS = [
    Question(
        "ApiVersions", [0, 4], "", {"client_software_name": "a", "client_software_version": "1"}, []
    ),
    Question(
        "DescribeCluster",
        [0, 1, 2],
        "with authorized operations",
        {"include_cluster_authorized_operations": True, "endpoint_type": BROKERS},
        [CLUSTER],
    ),
    Question(
        "DescribeCluster",
        [2],
        "with fenced brokers",
        {"endpoint_type": BROKERS, "include_fenced_brokers": True},
        [CLUSTER],
    ),
    Question("DescribeCluster", [2], "controllers", {"endpoint_type": CONTROLLERS}, [CLUSTER]),
    Question(
        "DescribeQuorum",
        [0, 2],
        "",
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        [CLUSTER],
    ),
    Question(
        "UpdateFeatures",
        [0, 1, 2],
        "only validated",
        {
            "timeout_ms": 10_000,
            "feature_updates": [
                {"feature": "nonsense", "max_version_level": 1, "upgrade_type": UPGRADE}
            ],
            "validate_only": True,
        },
        [CLUSTER],
    ),
    Question("UnregisterBroker", [0], "one that does not exist", {"broker_id": 77}, [CLUSTER]),
    Question(
        "AddRaftVoter",
        [0, 1],
        "",
        {
            "timeout_ms": 10_000,
            "voter_id": 7,
            "voter_directory_id": UUID(int=9),
            "listeners": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}],
        },
        [CLUSTER],
    ),
    Question(
        "RemoveRaftVoter",
        [0],
        "one that does not exist",
        {"voter_id": 7, "voter_directory_id": UUID(int=9)},
        [CLUSTER],
    ),
    Question("DescribeAcls", [1, 3], "of bob, who has none", ACLS_OF_BOB, [CLUSTER]),
    Question("DeleteAcls", [1, 3], "of bob, who has none", {"filters": [ACLS_OF_BOB]}, [CLUSTER]),
    Question(
        "CreateAcls", [1, 3], "on a topic without a name", {"creations": [NAMELESS]}, [CLUSTER]
    ),
    Question("SaslHandshake", [0, 1], "where nobody logs in", {"mechanism": "PLAIN"}, []),
    Question("SaslAuthenticate", [0, 2], "where nobody logs in", {"auth_bytes": b"x"}, []),
]
