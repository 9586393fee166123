"""The metadata of the subscribed topics: topics that match a pattern, partitions that were added."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.aio.group.group import MemberParts
from ottla.client.state.group.group_leader import Racks, snapshot
from ottla.client.state.metadata import ClusterMetadata


class SubscribedTopics:
    """Requests the metadata of the subscribed topics, and notices its changes."""

    def __init__(self, parts: MemberParts) -> None:
        self._network = parts.network
        self._config = parts.config
        self._subscriptions = parts.subscriptions
        self._wake = parts.wake
        self._seen: tuple[int, int] | None = None
        self._refreshed_version: int | None = None
        self.snapshot: Mapping[str, Racks] = {}
        """The part of the newest metadata that an assignment depends on."""
        self._network.on_update.append(self._updated)

    def subscription_changed(self) -> None:
        """Request the metadata of the topics that are subscribed now; of all topics for a pattern."""
        if self._subscriptions.has_pattern:
            self._match_pattern()
            self._network.want_all_topics()
            self._refreshed_version = None
        else:
            self._network.want_only(list(self._subscriptions.metadata_topics()))

    def follow(self) -> bool:
        """Match the pattern and take the snapshot again if metadata or subscription changed; True if so."""
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
        """Whether a pattern was matched against metadata that was requested since a rejoin was needed."""
        # Otherwise members that learn of a new topic one after another rebalance the group one after another.
        if not self._subscriptions.has_pattern:
            return True
        version = self._network.metadata.version
        if self._refreshed_version is None:
            self._refreshed_version = version
            self._network.request_update()
        return version > self._refreshed_version

    def joined(self) -> None:
        """The next rejoin needs fresh metadata again."""
        self._refreshed_version = None

    def close(self) -> None:
        """Stop observing the metadata."""
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
