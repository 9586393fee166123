"""The orders in which Java compares strings and walks hash maps.

Kafka's assignors loop over hash maps of member ids and topics, so which member keeps one partition more than
another depends on Java's hash function. These are the same in every process, unlike Python's.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID

from ottla.model import java_string_hash

_FIRST_CAPACITY = 16
_WORD = 0xFFFFFFFF
_SIGN_BITS = 1 << 127 | 1 << 63

# A group coordinator asks for the same member ids at every rebalance.
_text_hash = lru_cache(maxsize=16_384)(java_string_hash)


def text_order(text: str) -> bytes:
    """A key that sorts strings as Java does: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def sorted_texts(texts: Iterable[str]) -> list[str]:
    """The strings in `text_order`."""
    found = list(texts)
    # Code points and UTF-16 units are the same here, and need no keys.
    return sorted(found) if "".join(found).isascii() else sorted(found, key=text_order)


def hash_map_order(texts: Iterable[str]) -> list[str]:
    """The order in which a `HashMap` lists keys that were put in this order."""
    keys = list(dict.fromkeys(texts))
    mask = _capacity(len(keys), _FIRST_CAPACITY) - 1
    # A bucket lists its keys in the order of insertion, also after the table grew: a stable sort does the same. (Java
    # turns buckets of more than eight keys into trees; that many collisions do not occur by chance.)
    return sorted(keys, key=lambda key: _bucket(_text_hash(key), mask))


def uuid_order(uuid: UUID) -> int:
    """A key that sorts UUIDs as Kafka does: by two signed numbers of 64 bits."""
    return uuid.int ^ _SIGN_BITS


def uuid_map_order(uuids: Iterable[UUID]) -> list[UUID]:
    """The order in which a `HashMap` lists UUIDs that were put in `uuid_order`."""
    keys = sorted(uuids, key=uuid_order)
    return _in_uuid_buckets(keys, _capacity(len(keys), _FIRST_CAPACITY))


def uuid_set_order(uuids: Iterable[UUID]) -> list[UUID]:
    """The order in which a `HashSet` lists UUIDs that was copied from a collection in `uuid_order`."""
    keys = sorted(uuids, key=uuid_order)
    return _in_uuid_buckets(keys, _copy_capacity(len(keys)))


def int_set_order(numbers: Iterable[int]) -> list[int]:
    """The order in which a `HashSet` lists numbers that was copied from an ascending list."""
    keys = sorted(numbers)
    mask = _copy_capacity(len(keys)) - 1
    return sorted(keys, key=lambda key: _bucket(key, mask))


def grouping_order(texts: Iterable[str]) -> list[str]:
    """The order in which a `HashMap` lists keys that `computeIfAbsent` added in this order."""
    keys: dict[str, None] = {}
    capacity = _FIRST_CAPACITY
    for text in texts:
        # Unlike `put`, it grows before the lookup, and adds a key at the front of its bucket.
        capacity = _capacity(len(keys), capacity)
        keys[text] = None
    mask = capacity - 1
    newest_first = list(keys)[::-1]
    return sorted(newest_first, key=lambda key: _bucket(java_string_hash(key), mask))


class PartitionHashSet:
    """A `HashSet` of one topic's partitions, for the one that it lists first."""

    def __init__(self, topic: str) -> None:
        self._topic_hash = java_string_hash(topic)
        self._partitions: dict[int, None] = {}
        self._capacity = _FIRST_CAPACITY

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: int) -> None:
        self._partitions[partition] = None
        # It grows and never shrinks.
        self._capacity = _capacity(len(self._partitions), self._capacity)

    def remove(self, partition: int) -> None:
        del self._partitions[partition]

    def first(self) -> int:
        mask = self._capacity - 1
        return min(self._partitions, key=lambda partition: _bucket(self._hash(partition), mask))

    def _hash(self, partition: int) -> int:
        return (31 * (31 + partition) + self._topic_hash) & _WORD


def _in_uuid_buckets(uuids: list[UUID], capacity: int) -> list[UUID]:
    def bucket(uuid: UUID) -> int:
        halves = uuid.int ^ (uuid.int >> 64)
        return _bucket((halves ^ (halves >> 32)) & _WORD, capacity - 1)

    return sorted(uuids, key=bucket)


def _copy_capacity(size: int) -> int:
    """That of a `HashSet` made from a collection of this size; it has room for one more than it needs."""
    wanted = max(size * 4 // 3 + 1, _FIRST_CAPACITY)
    return 1 << (wanted - 1).bit_length()


def _capacity(size: int, capacity: int) -> int:
    while 4 * size > 3 * capacity:
        capacity *= 2
    return capacity


def _bucket(code: int, mask: int) -> int:
    return (code ^ (code >> 16)) & mask
