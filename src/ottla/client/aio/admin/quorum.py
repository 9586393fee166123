"""The controllers of a cluster: their quorum, the levels of features, and which brokers are registered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from ottla.client.admin_model.cluster import (
    FeatureUpdate,
    FeatureUpgrade,
    QuorumInfo,
    QuorumReplica,
)
from ottla.client.aio.admin.answers import Answers, unsupported_error
from ottla.client.aio.admin.nodes import AnyNode, Controller
from ottla.client.aio.admin.requests import AdminCalls, ApiCall, name_of, timeout_in_seconds
from ottla.wire.messages import describe_quorum
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
    TopicData,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.wire.types import ZERO_UUID

_ALL = "cluster"
_METADATA_TOPIC = "__cluster_metadata"


class QuorumCalls(AdminCalls):
    """The calls about the controllers."""

    @timeout_in_seconds
    async def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumInfo:
        """The controllers and how far each has read the metadata log (Kafka 3.3 or later)."""

        def build(version: int, keys: list[str], limit_ms: int) -> DescribeQuorumRequest:
            partitions = [PartitionData(partition_index=0)]
            return DescribeQuorumRequest(
                topics=[TopicData(topic_name=_METADATA_TOPIC, partitions=partitions)]
            )

        call = ApiCall(DescribeQuorumRequest, build, _read_quorum)
        nodes: AnyNode[str] = AnyNode("of", "clusters")
        return (await self._requests.ask([_ALL], nodes, call, timeout))[_ALL]

    @timeout_in_seconds
    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate | int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change the levels of features (KIP-584); a plain number is the new, higher level.

        If one feature is refused, no level changes.
        """
        wanted = {
            name: update if isinstance(update, FeatureUpdate) else FeatureUpdate(update)
            for name, update in updates.items()
        }

        def build(version: int, keys: list[str], limit_ms: int) -> UpdateFeaturesRequest:
            return _update_request(version, wanted, validate_only, limit_ms)

        call = ApiCall(UpdateFeaturesRequest, build, _read_updated)
        await self._requests.ask([_ALL], Controller("of", "clusters"), call, timeout)

    @timeout_in_seconds
    async def unregister_broker(self, node_id: int, *, timeout: float | None = None) -> None:
        """Make the cluster forget a broker that was stopped for good (Kafka 2.8 or later)."""

        def build(version: int, keys: list[int], limit_ms: int) -> UnregisterBrokerRequest:
            return UnregisterBrokerRequest(broker_id=node_id)

        call = ApiCall(UnregisterBrokerRequest, build, _read_unregistered)
        nodes: AnyNode[int] = AnyNode("node", "nodes")
        await self._requests.ask([node_id], nodes, call, timeout)


def _read_quorum(response: DescribeQuorumResponse, answers: Answers[str, QuorumInfo]) -> None:
    """The quorum of the only partition."""
    if response.error_code:
        answers.fail(_ALL, response.error_code, response.error_message)
        return
    for topic in response.topics:
        for found in topic.partitions:
            quorum = QuorumInfo(
                found.leader_id,
                found.leader_epoch,
                found.high_watermark,
                _replicas(found.current_voters),
                _replicas(found.observers),
                {node.node_id: _endpoints(node) for node in response.nodes},
            )
            answers.complete(_ALL, quorum, found.error_code, found.error_message)


def _replicas(states: Iterable[ReplicaState]) -> tuple[QuorumReplica, ...]:
    return tuple(
        QuorumReplica(
            state.replica_id,
            _known_directory(state.replica_directory_id),
            state.log_end_offset,
            _known_time(state.last_fetch_timestamp),
            _known_time(state.last_caught_up_timestamp),
        )
        for state in states
    )


def _known_directory(directory_id: UUID) -> UUID | None:
    return None if directory_id == ZERO_UUID else directory_id


def _known_time(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms


def _endpoints(node: describe_quorum.Node) -> tuple[str, ...]:
    return tuple(f"{each.name}://{each.host}:{each.port}" for each in node.listeners)


def _update_request(
    version: int, updates: Mapping[str, FeatureUpdate], validate_only: bool, limit_ms: int
) -> UpdateFeaturesRequest:
    """An UpdateFeatures request."""
    if validate_only and version < 1:
        raise unsupported_error(name_of(UpdateFeaturesRequest), "Validating levels", "3.3")
    return UpdateFeaturesRequest(
        timeout_ms=limit_ms,
        feature_updates=[
            FeatureUpdateKey(
                feature=name,
                max_version_level=update.max_version_level,
                # Of version 0, which had this instead of the type.
                allow_downgrade=update.upgrade_type is not FeatureUpgrade.UPGRADE,
                upgrade_type=update.upgrade_type,
            )
            for name, update in updates.items()
        ],
        validate_only=validate_only,
    )


def _read_updated(response: UpdateFeaturesResponse, answers: Answers[str, None]) -> None:
    """The outcome of all updates; before version 2 each feature has its own, and the first error counts."""
    answers.complete(_ALL, None, response.error_code, response.error_message)
    for result in response.results:
        if result.error_code and not answers.errors:
            reason = f"{result.feature}: {result.error_message or 'refused'}"
            answers.results.clear()
            answers.fail(_ALL, result.error_code, reason)


def _read_unregistered(response: UnregisterBrokerResponse, answers: Answers[int, None]) -> None:
    """Whether the broker was forgotten."""
    (node_id,) = answers.asked
    answers.complete(node_id, None, response.error_code, response.error_message)
