"""The cluster's metadata as the client knows it, and when the next request for it is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from ottla.client.model import Node, PartitionInfo
from ottla.client.state.backoff import Backoff
from ottla.client.topic_errors import topic_error, topic_error_text
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_LEADER, NO_TOPIC_ID
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_EPOCH = -1
NO_CONTROLLER = -1


class PartitionState(NamedTuple):
    """The leader and the replicas of a partition, by node id."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error_code: int


class Topic(NamedTuple):
    """A topic with all its partitions, in order."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True)
class ClusterMetadata:
    """An immutable snapshot of the metadata."""

    cluster_id: str | None = None
    controller_id: int = NO_CONTROLLER
    nodes: Mapping[int, Node] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, Topic] = field(default_factory=lambda: MappingProxyType({}))
    errors: Mapping[str, ErrorCode] = field(default_factory=lambda: MappingProxyType({}))
    """Why a topic that was requested is not among `topics`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", {t.topic_id: t.name for t in self.topics.values()})
        object.__setattr__(self, "_available", {})

    _names: dict[UUID, str] = field(init=False, repr=False, compare=False)
    _available: dict[str, tuple[int, ...]] = field(init=False, repr=False, compare=False)

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        """The state of a partition; None if it is not known."""
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def leader_of(self, topic: str, partition: int) -> int:
        """The node id of the leader; NO_LEADER if there is none or the partition is not known."""
        found = self.partition(topic, partition)
        return NO_LEADER if found is None else found.leader

    def available(self, topic: str) -> tuple[int, ...]:
        """The partitions of a topic that have a leader."""
        found = self._available.get(topic)
        if found is None:
            known = self.topics.get(topic)
            partitions = () if known is None else known.partitions
            found = tuple(p.partition for p in partitions if p.leader != NO_LEADER)
            self._available[topic] = found
        return found

    def error_of(self, topic: str) -> KafkaError:
        """The exception for a topic that is in `errors`."""
        return topic_error(self.errors[topic], topic)

    def topic_id(self, topic: str) -> UUID:
        """The id of a topic; zeros if the broker has no topic ids."""
        found = self.topics.get(topic)
        return NO_TOPIC_ID if found is None else found.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of the topic with this id."""
        return self._names.get(topic_id)

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, with nodes in place of their ids."""
        known = self.topics.get(topic)
        return [] if known is None else [self._info(topic, p) for p in known.partitions]

    def _info(self, topic: str, state: PartitionState) -> PartitionInfo:
        def nodes(ids: tuple[int, ...]) -> tuple[Node, ...]:
            return tuple(self.nodes.get(i) or Node(i, "", -1, None) for i in ids)

        return PartitionInfo(
            topic,
            state.partition,
            self.nodes.get(state.leader),
            nodes(state.replicas),
            nodes(state.isr),
            nodes(state.offline),
        )


