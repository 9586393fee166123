"""The user data in the subscriptions of the sticky assignors."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from ottla.core.assignors.java_order import grouping_order
from ottla.core.assignors.model import NO_GENERATION
from ottla.model import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Claim(NamedTuple):
    """The partitions that a member claims to own, and the generation of the claim, if known."""

    partitions: tuple[TopicPartition, ...] = ()
    generation_id: int | None = None


UNREADABLE = Claim((), NO_GENERATION)


def encode_claim(partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
    """Version 1 of the sticky assignor's schema: topics with their partitions, and the generation."""
    owned = list(partitions)
    topics: dict[str, list[int]] = {}
    for topic, partition in owned:
        topics.setdefault(topic, []).append(partition)
    parts = [_INT32.pack(len(topics))]
    # Kafka groups them with a hash map and writes the topics as it lists them.
    for topic in grouping_order(topic for topic, _ in owned):
        name, numbers = topic.encode(), topics[topic]
        parts += [_INT16.pack(len(name)), name]
        parts.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    parts.append(_INT32.pack(generation_id))
    return b"".join(parts)


def decode_claim(data: bytes | None) -> Claim:
    """Reads version 1, or version 0 without a generation; garbage claims nothing."""
    if not data:
        return Claim()
    try:
        partitions, end = _read_topics(data)
    except (struct.error, ValueError):
        return UNREADABLE
    # Data too short for a generation is version 0, whatever follows the topics.
    generation_id = _INT32.unpack_from(data, end)[0] if len(data) - end >= _INT32.size else None
    return Claim(partitions, generation_id)


def _read_topics(data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    partitions: list[TopicPartition] = []
    count, at = _read_count(data, 0)
    for _ in range(count):
        size_bytes = _INT16.unpack_from(data, at)[0]
        at += _INT16.size
        if not 0 <= size_bytes <= len(data) - at:
            raise ValueError("a topic name is longer than the data")
        topic = data[at : at + size_bytes].decode("utf-8", "replace")
        numbers, at = _read_count(data, at + size_bytes)
        found = struct.unpack_from(f">{numbers}i", data, at)
        partitions.extend(TopicPartition(topic, number) for number in found)
        at += 4 * numbers
    return tuple(partitions), at


def _read_count(data: bytes, at: int) -> tuple[int, int]:
    count = _INT32.unpack_from(data, at)[0]
    at += _INT32.size
    if not 0 <= count <= len(data) - at:
        raise ValueError("an array is longer than the data")
    return count, at


def encode_generation(generation_id: int) -> bytes:
    """The cooperative assignor's schema: the generation alone, since the partitions are in the subscription."""
    return _INT32.pack(generation_id)


def decode_generation(data: bytes | None) -> int | None:
    """The generation in the user data; None without user data, and -1 in garbage."""
    if data is None:
        return None
    generation_id: int = _INT32.unpack_from(data)[0] if len(data) >= _INT32.size else NO_GENERATION
    return generation_id
