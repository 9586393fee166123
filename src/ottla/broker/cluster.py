"""The cluster as its nodes share it: the storage engine, the catalog, who leads what."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.core.catalog import Catalog, Changes, Topic
from ottla.ports import Clock, Ids, LogStore, PartitionRef, StorageError

logger = logging.getLogger(__name__)


class Cluster:
    """What is one for all nodes: they read the catalog here and change it here."""

    def __init__(self, store: LogStore, clock: Clock, ids: Ids) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.catalog = Catalog(store.catalog.entries())
        self.nodes: list[int] = []
        self._producer_ids = range(0)

    @property
    def cluster_id(self) -> str:
        return self.store.cluster_id

    def commit(self, changes: Changes) -> None:
        """Makes a decision durable, then true."""
        store = self.store.catalog
        store.commit(changes, store.revision)
        self.catalog.apply(changes)

    def delete_topic(self, topic: Topic) -> None:
        """Deletes a topic; after a crash in the middle `finish_deletions` does the rest."""
        self.commit(self.catalog.delete(topic))
        self.finish_deletions()

    def finish_deletions(self) -> None:
        """Removes the data of topics that are no longer in the catalog."""
        for topic_id, (name, partition_count) in list(self.catalog.deleting.items()):
            try:
                for partition in range(partition_count):
                    self.store.delete(PartitionRef(name, partition, topic_id))
                self.commit(self.catalog.deleted(topic_id))
            except StorageError as error:
                logger.error("the data of the deleted topic %s is still there: %s", name, error)

    def adopt_topics(self) -> None:
        """Takes over the partitions of a folder without a catalog: Apache Kafka's, or ours that lost its journal."""
        if self.store.catalog.entries():
            return
        adopted = self.catalog.adopt(self.store.partitions(), self.clock.now_ms())
        for problem in adopted.problems:
            logger.error("not taken over: %s", problem)
        if not adopted.changes:
            return
        self.commit(adopted.changes)
        for topic in adopted.topics:
            logger.warning(
                "took over topic %s with %d partition(s): %s until it is configured otherwise",
                topic.name,
                topic.partition_count,
                ", ".join(f"{name}={value}" for name, value in topic.config.items()),
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

    def leader_of(self, topic: Topic, partition: int) -> int:
        return self.nodes[partition % len(self.nodes)]

    def replicas_of(self, topic: Topic, partition: int) -> Sequence[int]:
        """The nodes that can serve a partition, the leader first."""
        first = self.nodes.index(self.leader_of(topic, partition))
        return (self.nodes[first:] + self.nodes[:first])[: topic.replication_factor]

    def leader_epoch(self, topic: Topic, partition: int) -> int:
        return self.store.epoch_of(PartitionRef(topic.name, partition, topic.topic_id))