class MetadataState:
    """Which topics are wanted, the newest snapshot, and when the next request is due."""

    def __init__(
        self,
        *,
        max_age_ms: float,
        backoff: Backoff,
        creates_topics: bool = True,
        max_idle_ms: float | None = None,
    ) -> None:
        self.cluster = ClusterMetadata()
        self.version = 0
        """How many answers have been applied."""
        self._max_age_ms = max_age_ms
        self._max_idle_ms = max_idle_ms
        self._backoff = backoff
        self._creates_topics = creates_topics
        self._wanted: dict[str, float] = {}
        self._wants_all = False
        self._unnamed: dict[UUID, None] = {}
        self._asked_names = True
        self._update_requested = True
        self._attempts = 0
        self._has_failed = False
        self.failing_since_ms: float | None = None
        """When the first request failed since the last answer; None if none has."""
        self._warned: dict[str, ErrorCode] = {}
        self._refreshed_ms: float | None = None
        self._not_before_ms = 0.0

    @property
    def wanted(self) -> tuple[str, ...]:
        """The topics that are followed."""
        return tuple(self._wanted)

    def want(self, topic: str, now_ms: float) -> None:
        """Follow a topic from now on; a new one is requested at once."""
        if topic not in self._wanted:
            self._ask_soon()
        self._wanted[topic] = now_ms

    def want_only(self, topics: Mapping[str, float] | list[str], now_ms: float) -> None:
        """Follow these topics and no others."""
        before = self._wanted
        self._wanted = dict.fromkeys(topics, now_ms)
        self._wants_all = False
        if any(topic not in before for topic in self._wanted):
            self._ask_soon()

    def want_names_of(self, topic_ids: Iterable[UUID]) -> None:
        """Find the names of these topics, and of no others; then follow them."""
        before, self._unnamed = self._unnamed, dict.fromkeys(topic_ids)
        if any(topic_id not in before for topic_id in self._unnamed):
            self._ask_soon()

    def want_all(self) -> None:
        """Follow all topics, including those that are created later."""
        if not self._wants_all:
            self._wants_all = True
            self._ask_soon()

    def request_update(self) -> None:
        """Request metadata as soon as the backoff allows."""
        self._update_requested = True

    def due_in_ms(self, now_ms: float) -> float:
        """How long until the next request has to be sent; 0 if it is due."""
        if self._update_requested or self._refreshed_ms is None:
            wait = 0.0
        else:
            wait = self._refreshed_ms + self._max_age_ms - now_ms
        return max(wait, self._not_before_ms - now_ms, 0.0)

    def next_request(self, now_ms: float) -> MetadataRequest:
        """The request for all topics that are followed."""
        self._drop_idle(now_ms)
        self._update_requested = False
        if self._wants_all:
            return MetadataRequest(topics=None, allow_auto_topic_creation=False)
        if self._unnamed and self._asked_names:
            # A request has either ids or names: they take turns.
            self._asked_names = False
            return MetadataRequest(
                topics=[MetadataRequestTopic(topic_id=each, name=None) for each in self._unnamed],
                allow_auto_topic_creation=False,
            )
        self._asked_names = True
        return MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in self._wanted],
            allow_auto_topic_creation=self._creates_topics,
        )

    def failed(self, now_ms: float, random_unit: float) -> None:
        """No answer came: try again after a pause."""
        self._update_requested = True
        self._has_failed = True
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms
        self._pause(now_ms, random_unit)

    def apply(
        self,
        request: MetadataRequest,
        response: MetadataResponse,
        now_ms: float,
        random_unit: float,
    ) -> list[tuple[str, str]]:
        """Apply an answer; topics with retriable errors are requested again.

        Returns topics to warn of, with a sentence each: those whose error is in two answers in a row (a topic that is
        being created has one for a moment), once.
        """
        self.failing_since_ms = None
        nodes = {
            b.node_id: Node(b.node_id, b.host, b.port, b.rack or None) for b in response.brokers
        }
        # The metadata of another cluster replaces all (KIP-899), also leader epochs.
        before = (
            self.cluster if response.cluster_id == self.cluster.cluster_id else ClusterMetadata()
        )
        by_id = request.topics is not None and any(each.name is None for each in request.topics)
        self._name_topics(response, now_ms)
        topics: dict[str, Topic] = {}
        errors: dict[str, ErrorCode] = {}
        if request.topics is not None:
            for name in self._wanted:
                if name in before.topics:
                    topics[name] = before.topics[name]
                elif name in before.errors:
                    errors[name] = before.errors[name]
        again = self._read_topics(response, before, topics, errors)
        self.cluster = ClusterMetadata(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            nodes=MappingProxyType(nodes),
            topics=MappingProxyType(topics),
            errors=MappingProxyType(errors),
        )
        self.version += 1
        self._refreshed_ms = now_ms
        self._has_failed = False
        warnings = self._new_warnings(errors, before)
        if again:
            self._update_requested = True
            self._pause(now_ms, random_unit)
        else:
            self._attempts = 0
            # Updates that are requested in a burst share one answer.
            self._not_before_ms = now_ms + self._backoff.initial_ms * (0.8 + 0.4 * random_unit)
        asked = self._wanted if request.topics is None else {t.name for t in request.topics}
        if by_id:
            self._update_requested = True
        elif any(name not in asked for name in self._wanted):
            # Topics were added after the request was sent.
            self._update_requested = True
            self._not_before_ms = now_ms
        return warnings

    def _read_topics(
        self,
        response: MetadataResponse,
        before: ClusterMetadata,
        topics: dict[str, Topic],
        errors: dict[str, ErrorCode],
    ) -> bool:
        """Read the topics of an answer into `topics` and `errors`; True if it has to be requested again."""
        again = bool(self._unnamed)
        for found in response.topics:
            if not found.name:
                continue  # there is no topic with this id, or not yet
            name = found.name
            error = ErrorCode(found.error_code)
            if error is ErrorCode.NONE and not _is_complete(found):
                error = ErrorCode.LEADER_NOT_AVAILABLE
            if error is ErrorCode.NONE:
                errors.pop(name, None)
                topics[name] = _read_topic(name, found, before)
                again |= any(p.leader == NO_LEADER for p in topics[name].partitions)
            else:
                # The former state is removed: the topic may have been deleted.
                topics.pop(name, None)
                errors[name] = error
                again |= error.retriable and name in self._wanted
        return again

    def _name_topics(self, response: MetadataResponse, now_ms: float) -> None:
        """Follow topics by name whose ids were wanted."""
        for found in response.topics:
            if found.topic_id in self._unnamed and found.name:
                del self._unnamed[found.topic_id]
                self._wanted[found.name] = now_ms

    def _new_warnings(
        self, errors: Mapping[str, ErrorCode], before: ClusterMetadata
    ) -> list[tuple[str, str]]:
        """Errors of topics that the last answer had as well, unless they were returned before."""
        lasting = {name: code for name, code in errors.items() if before.errors.get(name) is code}
        warned, self._warned = self._warned, lasting
        return [
            (name, topic_error_text(code, name))
            for name, code in lasting.items()
            if warned.get(name) is not code
        ]

    def update_leader(
        self, topic: str, partition: int, leader: int, leader_epoch: int, nodes: Mapping[int, Node]
    ) -> bool:
        """Apply the leader that a broker's answer names (KIP-951); False if that is not new."""
        known = self.cluster.partition(topic, partition)
        if known is None or leader < 0 or leader_epoch <= known.leader_epoch:
            return False
        all_nodes = {**self.cluster.nodes, **nodes}
        if leader not in all_nodes:
            return False
        old = self.cluster.topics[topic]
        changed = known._replace(leader=leader, leader_epoch=leader_epoch, error_code=0)
        partitions = (*old.partitions[:partition], changed, *old.partitions[partition + 1 :])
        self.cluster = ClusterMetadata(
            cluster_id=self.cluster.cluster_id,
            controller_id=self.cluster.controller_id,
            nodes=MappingProxyType(all_nodes),
            topics=MappingProxyType(
                {**self.cluster.topics, topic: old._replace(partitions=partitions)}
            ),
            errors=self.cluster.errors,
        )
        return True

    def _ask_soon(self) -> None:
        """Request new topics at once; only the pause after a failure still applies."""
        self._update_requested = True
        if not self._has_failed:
            self._not_before_ms = 0.0

    def _pause(self, now_ms: float, random_unit: float) -> None:
        self._not_before_ms = now_ms + self._backoff.delay_ms(self._attempts, random_unit)
        self._attempts += 1

    def _drop_idle(self, now_ms: float) -> None:
        """Forget topics that were not used for metadata.max.idle.ms."""
        if self._max_idle_ms is not None:
            oldest_ms = now_ms - self._max_idle_ms
            self._wanted = {t: used for t, used in self._wanted.items() if used >= oldest_ms}


