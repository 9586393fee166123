"""The network of a client: metadata follower, peer pool and coordinator cache, put together."""

from __future__ import annotations

import logging
from typing import Any

from ottla.client.aio.network.coordinator_cache import CoordinatorCache
from ottla.client.aio.network.metadata_follower import REBOOTSTRAP, MetadataFollower
from ottla.client.aio.network.peer_pool import PeerPool
from ottla.client.state.backoff import Backoff
from ottla.client.state.metadata import ClusterMetadata, MetadataState
from ottla.config.client import ClientConfig
from ottla.errors import KafkaError

log = logging.getLogger("ottla.client")


class Network:
    """All that a client needs to talk to its cluster. Made on a running loop, it connects at once."""

    def __init__(self, config: ClientConfig, metadata: MetadataState | None = None) -> None:
        self.retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.metadata = metadata or MetadataState(
            max_age_ms=config.metadata_max_age_ms, backoff=self.retry
        )
        self._request_timeout_ms = config.request_timeout_ms
        self._is_closed = False
        self._peers = peers = PeerPool(
            config,
            lambda: self._follower.request_update(),
            falls_back=config.metadata_recovery_strategy == REBOOTSTRAP,
        )
        self._coordinators = CoordinatorCache(peers)
        self._follower = follower = MetadataFollower(config, self.metadata, peers, self)
        # Metadata
        self.on_update = follower.on_update
        self.want_topic = follower.want_topic
        self.want_only = follower.want_only
        self.want_names_of = follower.want_names_of
        self.want_all_topics = follower.want_all_topics
        self.request_update = follower.request_update
        self.updated = follower.updated
        self.topic = follower.topic
        self.no_topic = follower.no_topic
        # Nodes
        self.any_node = peers.any_node
        self.connection = peers.connection
        self.connection_now = peers.connection_now
        self.call = peers.call
        self.call_versioned = peers.call_versioned
        self.name_of = peers.name_of
        # Coordinators
        self.coordinator = self._coordinators.find
        self.forget_coordinator = self._coordinators.forget

    @property
    def cluster(self) -> ClusterMetadata:
        """The newest metadata."""
        return self.metadata.cluster

    @property
    def trouble(self) -> KafkaError | None:
        """Why the last request for metadata failed, if it did."""
        return self._follower.last_error

    @property
    def failure(self) -> KafkaError | None:
        """Why there is no metadata and asking again will not help, such as refused credentials."""
        return self._follower.failure

    @property
    def features(self) -> dict[str, int]:
        """The finalized features of the cluster, such as transaction.version, by name."""
        return self._peers.features

    async def controller(self) -> int:
        """The controller if it is known, else any node: brokers without a controller pass requests on."""
        if self.metadata.version == 0:
            await self.updated(self._request_timeout_ms)
        controller = self.cluster.controller_id
        return controller if controller in self.cluster.nodes else await self.any_node()

    def update_leader(
        self, topic: str, partition: int, leader: int, leader_epoch: int, nodes: dict[int, Any]
    ) -> bool:
        """Apply the leader of a partition in a broker's answer (KIP-951); returns whether it was new."""
        changed = self.metadata.update_leader(topic, partition, leader, leader_epoch, nodes)
        if changed:
            self._peers.follow(self.cluster.nodes, self._coordinators.node_ids)
            self._follower.publish()
        return changed

    def metadata_received(self) -> None:
        """Called by the follower when it has applied an answer."""
        self._peers.is_rebootstrapping = False
        self._peers.follow(self.cluster.nodes, self._coordinators.node_ids)

    def rebootstrap(self) -> None:
        """Called by the follower when no known broker has answered for too long."""
        if self._peers.rebootstrap():
            log.info("starting again from bootstrap.servers")
            self._coordinators.clear()

    async def close(self) -> None:
        """Close every connection; requests that wait for answers fail."""
        if self._is_closed:
            return
        self._is_closed = True
        self._peers.refuse_calls()
        await self._follower.close()
        await self._peers.close()
