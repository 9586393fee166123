"""Leaders and coordinators that move from node to node."""

from __future__ import annotations

from ottla import Broker
from ottla.model import coordinator_partition

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50


def move(broker: Broker, topic: str, partition: int) -> None:
    """To the next node."""
    ids = broker.node_ids
    leader = broker.leader_of(topic, partition)
    broker.move_leader(topic, partition, ids[(ids.index(leader) + 1) % len(ids)])


def move_coordinator(broker: Broker, group_id: str) -> None:
    move(broker, OFFSETS_TOPIC, coordinator_partition(group_id, OFFSETS_PARTITIONS))
