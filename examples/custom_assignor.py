"""A custom assignor: members get partitions in proportion to their capacity.

    python examples/custom_assignor.py HOST:PORT TOPIC CAPACITY

Start it several times with different capacities. Each member sends its capacity to the leader of the group, which
assigns the partitions. All members of a group need the assignor.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping

import ottla
from ottla.assignors import Assignment, Assignor, Cluster, Subscription


class ByCapacity(Assignor):
    """Assigns each partition to the member with the fewest partitions for its capacity."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.share: tuple[ottla.TopicPartition, ...] = ()

    @property
    def name(self) -> str:
        return "by-capacity"

    def subscription_user_data(self, topics: Collection[str]) -> bytes:
        return str(self.capacity).encode()

    def assign(
        self, cluster: Cluster, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        shares: dict[str, list[ottla.TopicPartition]] = {member: [] for member in subscriptions}
        capacity = {
            member: int(subscription.user_data or b"1")
            for member, subscription in subscriptions.items()
        }
        for topic, partitions in sorted(cluster.items()):
            takers = [member for member in sorted(shares) if topic in subscriptions[member].topics]
            for info in partitions:
                least = min(takers, key=lambda each: (len(shares[each]) + 1) / capacity[each])
                shares[least].append(ottla.TopicPartition(topic, info.partition))
        return {member: Assignment(tuple(share)) for member, share in shares.items()}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self.share = assignment.partitions


def member(bootstrap_servers: str, topic: str, assignor: Assignor) -> ottla.Consumer:
    """Returns a member of the group; the caller has to poll it."""
    consumer = ottla.Consumer(
        bootstrap_servers=bootstrap_servers,
        group_id="workers",
        auto_offset_reset="earliest",
        partition_assignment_strategy=[assignor],
    )
    consumer.subscribe([topic])
    return consumer


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/custom_assignor.py HOST:PORT TOPIC CAPACITY")
    servers, topic, capacity = sys.argv[1:]
    by_capacity = ByCapacity(int(capacity))
    with member(servers, topic, by_capacity) as consumer:
        for record in consumer:
            print(sorted(by_capacity.share), record.partition, record.value)
