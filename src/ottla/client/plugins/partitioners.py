"""Partitioners: the protocol, and those that are built in."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from random import randrange
from typing import Any, Final, Protocol

from ottla.client.state.metadata import ClusterMetadata
from ottla.records.client_kernel import partition_of_key


class Partitioner(Protocol):
    """The interface of `partitioner.class`; called in the thread that sends.

    It may also have `configure(config)`, called once with the producer's options, and
    `on_new_batch(topic, cluster, previous_partition)`, called when a record needs a new batch, after
    which `partition` is called again.
    """

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterMetadata,
    ) -> int | None:
        """The partition of a record; None: choose as for a record without a key."""

    def close(self) -> None:
        """The producer is being closed."""


class DefaultPartitioner:
    """By the hash of the key, as in Java's client; without a key, the sticky partition (KIP-794)."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterMetadata,
    ) -> int | None:
        """The partition of the key, whether it has a leader or not; None without a key."""
        if key_bytes is None:
            return None
        return partition_of_key(key_bytes, len(cluster.topics[topic].partitions))

    def close(self) -> None:
        """Nothing has to be closed."""


class StickyPartitioner:
    """The sticky partition, whatever the key (`partitioner.ignore.keys`)."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterMetadata,
    ) -> int | None:
        """Always None."""
        return None

    def close(self) -> None:
        """Nothing has to be closed."""


class RoundRobinPartitioner:
    """One partition after another, whatever the key, among those with a leader."""

    def __init__(self) -> None:
        self._counters: dict[str, count[int]] = {}

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterMetadata,
    ) -> int:
        """The next partition of the topic."""
        counter = self._counters.get(topic)
        if counter is None:
            # If another thread was first, its counter is used.
            counter = self._counters.setdefault(topic, count())
        return _among(topic, cluster, next(counter))

    def close(self) -> None:
        """Nothing has to be closed."""


class RandomPartitioner:
    """Any partition with a leader, whatever the key; drawn anew for every record."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterMetadata,
    ) -> int:
        """A partition of the topic."""
        return _among(topic, cluster, randrange(1 << 31))

    def close(self) -> None:
        """Nothing has to be closed."""


def _among(topic: str, cluster: ClusterMetadata, number: int) -> int:
    """The partition with that number, modulo how many have a leader; if none has, of all."""
    available = cluster.available(topic)
    if available:
        return available[number % len(available)]
    return number % len(cluster.topics[topic].partitions)


BUILT_IN: Final[Mapping[str, type[Partitioner]]] = {
    "default": DefaultPartitioner,
    "sticky": StickyPartitioner,
    "round-robin": RoundRobinPartitioner,
    "random": RandomPartitioner,
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobinPartitioner,
    # Kafka 4 has removed these classes: their behaviour is built in.
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": DefaultPartitioner,
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": StickyPartitioner,
}
"""Short names, and Kafka's names for the same."""
