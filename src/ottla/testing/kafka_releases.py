"""Releases of Apache Kafka as which a broker under test can serve: the versions of APIs that they advertise.

The oldest version of an API is always the broker's own, which is that of Kafka 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.broker.features import FEATURES, METADATA_VERSION, Feature
from ottla.broker.handlers.api_versions import api_of
from ottla.broker.requests.api import Api
from ottla.errors import ConfigError

RELEASES: Final = ("2.8", "3.0", "3.3", "3.6", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
# Those before know neither transactions with epochs of their own (KIP-890) nor the new group protocol (KIP-848).
FIRST_WITH_FEATURES: Final = "4.0"
API_VERSIONS: Final = "ApiVersions"

# The newest metadata.version of each release that has the features; 4.4 is not above 4.3, like the broker itself.
_METADATA_VERSIONS: Final = {"4.0": 25, "4.1": 27, "4.2": 29, "4.3": 30, "4.4": 30}

# The newest version of each API in these releases; None where there is no such API yet. As validVersions has it in
# Kafka's definitions of messages (clients/src/main/resources/common/message), without versions that are unstable.
_NEWEST_VERSIONS: Final[Mapping[str, tuple[int | None, ...]]] = {
    "AddOffsetsToTxn": (3, 3, 3, 3, 4, 4, 4, 4, 4, 4),
    "AddPartitionsToTxn": (3, 3, 3, 4, 5, 5, 5, 5, 5, 5),
    "AddRaftVoter": (None, None, None, None, 0, 0, 0, 1, 1, 1),
    "AlterClientQuotas": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "AlterConfigs": (2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
    "AlterPartitionReassignments": (0, 0, 0, 0, 0, 0, 1, 1, 1, 1),
    "AlterReplicaLogDirs": (2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
    "AlterShareGroupOffsets": (None, None, None, None, None, None, 0, 0, 0, 0),
    "AlterUserScramCredentials": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "ApiVersions": (3, 3, 3, 3, 4, 4, 4, 4, 4, 5),
    "ConsumerGroupDescribe": (None, None, None, None, 0, 1, 1, 1, 1, 1),
    "ConsumerGroupHeartbeat": (None, None, None, None, 0, 1, 1, 1, 1, 1),
    "CreateAcls": (2, 2, 3, 3, 3, 3, 3, 3, 3, 3),
    "CreateDelegationToken": (2, 2, 3, 3, 3, 3, 3, 3, 3, 3),
    "CreatePartitions": (3, 3, 3, 3, 3, 3, 3, 3, 3, 3),
    "CreateTopics": (7, 7, 7, 7, 7, 7, 7, 7, 7, 7),
    "DeleteAcls": (2, 2, 3, 3, 3, 3, 3, 3, 3, 3),
    "DeleteGroups": (2, 2, 2, 2, 2, 2, 2, 2, 2, 3),
    "DeleteRecords": (2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
    "DeleteShareGroupOffsets": (None, None, None, None, None, None, 0, 0, 0, 0),
    "DeleteTopics": (6, 6, 6, 6, 6, 6, 6, 6, 6, 6),
    "DescribeAcls": (2, 2, 3, 3, 3, 3, 3, 3, 3, 3),
    "DescribeClientQuotas": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "DescribeCluster": (0, 0, 0, 0, 1, 2, 2, 2, 2, 2),
    "DescribeConfigs": (4, 4, 4, 4, 4, 4, 4, 4, 4, 4),
    "DescribeDelegationToken": (2, 2, 3, 3, 3, 3, 3, 3, 3, 3),
    "DescribeGroups": (5, 5, 5, 5, 5, 6, 6, 6, 6, 6),
    "DescribeLogDirs": (2, 2, 4, 4, 4, 4, 4, 4, 5, 5),
    "DescribeProducers": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "DescribeQuorum": (0, 0, 1, 1, 2, 2, 2, 2, 2, 2),
    "DescribeShareGroupOffsets": (None, None, None, None, None, None, 0, 1, 1, 1),
    "DescribeTopicPartitions": (None, None, None, None, 0, 0, 0, 0, 0, 0),
    "DescribeTransactions": (None, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "DescribeUserScramCredentials": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "ElectLeaders": (2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
    "EndTxn": (3, 3, 3, 3, 4, 5, 5, 5, 5, 5),
    "ExpireDelegationToken": (2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
    "Fetch": (12, 12, 13, 15, 17, 17, 18, 18, 18, 18),
    "FindCoordinator": (3, 4, 4, 4, 6, 6, 6, 6, 6, 6),
    "GetTelemetrySubscriptions": (None, None, None, None, 0, 0, 0, 0, 0, 0),
    "Heartbeat": (4, 4, 4, 4, 4, 4, 4, 4, 4, 4),
    "IncrementalAlterConfigs": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "InitProducerId": (4, 4, 4, 4, 5, 5, 5, 5, 5, 5),
    "JoinGroup": (7, 7, 9, 9, 9, 9, 9, 9, 9, 9),
    "LeaveGroup": (4, 4, 5, 5, 5, 5, 5, 5, 5, 5),
    "ListConfigResources": (None, None, None, None, 0, 0, 1, 1, 1, 1),
    "ListGroups": (4, 4, 4, 4, 5, 5, 5, 5, 5, 5),
    "ListOffsets": (6, 7, 7, 8, 9, 10, 10, 11, 11, 11),
    "ListPartitionReassignments": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "ListTransactions": (None, 0, 0, 0, 1, 1, 2, 2, 2, 2),
    "Metadata": (11, 11, 12, 12, 12, 13, 13, 13, 13, 13),
    "OffsetCommit": (8, 8, 8, 8, 9, 9, 9, 10, 10, 10),
    "OffsetDelete": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "OffsetFetch": (7, 8, 8, 8, 9, 9, 9, 10, 10, 10),
    "OffsetForLeaderEpoch": (4, 4, 4, 4, 4, 4, 4, 4, 4, 4),
    "Produce": (9, 9, 9, 9, 11, 12, 13, 13, 13, 13),
    "PushTelemetry": (None, None, None, None, 0, 0, 0, 0, 0, 0),
    "RemoveRaftVoter": (None, None, None, None, 0, 0, 0, 0, 0, 0),
    "RenewDelegationToken": (2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
    "SaslAuthenticate": (2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
    "SaslHandshake": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "ShareAcknowledge": (None, None, None, None, None, None, 1, 2, 2, 2),
    "ShareFetch": (None, None, None, None, None, None, 1, 2, 2, 2),
    "ShareGroupDescribe": (None, None, None, None, None, None, 1, 1, 1, 1),
    "ShareGroupHeartbeat": (None, None, None, None, None, None, 1, 1, 1, 1),
    "StreamsGroupDescribe": (None, None, None, None, None, None, None, 0, 0, 1),
    "StreamsGroupHeartbeat": (None, None, None, None, None, None, None, 0, 0, 1),
    "StreamsGroupTopologyDescriptionUpdate": (*(None,) * 9, 0),
    "SyncGroup": (5, 5, 5, 5, 5, 5, 5, 5, 5, 5),
    "TxnOffsetCommit": (3, 3, 3, 3, 4, 5, 5, 5, 5, 6),
    "UnregisterBroker": (0, None, 0, 0, 0, 0, 0, 0, 0, 0),
    "UpdateFeatures": (0, 0, 1, 1, 1, 2, 2, 2, 2, 2),
    "WriteTxnMarkers": (1, 1, 1, 1, 1, 1, 1, 2, 2, 2),
}


class KafkaRelease:
    """A release of Kafka by its version, such as 3.6; a ConfigError lists those that are known."""

    def __init__(self, version: str) -> None:
        if version not in RELEASES:
            raise ConfigError(
                f"as_version={version!r} is not a known release: there are {', '.join(RELEASES)}"
            )
        self.version = version
        column = RELEASES.index(version)
        self._newest = {
            name: row[column] for name, row in _NEWEST_VERSIONS.items() if row[column] is not None
        }

    @property
    def missing_apis(self) -> frozenset[str]:
        """The APIs that the broker serves, and this release does not."""
        return frozenset(_NEWEST_VERSIONS.keys() - self._newest.keys())

    def restrict(self, apis: Mapping[int, Api[Any, Any]]) -> dict[int, Api[Any, Any]]:
        """The APIs that this release has, in its versions; ApiVersions advertises them so."""
        others = [self._restricted(api) for api in apis.values() if self._is_other(api)]
        api_versions = api_of(
            others, last_version=self._newest[API_VERSIONS], features=self._features()
        )
        return {api.key: api for api in (*others, api_versions)}

    def _features(self) -> list[Feature]:
        if RELEASES.index(self.version) < RELEASES.index(FIRST_WITH_FEATURES):
            return []
        level = _METADATA_VERSIONS[self.version]
        return [
            one._replace(last_level=level, level=level) if one.name == METADATA_VERSION else one
            for one in FEATURES
        ]

    def _is_other(self, api: Api[Any, Any]) -> bool:
        return api.name in self._newest and api.name != API_VERSIONS

    def _restricted(self, api: Api[Any, Any]) -> Api[Any, Any]:
        newest = self._newest[api.name]
        assert newest is not None
        return api._replace(last_version=min(api.last_version, newest))
