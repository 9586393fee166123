"""The cluster: its brokers, what they speak, their disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.admin_model import (
    ClusterDescription,
    FeatureMetadata,
    LogDirDescription,
    ReplicaInfo,
    VersionRange,
)
from ottla.client.aio.admin.requests import (
    Calls,
    Question,
    by_topic,
    name_of,
    timeout_in_seconds,
    version_at,
)
from ottla.client.aio.admin.results import Answers, unsupported
from ottla.client.aio.admin.targets import AnyNode, GivenNodes
from ottla.client.aio.admin.topic_descriptions import nodes_of, operations
from ottla.client.aio.network.api_versions import SOFTWARE_NAME
from ottla.client.api_names import api_name
from ottla.client.model import Node
from ottla.errors import AbortableError, ErrorCode, exception_for
from ottla.model import TopicPartition
from ottla.version import VERSION
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

_ALL = "cluster"

LogDirs = dict[str, LogDirDescription]


class ClusterCalls(Calls):
    """The calls about the cluster as a whole."""

    @timeout_in_seconds
    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """The brokers and the controller."""

        async def ask(
            node: int, keys: list[str], limit_ms: float, answers: Answers[str, ClusterDescription]
        ) -> None:
            connection = await self._network.connection(node)
            try:
                version = version_at(connection, DescribeClusterRequest)
            except AbortableError:
                # Before Kafka 2.8 the same stands in the metadata.
                response = await self.call(
                    node,
                    MetadataRequest,
                    lambda version: metadata_of_cluster(version, include_authorized_operations),
                    limit_ms,
                )
                read_cluster_metadata(response, answers)
                return
            request = describing_cluster(
                version, include_authorized_operations, include_fenced_brokers
            )
            read_cluster(await self.send(connection, request, version, limit_ms), answers)

        place: AnyNode[str] = AnyNode("of", "clusters")
        found = await self.ask_by([_ALL], place, "DescribeCluster", ask, timeout)
        return found[_ALL]

    @timeout_in_seconds
    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
    ) -> dict[int, dict[str, LogDirDescription]]:
        """The log directories of brokers (all, unless some are named), and the replicas in each."""
        topics = None if partitions is None else by_topic(partitions)

        def build(version: int, keys: list[int], limit_ms: int) -> DescribeLogDirsRequest:
            return DescribeLogDirsRequest(
                topics=None
                if topics is None
                else [
                    DescribableLogDirTopic(topic=name, partitions=numbers)
                    for name, numbers in topics.items()
                ]
            )

        def read(response: DescribeLogDirsResponse, answers: Answers[int, LogDirs]) -> None:
            read_log_dirs(response, _only_key(answers), answers)

        nodes = await self.all_nodes(timeout) if brokers is None else brokers
        question: Question[int, LogDirs] = Question(DescribeLogDirsRequest, build, read)
        return await self.ask(nodes, GivenNodes(), question, timeout)

    @timeout_in_seconds
    async def describe_features(
        self, *, node_id: int | None = None, timeout: float | None = None
    ) -> FeatureMetadata:
        """Which features the cluster has finalized, and a broker supports (KIP-584)."""
        response = await self._api_versions(node_id, timeout)
        return features_of(response)

    @timeout_in_seconds
    async def describe_api_versions(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, dict[str, VersionRange]]:
        """Which versions of which API each broker speaks (all, unless some are named), by API name."""
        nodes = await self.all_nodes(timeout) if brokers is None else brokers

        def read(
            response: ApiVersionsResponse, answers: Answers[int, dict[str, VersionRange]]
        ) -> None:
            versions = {
                api_name(api.api_key): VersionRange(api.min_version, api.max_version)
                for api in response.api_keys
            }
            answers.take(_only_key(answers), versions, response.error_code)

        question = Question(ApiVersionsRequest, asking_versions, read)
        return await self.ask(nodes, GivenNodes(), question, timeout)

    async def _api_versions(
        self, node_id: int | None, timeout: float | None
    ) -> ApiVersionsResponse:
        def read(response: ApiVersionsResponse, answers: Answers[Any, ApiVersionsResponse]) -> None:
            answers.take(_only_key(answers), response, response.error_code)

        question = Question(ApiVersionsRequest, asking_versions, read)
        if node_id is not None:
            return (await self.ask([node_id], GivenNodes(), question, timeout))[node_id]
        place: AnyNode[str] = AnyNode("of", "brokers")
        return (await self.ask([_ALL], place, question, timeout))[_ALL]

    async def all_nodes(self, timeout: float | None) -> list[int]:
        """The ids of all brokers, as the cluster says at this moment."""

        def build(version: int, keys: list[str], limit_ms: int) -> MetadataRequest:
            return metadata_of_cluster(version, False)

        question = Question(MetadataRequest, build, read_cluster_metadata)
        place: AnyNode[str] = AnyNode("of", "clusters")
        found = await self.ask([_ALL], place, question, timeout)
        return [node.id for node in found[_ALL].nodes]


def _only_key(answers: Answers[Any, Any]) -> Any:
    (key,) = answers.asked
    return key


def describing_cluster(
    version: int, include_authorized_operations: bool, include_fenced_brokers: bool
) -> DescribeClusterRequest:
    """The request for the brokers of a cluster."""
    if include_fenced_brokers and version < 2:
        raise unsupported(name_of(DescribeClusterRequest), "Listing fenced brokers", "4.0")
    return DescribeClusterRequest(
        include_cluster_authorized_operations=include_authorized_operations,
        include_fenced_brokers=include_fenced_brokers,
    )


def read_cluster(
    response: DescribeClusterResponse, answers: Answers[str, ClusterDescription]
) -> None:
    """The cluster as DescribeCluster has it."""
    nodes = {b.broker_id: Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers}
    description = ClusterDescription(
        response.cluster_id,
        nodes.get(response.controller_id),
        tuple(nodes.values()),
        operations(response.cluster_authorized_operations),
        frozenset(b.broker_id for b in response.brokers if b.is_fenced),
    )
    answers.take(_ALL, description, response.error_code, response.error_message)


def metadata_of_cluster(version: int, include_authorized_operations: bool) -> MetadataRequest:
    """The request for brokers alone."""
    if include_authorized_operations and not 8 <= version <= 10:
        raise unsupported(name_of(MetadataRequest), "Asking for authorized operations", "2.3")
    return MetadataRequest(
        topics=[],
        # As in Kafka's client: no topic is named, and brokers that know no other way see no difference.
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=include_authorized_operations,
    )


def read_cluster_metadata(
    response: MetadataResponse, answers: Answers[str, ClusterDescription]
) -> None:
    """The cluster as Metadata has it."""
    nodes = nodes_of(response.brokers)
    description = ClusterDescription(
        response.cluster_id,
        nodes.get(response.controller_id),
        tuple(nodes.values()),
        operations(response.cluster_authorized_operations),
    )
    answers.take(_ALL, description, response.error_code)


def read_log_dirs(
    response: DescribeLogDirsResponse, node: int, answers: Answers[int, LogDirs]
) -> None:
    """The log directories of one broker."""
    if response.error_code or not response.results:
        # Before version 3 an empty list is how a broker says this.
        answers.refuse(node, response.error_code or ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return
    found: LogDirs = {}
    for result in response.results:
        replicas: Mapping[TopicPartition, ReplicaInfo] = {
            TopicPartition(topic.name, partition.partition_index): ReplicaInfo(
                partition.partition_size, partition.offset_lag, partition.is_future_key
            )
            for topic in result.topics
            for partition in topic.partitions
        }
        found[result.log_dir] = LogDirDescription(
            exception_for(
                result.error_code, None, api=answers.api, broker=node, log_dir=result.log_dir
            )
            if result.error_code
            else None,
            replicas,
            None if result.total_bytes < 0 else result.total_bytes,
            None if result.usable_bytes < 0 else result.usable_bytes,
        )
    answers.give(node, found)


def asking_versions(version: int, keys: list[Any], limit_ms: int) -> ApiVersionsRequest:
    """The request for what a broker speaks."""
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=VERSION)


def features_of(response: ApiVersionsResponse) -> FeatureMetadata:
    """The features that ApiVersions tells; brokers before Kafka 2.7 tell none."""
    epoch = response.finalized_features_epoch
    return FeatureMetadata(
        {
            feature.name: VersionRange(feature.min_version_level, feature.max_version_level)
            for feature in response.finalized_features
        },
        {
            feature.name: VersionRange(feature.min_version, feature.max_version)
            for feature in response.supported_features
        },
        None if epoch < 0 else epoch,
    )
