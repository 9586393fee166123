"""Frames that no honest client sends, built by hand: what is repeated a million times is made once."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from ottla.records.batch import build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.wire.framing import frame_request
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

(
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    JOIN_GROUP,
    DESCRIBE_GROUPS,
    API_VERSIONS,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
) = (0, 1, 2, 3, 9, 11, 15, 18, 19, 32)
TOPIC_RESOURCE: Final = 2
LATEST: Final = -1
# The broker's bound for what a batch grows to is above this, so all of it is decompressed.
BOMB_BYTES: Final = 90 << 20
INCOMPRESSIBLE_BYTES: Final = 1_000_000
MANY_RECORDS: Final = 300_000


def framed(api_key: int, version: int, body: bytes, client_id: bytes = b"hostile") -> bytes:
    """A frame of a version that is not flexible."""
    header = struct.pack(">hhih", api_key, version, 1, len(client_id)) + client_id
    return struct.pack(">i", len(header) + len(body)) + header + body


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def array(elements: Iterable[bytes]) -> bytes:
    listed = list(elements)
    return struct.pack(">i", len(listed)) + b"".join(listed)


def repeated(element: bytes, count: int) -> bytes:
    """An array that has one element again and again."""
    return struct.pack(">i", count) + element * count


def message(request: Any, version: int, client_id: str | None = "hostile") -> bytes:
    """What the wire package makes of a request."""
    return frame_request(request, version, 1, client_id)


def metadata(names: bytes) -> bytes:
    """Metadata v1 of an array of names; unknown topics are created."""
    return framed(METADATA, 1, names)


def describe_configs(topic: str, count: int) -> bytes:
    every_option = struct.pack(">i", -1)
    resource = struct.pack(">b", TOPIC_RESOURCE) + string(topic) + every_option
    return framed(DESCRIBE_CONFIGS, 1, repeated(resource, count) + b"\x00")


def describe_groups(count: int) -> bytes:
    return framed(DESCRIBE_GROUPS, 0, array(string(f"g{number}") for number in range(count)))


def list_offsets(topic: str, count: int) -> bytes:
    asked = array(struct.pack(">iq", number, LATEST) for number in range(count))
    return framed(LIST_OFFSETS, 1, struct.pack(">i", -1) + repeated(string(topic) + asked, 1))


def list_offset_at(topic: str, timestamp_ms: int) -> bytes:
    """ListOffsets v1 of the first partition, by a timestamp."""
    asked = repeated(struct.pack(">iq", 0, timestamp_ms), 1)
    return framed(LIST_OFFSETS, 1, struct.pack(">i", -1) + repeated(string(topic) + asked, 1))


def offset_fetch(count: int) -> bytes:
    partitions = array(struct.pack(">i", number) for number in range(count))
    return framed(OFFSET_FETCH, 1, string("hostile") + repeated(string("t") + partitions, 1))


def produce_elements(topic: str, count: int) -> bytes:
    """Partitions that mostly do not exist, without records."""
    data = array(struct.pack(">ii", number, 0) for number in range(count))
    body = struct.pack(">hhi", -1, -1, 5000) + repeated(string(topic) + data, 1)
    return framed(PRODUCE, 3, body)


def fetch_elements(topic: str, count: int, *, in_session: bool) -> bytes:
    """Fetch v7; in a session, the broker is to remember every partition."""
    asked = array(struct.pack(">iqqi", number, 0, 0, 1000) for number in range(count))
    session_id, epoch = (0, 0) if in_session else (0, -1)
    head = struct.pack(">iiiibii", -1, 0, 0, 1 << 20, 0, session_id, epoch)
    no_forgotten = struct.pack(">i", 0)
    return framed(FETCH, 7, head + repeated(string(topic) + asked, 1) + no_forgotten)


def waiting_fetch(topic: str, size_bytes: int) -> bytes:
    """Fetch v7 that waits for half a minute, and has so many bytes of topics that are to be forgotten."""
    asked = repeated(struct.pack(">iqqi", 0, 0, 0, 1000), 1)
    head = struct.pack(">iiiibii", -1, 30_000, 1 << 20, 1 << 20, 0, 0, -1)
    name = "x" * 32_000
    forgotten = repeated(string(name) + repeated(struct.pack(">i", 1), 1), size_bytes // len(name))
    return framed(FETCH, 7, head + repeated(string(topic) + asked, 1) + forgotten)


def fetch(topic: str, max_bytes: int) -> bytes:
    """Fetch v4 of the first partition, from its beginning."""
    asked = repeated(struct.pack(">iqi", 0, 0, max_bytes), 1)
    head = struct.pack(">iiiib", -1, 0, 0, max_bytes, 0)
    return framed(FETCH, 4, head + repeated(string(topic) + asked, 1))


def join_group(group: str, metadata_bytes: int) -> bytes:
    """JoinGroup v1, which needs no member id, with one protocol of that much metadata."""
    protocol = string("range") + struct.pack(">i", metadata_bytes) + bytes(metadata_bytes)
    body = string(group) + struct.pack(">ii", 10_000, 10_000) + string("") + string("consumer")
    return framed(JOIN_GROUP, 1, body + repeated(protocol, 1))


def create_topics(names: Iterable[str]) -> bytes:
    """CreateTopics v2: one partition each, no options."""
    topics = array(string(name) + struct.pack(">ihii", 1, 1, 0, 0) for name in names)
    return framed(CREATE_TOPICS, 2, topics + struct.pack(">ib", 5000, 0))


@cache
def bomb(topic: str, codec: Codec, noise_bytes: int = 0) -> bytes:
    """A Produce with one record that is nearly all zeros; noise keeps the batch from being small."""
    value = random.Random(15).randbytes(noise_bytes) + bytes(BOMB_BYTES - noise_bytes)
    return produce(topic, build_batch([Record(0, 0, b"key", value)], codec=codec))


@cache
def bomb_of_many(topic: str, codec: Codec) -> bytes:
    """A Produce with very many empty records, the last of which is the latest."""
    records = [Record(number, 0, b"", b"") for number in range(MANY_RECORDS - 1)]
    records.append(Record(MANY_RECORDS - 1, 1, b"", b""))
    return produce(topic, build_batch(records, codec=codec))


def produce(topic: str, batch: bytes, version: int = 12) -> bytes:
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    return message(request, version)
