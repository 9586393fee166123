"""The state that the nodes of a cluster share: the storage engine, the catalog, the leader of each partition."""

from __future__ import annotations

import asyncio
import enum
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from ottla.broker.catalog_changes import CatalogChanges, Decide, Decision
from ottla.broker.coordination.peers import NoPeers, Peers
from ottla.broker.leaders.leader_epochs import LeaderEpochs
from ottla.broker.leaders.leaders import Leaders, Led, Placement
from ottla.broker.leaders.leased import LeasedLeaders
from ottla.broker.leaders.one_process import LeadersOfOneProcess
from ottla.broker.leaders.own_stores import LeadersWithOwnStores
from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.members import RESTART_SECONDS, Member, Members
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.security.caller import Caller
from ottla.broker.topic_deletion import TopicDeletion
from ottla.core.catalog import Catalog, Changes, Topic
from ottla.core.leadership import Owners
from ottla.core.outcomes import Refused
from ottla.core.security.quotas.rates import TokenBucket
from ottla.core.security.quotas.table import ClientKey
from ottla.core.security.quotas.usage import Usage
from ottla.errors import ErrorCode, IllegalStateError, OttlaError
from ottla.events import EventLog
from ottla.model import NO_LEADER, Endpoint, TopicPartition
from ottla.ports import Clock, Ids, LogStore, PartitionRef, StorageError
from ottla.ports.futures import settled
from ottla.ports.leases import Leases

T = TypeVar("T")

logger = EventLog(__name__)

LOGIN_SECRET_BYTES = 32


class Housekeeping(enum.Enum):
    """Periodic work that one node of the whole cluster does."""

    DELETIONS = "removing the data of deleted topics"


