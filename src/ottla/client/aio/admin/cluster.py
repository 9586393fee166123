"""The cluster: its brokers, their log directories, features and API versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.admin_model.cluster import (
    ClusterDescription,
    FeatureMetadata,
    LogDirDescription,
    ReplicaInfo,
)
from ottla.client.aio.admin.answers import Answers, V, unsupported_error
from ottla.client.aio.admin.nodes import AnyNode, GivenNodes
from ottla.client.aio.admin.requests import (
    AdminCalls,
    ApiCall,
    by_topic,
    name_of,
    timeout_in_seconds,
    version_at,
)
from ottla.client.aio.admin.topic_descriptions import nodes_of, operations
from ottla.client.aio.network.api_versions import SOFTWARE_NAME
from ottla.client.api_names import api_name
from ottla.client.model import Node, VersionRange
from ottla.errors import (
    AbortableError,
    ErrorCode,
    KafkaError,
    PartialFailureError,
    exception_for,
)
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


class ClusterCalls(AdminCalls):
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
            connection = await self._requests.network.connection(node)
            try:
                version = version_at(connection, DescribeClusterRequest)
            except AbortableError:
                # Before Kafka 2.8 the metadata has the same.
                response = await self._requests.call(
                    node,
                    MetadataRequest,
                    lambda version: _metadata_request(version, include_authorized_operations),
                    limit_ms,
                )
                _read_metadata(response, answers)
                return
            request = _describe_request(
                version, include_authorized_operations, include_fenced_brokers
            )
            _read_cluster(
                await self._requests.send(connection, request, version, limit_ms), answers
            )

        nodes: AnyNode[str] = AnyNode("of", "clusters")
        found = await self._requests.ask_by([_ALL], nodes, "DescribeCluster", ask, timeout)
        return found[_ALL]

    @timeout_in_seconds
    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout: float | None = None,
    ) -> dict[int, dict[str, LogDirDescription]]:
        """The log directories of these brokers, or of all, and the replicas in each."""
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
            _read_log_dirs(response, _only_key(answers), answers)

        nodes = await self._all_nodes(timeout) if brokers is None else brokers
        call: ApiCall[int, LogDirs] = ApiCall(DescribeLogDirsRequest, build, read)
        return await self._requests.ask(nodes, GivenNodes(), call, timeout)

    @timeout_in_seconds
    async def describe_features(
        self, *, node_id: int | None = None, timeout: float | None = None
    ) -> FeatureMetadata:
        """The features that the cluster has finalized, and those that a broker supports (KIP-584)."""
        response = await self._api_versions(node_id, timeout)
        return _features_of(response)

    @timeout_in_seconds
    async def describe_api_versions(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, dict[str, VersionRange]]:
        """The API versions that these brokers, or all, support, by API name."""
        nodes = await self._all_nodes(timeout) if brokers is None else brokers

        def read(
            response: ApiVersionsResponse, answers: Answers[int, dict[str, VersionRange]]
        ) -> None:
            versions = {
                api_name(api.api_key): VersionRange(api.min_version, api.max_version)
                for api in response.api_keys
            }
            answers.complete(_only_key(answers), versions, response.error_code)

        call = ApiCall(ApiVersionsRequest, _api_versions_request, read)
        return await self._requests.ask(nodes, GivenNodes(), call, timeout)

    async def _api_versions(
        self, node_id: int | None, timeout: float | None
    ) -> ApiVersionsResponse:
        def read(response: ApiVersionsResponse, answers: Answers[Any, ApiVersionsResponse]) -> None:
            answers.complete(_only_key(answers), response, response.error_code)

        call = ApiCall(ApiVersionsRequest, _api_versions_request, read)
        if node_id is not None:
            return (await self._requests.ask([node_id], GivenNodes(), call, timeout))[node_id]
        nodes: AnyNode[str] = AnyNode("of", "brokers")
        return (await self._requests.ask([_ALL], nodes, call, timeout))[_ALL]

    async def _ask_all_brokers(
        self, call: ApiCall[int, list[V]], timeout: float | None
    ) -> tuple[list[V], dict[int, KafkaError]]:
        """The lists of all brokers, and the errors of brokers that do not answer."""
        nodes = await self._all_nodes(timeout)
        found: Mapping[int, list[V]]
        errors: dict[int, KafkaError] = {}
        try:
            found = await self._requests.ask(nodes, GivenNodes(), call, timeout)
        except PartialFailureError as error:
            found, errors = error.results, dict(error.errors)
        return [each for listed in found.values() for each in listed], errors

    async def _all_nodes(self, timeout: float | None) -> list[int]:
        """The ids of all brokers, by a new Metadata request."""

        def build(version: int, keys: list[str], limit_ms: int) -> MetadataRequest:
            return _metadata_request(version, False)

        call = ApiCall(MetadataRequest, build, _read_metadata)
        nodes: AnyNode[str] = AnyNode("of", "clusters")
        found = await self._requests.ask([_ALL], nodes, call, timeout)
        return [node.id for node in found[_ALL].nodes]


def _only_key(answers: Answers[Any, Any]) -> Any:
    (key,) = answers.asked
    return key


def _describe_request(
    version: int, include_authorized_operations: bool, include_fenced_brokers: bool
) -> DescribeClusterRequest:
    """A DescribeCluster request."""
    if include_fenced_brokers and version < 2:
        raise unsupported_error(name_of(DescribeClusterRequest), "Listing fenced brokers", "4.0")
    return DescribeClusterRequest(
        include_cluster_authorized_operations=include_authorized_operations,
        include_fenced_brokers=include_fenced_brokers,
    )


def _read_cluster(
    response: DescribeClusterResponse, answers: Answers[str, ClusterDescription]
) -> None:
    """The cluster of a DescribeCluster response."""
    nodes = {b.broker_id: Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers}
    description = ClusterDescription(
        response.cluster_id,
        nodes.get(response.controller_id),
        tuple(nodes.values()),
        operations(response.cluster_authorized_operations),
        frozenset(b.broker_id for b in response.brokers if b.is_fenced),
    )
    answers.complete(_ALL, description, response.error_code, response.error_message)


def _metadata_request(version: int, include_authorized_operations: bool) -> MetadataRequest:
    """A Metadata request for brokers only."""
    if include_authorized_operations and not 8 <= version <= 10:
        raise unsupported_error(name_of(MetadataRequest), "Asking for authorized operations", "2.3")
    return MetadataRequest(
        topics=[],
        # As in Kafka's client: no topic is named, so none can be created, and old brokers accept no other value.
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=include_authorized_operations,
    )


def _read_metadata(response: MetadataResponse, answers: Answers[str, ClusterDescription]) -> None:
    """The cluster of a Metadata response."""
    nodes = nodes_of(response.brokers)
    description = ClusterDescription(
        response.cluster_id,
        nodes.get(response.controller_id),
        tuple(nodes.values()),
        operations(response.cluster_authorized_operations),
    )
    answers.complete(_ALL, description, response.error_code)


def _read_log_dirs(
    response: DescribeLogDirsResponse, node: int, answers: Answers[int, LogDirs]
) -> None:
    """The log directories of one broker."""
    if response.error_code or not response.results:
        # Before version 3 a broker reports missing authorization by an empty list.
        answers.fail(node, response.error_code or ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
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
    answers.succeed(node, found)


def _api_versions_request(version: int, keys: list[Any], limit_ms: int) -> ApiVersionsRequest:
    """An ApiVersions request."""
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=VERSION)


def _features_of(response: ApiVersionsResponse) -> FeatureMetadata:
    """The features of an ApiVersions response; brokers before Kafka 2.7 send none."""
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
