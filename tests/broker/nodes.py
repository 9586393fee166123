"""A cluster of several nodes in the test's process, with a connection to each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.broker.requests import eventually, on_loop

import ottla
from ottla.client.raw import RawConnection
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)


class Nodes:
    """Connections that are made when they are first used."""

    def __init__(self, broker: ottla.Broker) -> None:
        self.broker = broker
        self._connections: dict[int, RawConnection] = {}

    def at(self, node_id: int) -> RawConnection:
        if node_id not in self._connections:
            self._connections[node_id] = RawConnection(self.broker.address_of(node_id))
        return self._connections[node_id]

    @property
    def any(self) -> RawConnection:
        return self.at(self.broker.node_ids[0])

    def leader(self, topic: str, partition: int = 0) -> RawConnection:
        return self.at(self.broker.leader_of(topic, partition))

    def another(self, topic: str, partition: int = 0) -> int:
        """A live node that does not lead the partition."""
        leader = self.broker.leader_of(topic, partition)
        return next(node_id for node_id in self.broker.node_ids if node_id != leader)

    def move(self, topic: str, partition: int = 0) -> int:
        """Moves a partition to another node; returns the old leader."""
        old = self.broker.leader_of(topic, partition)
        self.broker.move_leader(topic, partition, self.another(topic, partition))
        return old

    def kill(self, node_id: int) -> None:
        self.broker.kill_node(node_id)
        self.hang_up(node_id)

    def hang_up(self, node_id: int) -> None:
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()

    def metadata(self, *topics: str, node_id: int | None = None) -> MetadataResponse:
        connection = self.any if node_id is None else self.at(node_id)
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])
        answer: MetadataResponse = connection.call(request, MetadataResponse, 12)
        return answer

    def partition(self, topic: str, partition: int = 0) -> MetadataResponsePartition:
        """What clients are told of a partition."""
        found: MetadataResponsePartition = self.metadata(topic).topics[0].partitions[partition]
        return found

    def epoch(self, topic: str, partition: int = 0) -> int:
        epoch: int = self.partition(topic, partition).leader_epoch
        return epoch

    def open_partitions(self) -> dict[int, list[tuple[str, int]]]:
        """What each node has in use."""
        return on_loop(
            self.broker,
            lambda running: {
                node_id: [
                    (shard.log.ref.topic, shard.log.ref.partition)
                    for shard in server.node.partitions.open_shards()
                ]
                for node_id, server in running.servers.items()
            },
        )

    def waits(self, count: int = 1) -> bool:
        """Whether so many fetches come to be parked, on whatever nodes."""
        return eventually(
            lambda: (
                on_loop(
                    self.broker,
                    lambda running: sum(
                        len(shard.waiters)
                        for server in running.servers.values()
                        for shard in server.node.partitions.open_shards()
                    ),
                )
                == count
            )
        )

    def close(self) -> None:
        for node_id in list(self._connections):
            self.hang_up(node_id)


@contextmanager
def nodes_of(broker: ottla.Broker) -> Iterator[Nodes]:
    made = Nodes(broker)
    try:
        yield made
    finally:
        made.close()