class Cluster:
    """The state that all nodes share; nodes read and change the catalog here.

    With `owners` each node has a store and a process of its own, and this process has one of them: what the others
    are, and the epochs of their partitions, it is told. With `leases` nodes of several processes share a store.
    """

    def __init__(
        self,
        store: LogStore,
        clock: Clock,
        ids: Ids,
        owners: Owners | None = None,
        leases: Leases | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.share = LoopShare(clock.monotonic_seconds)
        self.catalog = Catalog(store.catalog.entries())
        self._changes = CatalogChanges(store.catalog)
        # The partitions of a lost broker go to others, those of a lost worker wait for it.
        self.members = Members(
            clock, restart_seconds=0.0 if leases is not None else RESTART_SECONDS
        )
        self.leader_epochs: LeaderEpochs | None = None
        self._leaders: Leaders
        self.leased: LeasedLeaders | None = None
        if leases is not None:
            self._leaders = self.leased = LeasedLeaders(leases, self.members, self.catalog)
        elif owners is None:
            self._leaders = LeadersOfOneProcess(store, self.members, self.catalog)
        else:
            own_stores = LeadersWithOwnStores(store, self.members, owners)
            self._leaders, self.leader_epochs = own_stores, own_stores.epochs
        self.producer_ids = ProducerIds(self.catalog, self._changes)
        # Changes of partitions by clients with a quota, counted over all nodes of this process.
        self.mutation_usage: Usage[ClientKey, TokenBucket] = Usage(TokenBucket)
        self.peers: Peers = NoPeers()
        # Whether this process does a task of the whole cluster; another one may, where several have one store.
        self.is_housekeeper: Callable[[Housekeeping], bool] = lambda _task: True
        self.deletion = TopicDeletion(
            store=store,
            catalog=self.catalog,
            share=self.share,
            change=self.change,
            members=self.members,
            leaders=self._leaders,
        )
        store.catalog.follow(self._follow)

    @property
    def cluster_id(self) -> str:
        return self.store.cluster_id

    def change(self, decide: Decide[T]) -> NowOrLater[T | Refused]:
        """Changes the catalog by what `decide` finds; the outcome is there when every live node acts by the change.

        `decide` is called again if another process has changed the catalog meanwhile.
        """
        return self._changes.make(decide)

    def commit(self, changes: Changes) -> None:
        """Changes the catalog before nodes serve, in a process that has it to itself; raises StorageError."""
        store = self.store.catalog
        committed = store.commit(changes, store.revision)
        assert not isinstance(committed, asyncio.Future), "other processes have the catalog too"

    def _follow(self, revision: int, changes: Mapping[str, Any]) -> None:
        """Applies changes that are committed, and lets leadership and nodes act on them.

        Whoever decided them does nothing more: a node that only learns of them acts in the same way.
        """
        effects = self.catalog.effects_of(changes)
        members = list(self.members.here.values())
        for topic in effects.deleted:
            for member in members:
                member.partitions.forget_topic(topic)
        self.catalog.apply(changes)
        for topic in effects.deleted:
            self._leaders.forget(topic.topic_id)
        for grown in effects.grown:
            self._leaders.place_new(grown.topic, grown.first_partition)
        for member in members:
            for group_id in effects.groups:
                member.options.forget_group(group_id)
            if effects.alters_options:
                member.options.reload()
                member.partitions.reconfigure()
        if self._leaders.deletion_parts is not None:
            self.deletion.followed(effects.deleted)

    def check_broker_config(self, name: str, altered: Mapping[str, str]) -> Refused | None:
        """Whether a broker, or with an empty name all brokers, may have these options altered."""
        for node_id, member in self.members.here.items():
            if name in ("", str(node_id)):
                refused = member.options.check_altered(name, altered)
                if refused is not None:
                    return refused
        return None

    async def login_secret(self) -> bytes:
        """The secret of which credentials of users that do not exist are made; the same at every node and start."""

        def decide() -> Decision[None]:
            is_known = bool(self.catalog.login_secret)
            secret = secrets.token_bytes(LOGIN_SECRET_BYTES)
            return Decision({} if is_known else self.catalog.set_login_secret(secret), None)

        refused = await settled(self.change(decide))
        if refused is not None:
            raise StorageError(refused.text)
        return self.catalog.login_secret

    # Nodes.

    @property
    def spans_processes(self) -> bool:
        """Whether nodes of other processes change the catalog too, so that a commit takes its time."""
        return self._leaders.deletion_parts is not None

    @property
    def leads_everything(self) -> bool:
        """Whether there is one node."""
        return len(self.registered) == 1

    @property
    def placeable(self) -> list[int]:
        """The nodes that can be replicas of new partitions."""
        return self._leaders.placeable

    @property
    def copies(self) -> int:
        """The number of replicas that internal topics can have."""
        return self._leaders.copies

    @property
    def controller_id(self) -> int:
        """The live node that clients see as the controller; all nodes do what they ask of it."""
        return self.members.first_live

    def keeps_house(self, node_id: int, task: Housekeeping) -> bool:
        """Whether a node does the work that one node of the whole cluster does."""
        return self.is_first_here(node_id) and self.is_housekeeper(task)

    def is_first_here(self, node_id: int) -> bool:
        """Whether a node does the work that is done once in a process."""
        return next(iter(self.members.here), NO_LEADER) == node_id

    def addresses_for(self, caller: Caller) -> list[tuple[int, Endpoint]]:
        """Every node to which clients are sent, and its address for a client."""
        return self.members.addresses_for(caller)

    def rack_of(self, node_id: int) -> str | None:
        """The rack of a node, if it is in one."""
        return self._leaders.rack_of(node_id)

    def join(self, node: Member) -> None:
        """Lets a node lead its share; at the start all nodes join before the first serves requests."""
        if node.node_id in self.members.here:
            raise IllegalStateError(f"node {node.node_id} has joined already")
        self._leaders.join(node)

    def lose_node(self, node_id: int) -> None:
        """Ends a node as a kill does: it saves nothing, and other nodes of this process lead its partitions."""
        self._live(node_id)
        self._leaders.lose(self.members.remove(node_id))

    @property
    def registered(self) -> Collection[int]:
        """The live nodes, and those that were lost and may come back."""
        return self._leaders.registered

    def unregister(self, node_id: int) -> NowOrLater[Refused | None]:
        """Forgets a node that is not live: it is no replica any more."""
        if node_id not in self.registered:
            return Refused(
                ErrorCode.BROKER_ID_NOT_REGISTERED,
                f"Broker ID {node_id} is not currently registered",
            )
        return self._leaders.unregister(node_id)

    def _live(self, node_id: int) -> Member:
        here = self.members.here
        node = here.get(node_id)
        if node is None:
            raise IllegalStateError(
                f"node {node_id} is not running; there are {', '.join(map(str, here)) or 'none'}"
            )
        return node

    # Leaders.

    def leader_of(self, topic: Topic, partition: int) -> int:
        """The node that leads a partition; NO_LEADER if no node is live that can."""
        return self._leaders.leader_of(topic, partition)

    def leader_epoch(self, topic: Topic, partition: int) -> int:
        """The epoch of a partition; lower than that of its leader if another process has not told it yet."""
        return self._leaders.leader_epoch(topic, partition)

    def claimed(self, ref: PartitionRef, epoch: int) -> None:
        """A node of this process has claimed a partition."""
        self._leaders.claimed(ref, epoch)

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
        self._leaders.check_moves()
        if not self.members.is_present(node_id):
            self._live(node_id)
        self._leaders.move_all([(topic, partition, node_id)])

    def elect_preferred(self, wanted: Iterable[TopicPartition]) -> list[ErrorCode]:
        """Makes the preferred leaders of partitions lead them where they can, all under one new epoch."""
        errors = []
        moves: dict[tuple[str, int], tuple[Topic, int, int]] = {}
        for name, partition in wanted:
            topic = self.topic_of(name, partition)
            if topic is None:
                errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            preferred = self._leaders.preferred_leader_of(topic, partition)
            if self.leader_of(topic, partition) == preferred or (name, partition) in moves:
                errors.append(ErrorCode.ELECTION_NOT_NEEDED)
            elif not self.members.is_present(preferred):
                errors.append(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
            else:
                moves[name, partition] = (topic, partition, preferred)
                errors.append(ErrorCode.NONE)
        self._leaders.move_all(list(moves.values()))
        return errors

    def elect_unclean(self, wanted: Iterable[TopicPartition]) -> list[ErrorCode]:
        """Elects no leader: a partition has one copy, so what its leader cannot open, no other node can."""
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
        return self._leaders.place(topic, partition)

    def has_replica(self, node_id: int, topic: Topic, partition: int) -> bool:
        """Whether a node has a partition in its log directory."""
        return self._leaders.has_replica(node_id, topic, partition)

    def in_sync_count(self, topic: Topic, partition: int) -> int:
        """The number that is compared with `min.insync.replicas`."""
        return self._leaders.in_sync_count(topic, partition)

    def led_now(self, topic: Topic, partition: int) -> Led:
        """The leader of a partition, and its epoch."""
        leader_id = self.leader_of(topic, partition)
        return Led(topic, partition, leader_id, self.leader_epoch(topic, partition))
