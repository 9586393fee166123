"""The names of all Kafka APIs by key, also of those that Ottla does not use."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ottla.wire import messages
from ottla.wire.declare import info_of

_UNKNOWN = "Unknown"

# The index is the API key.
_NAMES = (
    "Produce",  # 0
    "Fetch",
    "ListOffsets",
    "Metadata",
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",  # 10
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",  # 20
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeAcls",
    "CreateAcls",  # 30
    "DeleteAcls",
    "DescribeConfigs",
    "AlterConfigs",
    "AlterReplicaLogDirs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "CreatePartitions",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",  # 40
    "DescribeDelegationToken",
    "DeleteGroups",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "OffsetDelete",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "DescribeUserScramCredentials",  # 50
    "AlterUserScramCredentials",
    "Vote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "DescribeQuorum",
    "AlterPartition",
    "UpdateFeatures",
    "Envelope",
    "FetchSnapshot",
    "DescribeCluster",  # 60
    "DescribeProducers",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "UnregisterBroker",
    "DescribeTransactions",
    "ListTransactions",
    "AllocateProducerIds",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ControllerRegistration",  # 70
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "AssignReplicasToDirs",
    "ListClientMetricsResources",
    "DescribeTopicPartitions",
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "ShareFetch",
    "ShareAcknowledge",
    "AddRaftVoter",  # 80
    "RemoveRaftVoter",
    "UpdateRaftVoter",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
    "DescribeShareGroupOffsets",  # 90
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
)


def api_name(api_key: int) -> str:
    """The name of an API; `Unknown<key>` for an API of a newer Kafka."""
    if 0 <= api_key < len(_NAMES):
        return _NAMES[api_key]
    return f"{_UNKNOWN}{api_key}"


def api_key(name: str) -> int:
    """The key of an API, by a name from `api_name`."""
    if name.startswith(_UNKNOWN):
        return int(name.removeprefix(_UNKNOWN))
    return _NAMES.index(name)


def known_versions() -> dict[int, tuple[int, int]]:
    """The first and last version of each API, by key, that this client supports."""
    found = {}
    for module in iter_modules(messages.__path__, messages.__name__ + "."):
        for name, value in vars(import_module(module.name)).items():
            if name.endswith("Request") and name.removesuffix("Request") in _NAMES:
                info = info_of(value)
                found[info.api_key] = (info.versions.first, info.versions.last)
    return found