def _is_complete(found: MetadataResponseTopic) -> bool:
    """Whether the answer has each partition once: they are found by their index later."""
    indexes = sorted(each.partition_index for each in found.partitions)
    return indexes == list(range(len(indexes)))


def _read_topic(name: str, found: MetadataResponseTopic, before: ClusterMetadata) -> Topic:
    old = before.topics.get(name)
    known = old.partitions if old is not None and old.topic_id == found.topic_id else ()
    ordered = sorted(found.partitions, key=lambda each: each.partition_index)
    partitions = tuple(_read_partition(each, known) for each in ordered)
    return Topic(name, found.topic_id, found.is_internal, partitions)


def _read_partition(
    found: MetadataResponsePartition, known: tuple[PartitionState, ...]
) -> PartitionState:
    index = found.partition_index
    # The answer of a broker that is behind has an older leader epoch: keep the newer leader (KIP-320).
    if index < len(known) and NO_EPOCH < found.leader_epoch < known[index].leader_epoch:
        return known[index]
    return PartitionState(
        index,
        found.leader_id if found.leader_id >= 0 else NO_LEADER,
        found.leader_epoch,
        tuple(found.replica_nodes),
        tuple(found.isr_nodes),
        tuple(found.offline_replicas),
        found.error_code,
    )
