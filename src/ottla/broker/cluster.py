"""The cluster as its nodes share it: the storage engine, the catalog, who leads what."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.coordination.peers import LocalPeers, Peers
from ottla.broker.loop.loop_share import LoopShare, at_once
from ottla.broker.requests.gather_responses import together
from ottla.core.catalog import Catalog, Changes, Deleted, Topic
from ottla.core.leadership import Leadership
from ottla.errors import ErrorCode, IllegalStateError, OttlaError
from ottla.events import EventLog
from ottla.model import NO_LEADER
from ottla.ports import Clock, Ids, LogStore, PartitionRef, StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.core.group.machine import GroupMachine
    from ottla.core.turn import Turn

logger = EventLog(__name__)


class Placement(NamedTuple):
    """What clients are told of where a partition is."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]


class Led(NamedTuple):
    """A partition with the leader and the epoch that it had at some moment."""

    topic: Topic
    partition: int
    leader_id: int
    epoch: int


class Cluster:
    """What is one for all nodes: they read the catalog here and change it here."""

    def __init__(self, store: LogStore, clock: Clock, ids: Ids) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.share = LoopShare(clock.monotonic_seconds)
        self.catalog = Catalog(store.catalog.entries())
        self.nodes: dict[int, Node] = {}  # those that are live, by rising id
        self._leadership = Leadership()
        self._producer_ids = range(0)
        self.peers: Peers = LocalPeers(self)
        # Deleted topics that groups are being made to forget; a dict for its order.
        self._forgetting: dict[uuid.UUID, None] = {}
        # Deleted topics whose data is being removed.
        self._removing: set[uuid.UUID] = set()

    @property
    def cluster_id(self) -> str:
        return self.store.cluster_id

    def commit(self, changes: Changes) -> None:
        """Makes a decision durable, then true."""
        store = self.store.catalog
        store.commit(changes, store.revision)
        self.catalog.apply(changes)

    def delete_topics(self, topics: Sequence[Topic]) -> Generator[None, None, None]:
        """Deletes topics in one step; what is returned removes their data, in many steps if there is much.

        After a crash in the middle `finish_deletions` does the rest.
        """
        now_ms = self.clock.now_ms()
        together: Changes = {}
        for topic in topics:
            for node in self.nodes.values():
                node.forget_topic(topic)
            together |= self.catalog.delete(topic, now_ms)
        self.commit(together)
        for topic in topics:
            self._leadership.forget(topic.topic_id)
        return self._remove_deleted()

    def forget_offsets_early(self, topics: Iterable[Topic]) -> None:
        """Has groups forget topics whose data is still being removed: the next of that name may come sooner."""
        for topic in topics:
            deleted = self.catalog.deleting.get(topic.topic_id)
            if deleted is not None:
                for node in self.nodes.values():
                    node.groups.ask_all(partial(_forget_topic, deleted=deleted))

    async def finish_deletions(self) -> None:
        """Removes what is left of topics that are no longer in the catalog; what cannot go yet is tried again."""
        if self.catalog.deleting:
            await self.share.run(self._remove_deleted())

    def finish_deletions_at_once(self) -> None:
        """As `finish_deletions`, before anybody is served."""
        at_once(self._remove_deleted())

    def _remove_deleted(self) -> Generator[None, None, None]:
        found = {
            topic_id: deleted
            for topic_id, deleted in self.catalog.deleting.items()
            if topic_id not in self._removing
        }
        gone: dict[uuid.UUID, Deleted] = {}
        self._removing.update(found)
        try:
            for topic_id, deleted in found.items():
                try:
                    for partition in range(deleted.partition_count):
                        self.store.delete(PartitionRef(deleted.name, partition, topic_id))
                        yield
                except StorageError as error:
                    logger.error(
                        "topic_data_not_deleted",
                        "the data of the deleted topic %(topic)s is still there: %(reason)s",
                        topic=deleted.name,
                        reason=str(error),
                    )
                    continue
                # Before the nodes have joined, nobody knows what groups have committed.
                if self.nodes and topic_id not in self._forgetting:
                    gone[topic_id] = deleted
        finally:
            self._removing.difference_update(found)
        if gone:
            self._forget_offsets(gone)

    def _forget_offsets(self, gone: Mapping[uuid.UUID, Deleted]) -> None:
        """Has every group forget deleted topics; when all of that is durable, nothing is left of them."""

        def forget(groups: GroupMachine, turn: Turn) -> list[uuid.UUID]:
            """Those for which a transaction has to end first: the next tick tries again."""
            return [
                topic_id
                for topic_id, deleted in gone.items()
                if _forget_topic(groups, turn, deleted) is not ErrorCode.NONE
            ]

        def forgotten(results: list[list[uuid.UUID] | ErrorCode]) -> None:
            for topic_id in gone:
                del self._forgetting[topic_id]
            waiting: set[uuid.UUID] = set()
            for result in results:
                if isinstance(result, ErrorCode):
                    return  # a partition has moved or is offline: the next tick tries again
                waiting.update(result)
            ended: Changes = {}
            for topic_id in gone:
                if topic_id not in waiting:
                    ended |= self.catalog.deleted(topic_id)
            if not ended:
                return
            try:
                self.commit(ended)
            except StorageError as error:
                logger.error(
                    "topic_end_not_noted",
                    "the end of topic %(topic)s was not noted: %(reason)s",
                    topic=", ".join(deleted.name for deleted in gone.values()),
                    reason=str(error),
                )

        self._forgetting.update(dict.fromkeys(gone))
        parts = [part for node in self.nodes.values() for part in node.groups.ask_all(forget)]
        together(parts, forgotten)

    def reconfigure(self) -> None:
        """Lets every node take the options that are in the catalog now."""
        for node in self.nodes.values():
            node.reconfigure()

    def adopt_topics(self) -> None:
        """Takes over the partitions of a folder without a catalog: Apache Kafka's, or ours that lost its journal."""
        if self.store.catalog.entries():
            return
        adopted = self.catalog.adopt(self.store.partitions(), self.clock.now_ms())
        for problem in adopted.problems:
            logger.error("topic_not_adopted", "not taken over: %(reason)s", reason=problem)
        if not adopted.changes:
            return
        self.commit(adopted.changes)
        for topic in adopted.topics:
            logger.warning(
                "topic_adopted",
                "took over topic %(topic)s with %(partitions)d partition(s): "
                "%(config)s until it is configured otherwise",
                topic=topic.name,
                partitions=topic.partition_count,
                config=", ".join(f"{name}={value}" for name, value in topic.config.items()),
            )

    def next_producer_id(self) -> int:
        """A producer id that was never given to anybody: its block is reserved durably first."""
        if not self._producer_ids:
            block, changes = self.catalog.reserve_producer_ids()
            self.commit(changes)
            self._producer_ids = block
        producer_id = self._producer_ids[0]
        self._producer_ids = self._producer_ids[1:]
        return producer_id

    # Nodes.

    @property
    def controller_id(self) -> int:
        """The node that clients are told to be the controller, and that does what is to be done once."""
        return next(iter(self.nodes), NO_LEADER)

    def join(self, node: Node) -> None:
        """Lets a node lead its share; all that are there at the start join before any of them is asked something."""
        if node.node_id in self.nodes:
            raise IllegalStateError(f"node {node.node_id} is there already")
        led = self._led() if self._leadership.known else []
        self._leadership.add(node.node_id, self.catalog.topics.values())
        self.nodes = dict(sorted({**self.nodes, node.node_id: node}.items()))
        self._hand_over(led)

    def lose_node(self, node_id: int) -> None:
        """Ends a node as a kill does: it saves nothing, and others lead what it led."""
        node = self._live(node_id)
        led = self._led()
        del self.nodes[node_id]
        self._leadership.remove(node_id)
        node.end()
        self._hand_over(led)

    def _live(self, node_id: int) -> Node:
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
        """Makes a node lead a partition; its leader epoch rises, and the old leader knows nothing of it any more."""
        topic = self.find_partition(topic_name, partition)
        self._live(node_id)
        led = self.led_now(topic, partition)
        self._leadership.move(topic, partition, node_id)
        self._hand_over([led])

    def place_new(self, topic: Topic, first_partition: int = 0) -> None:
        """Takes note of partitions that were created just now."""
        self._leadership.place_new(topic, first_partition)

    def elect_preferred(self, wanted: Iterable[tuple[Topic, int]]) -> list[ErrorCode]:
        """Makes the preferred leaders of partitions lead them where they can, all under one new epoch."""
        errors = []
        before = []
        for topic, partition in wanted:
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

    def place(self, topic: Topic, partition: int) -> Placement:
        """Where a partition is, as clients are told."""
        leader_id, replica_ids = self._leadership.place(topic, partition)
        replicas = list(replica_ids)
        ref = PartitionRef(topic.name, partition, topic.topic_id)
        epoch = self.store.epoch_of(ref)
        nodes = self.nodes
        if leader_id == NO_LEADER or nodes[leader_id].is_offline(ref):
            error = ErrorCode.LEADER_NOT_AVAILABLE
            return Placement(error, NO_LEADER, epoch, replicas, replicas, replicas)
        if len(nodes) == len(self._leadership.known):
            return Placement(ErrorCode.NONE, leader_id, epoch, replicas, replicas, [])
        in_sync = [node_id for node_id in replicas if node_id in nodes]
        offline = [node_id for node_id in replicas if node_id not in nodes]
        return Placement(ErrorCode.NONE, leader_id, epoch, replicas, in_sync, offline)

    def led_now(self, topic: Topic, partition: int) -> Led:
        """Who leads a partition, and since which epoch."""
        leader_id = self.leader_of(topic, partition)
        return Led(topic, partition, leader_id, self.leader_epoch(topic, partition))

    def _led(self) -> list[Led]:
        return [
            self.led_now(topic, partition)
            for topic in self.catalog.topics.values()
            for partition in range(topic.partition_count)
        ]

    def _hand_over(self, before: Iterable[Led]) -> None:
        """Ends the old leaders of partitions that have another one now, and lets their epochs rise at once.

        Clients take a new leader for news only if its epoch is higher. What is in use is claimed by its new leader;
        for the others it is enough that their first claim will be a higher one.
        """
        moved = [led for led in before if self.leader_of(led.topic, led.partition) != led.leader_id]
        for led in moved:
            if led.leader_id in self.nodes:
                ref = PartitionRef(led.topic.name, led.partition, led.topic.topic_id)
                self.nodes[led.leader_id].resign(ref)
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
                self.nodes[leader_id].shard(led.topic.name, led.partition)

    def _has_old_epoch(self, led: Led) -> bool:
        return self.leader_epoch(led.topic, led.partition) <= led.epoch


def _forget_topic(groups: GroupMachine, turn: Turn, deleted: Deleted) -> ErrorCode:
    return groups.forget_topic(turn, deleted.name, deleted.deleted_at_ms)
