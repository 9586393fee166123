"""The state that the nodes of a cluster share: the storage engine, the catalog, the leader of each partition."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.broker.coordination.peers import NoPeers, Peers
from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.members import Member
from ottla.broker.security.caller import Caller
from ottla.broker.topic_deletion import TopicDeletion
from ottla.core.catalog import Catalog, Changes, Topic
from ottla.core.leadership import Leadership
from ottla.core.outcomes import Refused
from ottla.core.security.quotas.rates import TokenBucket
from ottla.core.security.quotas.table import ClientKey
from ottla.core.security.quotas.usage import Usage
from ottla.errors import ErrorCode, IllegalStateError, OttlaError
from ottla.events import EventLog
from ottla.model import NO_LEADER, Endpoint, TopicPartition
from ottla.ports import Clock, Ids, LogStore, PartitionRef, StorageError

logger = EventLog(__name__)

LOGIN_SECRET_BYTES = 32


class Placement(NamedTuple):
    """The leader and the replicas of a partition, as Metadata describes them."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]


class Led(NamedTuple):
    """The leader and the leader epoch of a partition at some moment."""

    topic: Topic
    partition: int
    leader_id: int
    epoch: int


class Cluster:
    """The state that all nodes share; nodes read and change the catalog here."""

    def __init__(self, store: LogStore, clock: Clock, ids: Ids) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.share = LoopShare(clock.monotonic_seconds)
        self.catalog = Catalog(store.catalog.entries())
        store.catalog.follow(self._follow)
        self.nodes: dict[int, Member] = {}  # live ones, by rising id
        self._leadership = Leadership()
        self._producer_ids = range(0)
        # Changes of partitions by clients with a quota, counted over all nodes.
        self.mutation_usage: Usage[ClientKey, TokenBucket] = Usage(TokenBucket)
        self.peers: Peers = NoPeers()
        self.deletion = TopicDeletion(
            store=store,
            catalog=self.catalog,
            share=self.share,
            commit=self.commit,
            members=lambda: self.nodes.values(),
        )

    @property
    def cluster_id(self) -> str:
        return self.store.cluster_id

    def commit(self, changes: Changes) -> None:
        """Writes changes of the catalog, which then follows them."""
        store = self.store.catalog
        store.commit(changes, store.revision)

    def _follow(self, revision: int, changes: Mapping[str, Any]) -> None:
        """Applies changes that are committed, and lets leadership and nodes act on them.

        Whoever decided them does nothing more: a node that only learns of them acts in the same way.
        """
        effects = self.catalog.effects_of(changes)
        members = list(self.nodes.values())
        for topic in effects.deleted:
            for member in members:
                member.partitions.forget_topic(topic)
        self.catalog.apply(changes)
        for topic in effects.deleted:
            self._leadership.forget(topic.topic_id)
        for grown in effects.grown:
            self._leadership.place_new(grown.topic, grown.first_partition)
        for member in members:
            for group_id in effects.groups:
                member.options.forget_group(group_id)
            if effects.alters_options:
                member.options.reload()
                member.partitions.reconfigure()

    def check_broker_config(self, name: str, altered: Mapping[str, str]) -> Refused | None:
        """Whether a broker, or with an empty name all brokers, may have these options altered."""
        for node_id, member in self.nodes.items():
            if name in ("", str(node_id)):
                refused = member.options.check_altered(name, altered)
                if refused is not None:
                    return refused
        return None

    def next_producer_id(self) -> int:
        """A new producer id; its block is reserved durably before its first id is used."""
        if not self._producer_ids:
            block, changes = self.catalog.reserve_producer_ids()
            self.commit(changes)
            self._producer_ids = block
        producer_id = self._producer_ids[0]
        self._producer_ids = self._producer_ids[1:]
        return producer_id

    def login_secret(self) -> bytes:
        """The secret of which credentials of users that do not exist are made; the same at every node and start."""
        if not self.catalog.login_secret:
            self.commit(self.catalog.set_login_secret(secrets.token_bytes(LOGIN_SECRET_BYTES)))
        return self.catalog.login_secret

    # Nodes.

    @property
    def controller_id(self) -> int:
        """The node that acts as controller: clients see it as such, and it does the work of the cluster as a whole."""
        return next(iter(self.nodes), NO_LEADER)

    def addresses_for(self, caller: Caller) -> list[tuple[int, Endpoint]]:
        """Every live node, and its address for a client."""
        return [(node_id, member.address_for(caller)) for node_id, member in self.nodes.items()]

    def join(self, node: Member) -> None:
        """Lets a node lead its share; at the start all nodes join before the first serves requests."""
        if node.node_id in self.nodes:
            raise IllegalStateError(f"node {node.node_id} has joined already")
        led = self._led() if self._leadership.known else []
        self._leadership.add(node.node_id, self.catalog.topics.values())
        self.nodes = dict(sorted({**self.nodes, node.node_id: node}.items()))
        self._hand_over(led)

    def lose_node(self, node_id: int) -> None:
        """Ends a node as a kill does: it saves nothing, and other nodes lead its partitions."""
        node = self._live(node_id)
        led = self._led()
        del self.nodes[node_id]
        self._leadership.remove(node_id)
        node.partitions.end()
        self._hand_over(led)

    @property
    def registered(self) -> Collection[int]:
        """The live nodes, and those that were lost and may come back."""
        return self._leadership.known

    def unregister(self, node_id: int) -> None:
        """Forgets a node that is not live: it is no replica any more."""
        self._leadership.retire(node_id, self.catalog.topics.values())
        logger.info("broker_unregistered", "broker %(broker)d is unregistered", broker=node_id)

    def _live(self, node_id: int) -> Member:
        node = self.nodes.get(node_id)
        if node is None:
            raise IllegalStateError(
                f"node {node_id} is not running; there are {', '.join(map(str, self.nodes)) or 'none'}"
            )
        return node

    # Leaders.

    def leader_of(self, topic: Topic, partition: int) -> int:
        """The node that leads a partition; NO_LEADER if no node is live."""
        return self._leadership.leader_of(topic, partition)

    def leader_epoch(self, topic: Topic, partition: int) -> int:
        return self.store.epoch_of(PartitionRef(topic.name, partition, topic.topic_id))

    def find_partition(self, name: str, partition: int) -> Topic:
        """The topic of a partition that a caller names."""
        topic = self.catalog.topics.get(name)
        if topic is None:
            raise OttlaError(f"there is no topic '{name}'")
        if not 0 <= partition < topic.partition_count:
            raise OttlaError(
                f"topic '{name}' has no partition {partition}: it has {topic.partition_count}"
            )
        return topic

    def move_leader(self, topic_name: str, partition: int, node_id: int) -> None:
        """Makes a node lead a partition; its leader epoch rises, and the old leader resigns."""
        topic = self.find_partition(topic_name, partition)
        self._live(node_id)
        led = self.led_now(topic, partition)
        self._leadership.move(topic, partition, node_id)
        self._hand_over([led])

    def elect_preferred(self, wanted: Iterable[TopicPartition]) -> list[ErrorCode]:
        """Makes the preferred leaders of partitions lead them where they can, all under one new epoch."""
        errors = []
        before = []
        for name, partition in wanted:
            topic = self.topic_of(name, partition)
            if topic is None:
                errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            preferred = self._leadership.preferred_leader_of(topic, partition)
            if self.leader_of(topic, partition) == preferred:
                errors.append(ErrorCode.ELECTION_NOT_NEEDED)
            elif preferred not in self.nodes:
                errors.append(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
            else:
                before.append(self.led_now(topic, partition))
                self._leadership.move(topic, partition, preferred)
                errors.append(ErrorCode.NONE)
        self._hand_over(before)
        return errors

    def elect_unclean(self, wanted: Iterable[TopicPartition]) -> list[ErrorCode]:
        """Elects no leader: all nodes read the same storage, so a partition that one cannot open, no other can."""
        errors = []
        for name, partition in wanted:
            topic = self.topic_of(name, partition)
            if topic is None:
                errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif self.place(topic, partition).leader_id == NO_LEADER:
                errors.append(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
            else:
                errors.append(ErrorCode.ELECTION_NOT_NEEDED)
        return errors

    def topic_of(self, name: str, partition: int) -> Topic | None:
        """The topic of a partition, if that exists."""
        topic = self.catalog.topics.get(name)
        if topic is None or not 0 <= partition < topic.partition_count:
            return None
        return topic

    def place(self, topic: Topic, partition: int) -> Placement:
        """The leader and the replicas of a partition, for a client."""
        leader_id, replica_ids = self._leadership.place(topic, partition)
        replicas = list(replica_ids)
        ref = PartitionRef(topic.name, partition, topic.topic_id)
        epoch = self.store.epoch_of(ref)
        nodes = self.nodes
        if leader_id == NO_LEADER or nodes[leader_id].partitions.is_offline(ref):
            error = ErrorCode.LEADER_NOT_AVAILABLE
            return Placement(error, NO_LEADER, epoch, replicas, replicas, replicas)
        if len(nodes) == len(self._leadership.known):
            return Placement(ErrorCode.NONE, leader_id, epoch, replicas, replicas, [])
        in_sync = [node_id for node_id in replicas if node_id in nodes]
        offline = [node_id for node_id in replicas if node_id not in nodes]
        return Placement(ErrorCode.NONE, leader_id, epoch, replicas, in_sync, offline)

    def led_now(self, topic: Topic, partition: int) -> Led:
        """The leader of a partition, and its epoch."""
        leader_id = self.leader_of(topic, partition)
        return Led(topic, partition, leader_id, self.leader_epoch(topic, partition))

    def _led(self) -> list[Led]:
        return [
            self.led_now(topic, partition)
            for topic in self.catalog.topics.values()
            for partition in range(topic.partition_count)
        ]

    def _hand_over(self, before: Iterable[Led]) -> None:
        """Makes the old leaders of moved partitions resign, and raises the epochs of all of them in one step.

        Clients accept a new leader only if its epoch is higher. The new leader claims a partition that is in use; the
        others get the higher epoch with their first claim.
        """
        moved = [led for led in before if self.leader_of(led.topic, led.partition) != led.leader_id]
        for led in moved:
            if led.leader_id in self.nodes:
                ref = PartitionRef(led.topic.name, led.partition, led.topic.topic_id)
                self.nodes[led.leader_id].partitions.resign(ref)
        unraised = [led for led in moved if self._has_old_epoch(led)]
        if unraised:
            refs = [
                PartitionRef(led.topic.name, led.partition, led.topic.topic_id) for led in unraised
            ]
            try:
                self.store.raise_epochs(refs)
            except StorageError as error:
                logger.error(
                    "leader_epoch_not_raised",
                    "clients may not learn of new leaders soon: %(reason)s",
                    reason=str(error),
                )
        for led in moved:
            leader_id = self.leader_of(led.topic, led.partition)
            logger.info(
                "leader_changed",
                "partition %(topic)s-%(partition)d: node %(leader)d leads it after %(leader_before)d",
                topic=led.topic.name,
                partition=led.partition,
                leader=leader_id,
                leader_before=led.leader_id,
            )
            if leader_id in self.nodes and self._has_old_epoch(led):
                self.nodes[leader_id].partitions.shard(led.topic.name, led.partition)

    def _has_old_epoch(self, led: Led) -> bool:
        return self.leader_epoch(led.topic, led.partition) <= led.epoch
