"""What changes of the cluster's topics mean for a member: patterns that match more, partitions that were added."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.client.aio.network.brokers import Network
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.client.state.group.group_leader import Racks, snapshot
from ottla.client.state.metadata import ClusterMetadata
from ottla.config.consumer import ConsumerConfig


class TopicWatch:
    """Wants the metadata of what is subscribed, and looks at what comes."""

    def __init__(
        self,
        network: Network,
        config: ConsumerConfig,
        subscriptions: SubscriptionState,
        wake: Callable[[], None],
    ) -> None:
        self._network = network
        self._config = config
        self._subscriptions = subscriptions
        self._wake = wake
        self._seen: tuple[int, int] | None = None
        self._refreshed_version: int | None = None
        self.snapshot: Mapping[str, Racks] = {}
        """What of the newest metadata an assignment depends on."""
        network.on_update.append(self._updated)

    def subscription_changed(self) -> None:
        """Ask for the topics that are subscribed now; for all of them, if a pattern says which."""
        if self._subscriptions.has_pattern:
            self._match_pattern()
            self._network.want_all_topics()
            self._refreshed_version = None
        else:
            self._network.want_only(list(self._subscriptions.metadata_topics()))

    def follow(self) -> bool:
        """Match the pattern and take the snapshot again, if anything has changed; says whether it has."""
        version = self._network.metadata.version
        if self._seen == (version, self._subscriptions.topics_id):
            return False
        if self._subscriptions.has_pattern and (self._seen is None or self._seen[0] != version):
            self._match_pattern()
        self._seen = (version, self._subscriptions.topics_id)
        topics = self._subscriptions.metadata_topics()
        self.snapshot = snapshot(self._network.cluster, topics, self._config.client_rack)
        return True

    def is_fresh(self) -> bool:
        """Whether a pattern was matched against metadata that was asked for since a rejoin was needed."""
        # Members that learn of a new topic one after another would rebalance the group one after another.
        if not self._subscriptions.has_pattern:
            return True
        version = self._network.metadata.version
        if self._refreshed_version is None:
            self._refreshed_version = version
            self._network.request_update()
        return version > self._refreshed_version

    def joined(self) -> None:
        """The next rejoin asks again."""
        self._refreshed_version = None

    def close(self) -> None:
        """Look no more."""
        self._network.on_update.remove(self._updated)

    def _updated(self, cluster: ClusterMetadata) -> None:
        del cluster
        self._wake()

    def _match_pattern(self) -> None:
        matching = [
            topic.name
            for topic in self._network.cluster.topics.values()
            if self._subscriptions.matches_pattern(topic.name)
            and not (topic.is_internal and self._config.exclude_internal_topics)
        ]
        self._subscriptions.subscribe_from_pattern(matching)
