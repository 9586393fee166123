"""Mutated record batches with right checksums: what is acknowledged can be read by every decoder."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record import MemoryRecords as KafkaPythonRecords
from tests.broker.processes import ServeProcess
from tests.broker.requests import PRODUCE_VERSION, create, fetch, produce_request
from tests.fuzz.corpus import sample_batches
from tests.fuzz.mutations import mutate
from tests.fuzz.wire import Control, FuzzError

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import (
    HEADER_BYTES,
    OVERHEAD_BYTES,
    crc_matches,
    payload,
    read_batch,
    read_header,
    split_batches,
)
from ottla.records.compression import compress
from ottla.records.crc import crc32c
from ottla.wire.messages.produce import ProduceResponse

TOPICS: dict[str, dict[str, str]] = {
    "as-they-come": {},
    "compressed-anew": {"compression.type": "zstd"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "uncompressed": {"compression.type": "uncompressed"},
}
TOPIC_OPTIONS = {
    "segment.bytes": "1000000",
    "retention.ms": "-1",
    # Damaged timestamps are welcome: else most batches would be refused for them.
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
PIPELINED = 64
READ_EVERY = 2048
LIMIT_BYTES = 1 << 26
SNAPPY_STREAM = b"\x82SNAPPY\0"
SNAPPY_VERSION_1 = b"\0\0\0\1\0\0\0\1"


@dataclass
class BatchTally:
    """What a run has done."""

    sent: int = 0
    acknowledged: int = 0
    decoded: int = 0
    errors: dict[str, int] | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.sent} batches in {self.seconds:.0f} s, {self.acknowledged} acknowledged, "
            f"{self.decoded} decoded by three decoders; answers: {self.errors}"
        )


def sealed(data: bytearray) -> bytes:
    """Gives a batch the length and the checksum that its bytes have."""
    struct.pack_into(">i", data, 8, len(data) - OVERHEAD_BYTES)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def mutated_batch(rng: random.Random, batch: bytes, others: list[bytes]) -> bytes:
    """Damage to the header, to the section as it travels, or to the records in it."""
    data = bytearray(batch)
    where = rng.random()
    if where < 0.25:
        head = data[21:HEADER_BYTES]
        mutate(rng, head, others)
        data[21:HEADER_BYTES] = head
    elif where < 0.45:
        section = data[HEADER_BYTES:]
        mutate(rng, section, others)
        data[HEADER_BYTES:] = section
    else:
        header = read_header(batch, 0)
        records = bytearray(payload(batch, 0, header, LIMIT_BYTES))
        mutate(rng, records, others)
        data[HEADER_BYTES:] = compress(header.codec, bytes(records), None)
    if len(data) < HEADER_BYTES or rng.random() < 0.02:
        return bytes(data)
    return sealed(data)


def _theirs(records: Any) -> Iterator[tuple[Any, ...]]:
    """What kafka-python and aiokafka find, which have the same interface."""
    while records.has_next():
        for record in records.next_batch():
            yield record.offset, record.timestamp, record.key, record.value


class Partition:
    """Acknowledged batches of a topic, and how far they have been read."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        # Base offsets: a repetition of an idempotent producer's batch is acknowledged as what it repeats.
        self.acknowledged: set[int] = set()
        self.seen: set[int] = set()
        self.next_offset = 0

    def read(self, connection: RawConnection, tally: BatchTally) -> None:
        """Reads what was acknowledged since; every decoder finds the same in it."""
        while True:
            data = fetch(connection, self.topic, self.next_offset, partition_max_bytes=1 << 20)
            if data.error_code != ErrorCode.NONE:
                raise FuzzError(f"{self.topic}: fetching fails with {data.error_code}")
            if not data.records:
                break
            raw = bytes(data.records)
            for position, header in split_batches(raw):
                if header.base_offset != self.next_offset:
                    raise FuzzError(f"{self.topic}: a hole at {self.next_offset}")
                if not crc_matches(raw, position, header):
                    raise FuzzError(f"{self.topic}: a wrong checksum at {self.next_offset}")
                _compare(self.topic, raw[position : position + header.size_bytes])
                self.next_offset = header.last_offset + 1
                self.seen.add(header.base_offset)
                tally.decoded += 1
        if self.seen != self.acknowledged:
            different = sorted(self.seen ^ self.acknowledged)
            raise FuzzError(f"{self.topic}: acknowledged or there, not both: {different[:20]}")


def has_wide_attributes(batch: bytes) -> bool:
    """Whether a record's attributes (a byte that nobody uses) look like the start of a longer varint.

    Kafka takes them; kafka-python and aiokafka read the byte as a varint, and so misread the record.
    """
    header = read_header(batch, 0)
    section = bytes(payload(batch, 0, header, LIMIT_BYTES))
    at = 0
    for _ in range(header.record_count):
        length, shift = 0, 0
        while True:
            byte = section[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if section[at] >= 0x80:
            return True
        at += length >> 1
    return False


def has_other_snappy_version(batch: bytes) -> bool:
    """Whether a snappy stream says another version than 1: Java's reader goes on, the clients' do not."""
    section = batch[HEADER_BYTES:]
    return section.startswith(SNAPPY_STREAM) and section[8:16] != SNAPPY_VERSION_1


def _compare(topic: str, batch: bytes) -> None:
    try:
        ours = [
            (record.offset, record.timestamp, record.key, record.value)
            for record in read_batch(batch, 0)
        ]
        if has_wide_attributes(batch) or has_other_snappy_version(batch):
            return
        for decoder in (KafkaPythonRecords, AiokafkaRecords):
            try:
                theirs = list(_theirs(decoder(batch)))
            except Exception as error:
                # Kafka as well takes header names that are not UTF-8, although clients give up on them.
                if "UnicodeDecodeError" in repr(error):
                    continue
                raise
            if ours != theirs:
                raise FuzzError(f"{decoder.__module__} reads {theirs}, we read {ours}")
    except Exception as error:
        raise FuzzError(f"{topic}: acknowledged, not readable: {error!r}: {batch.hex()}") from error


def fuzz_batches(process: ServeProcess, seed: int, count: int) -> BatchTally:
    """Produces that many mutated batches to a broker that runs."""
    rng = random.Random(seed)
    tally = BatchTally(errors={})
    assert tally.errors is not None
    samples = sample_batches(rng)
    began = time.monotonic()
    with RawConnection(process.address) as connection:
        for name, options in TOPICS.items():
            create(connection, name, config=TOPIC_OPTIONS | options)
        partitions = [Partition(name) for name in TOPICS]
        while tally.sent < count:
            asked = [rng.choice(partitions) for _ in range(PIPELINED)]
            for partition in asked:
                batch = mutated_batch(rng, rng.choice(samples), samples)
                connection.send(produce_request(partition.topic, batch), PRODUCE_VERSION)
            for partition in asked:
                answer = connection.receive(ProduceResponse, PRODUCE_VERSION)
                result = answer.responses[0].partition_responses[0]
                error = ErrorCode(result.error_code)
                tally.errors[error.name] = tally.errors.get(error.name, 0) + 1
                if error is ErrorCode.NONE:
                    partition.acknowledged.add(result.base_offset)
                    tally.acknowledged += 1
            tally.sent += PIPELINED
            if tally.sent % READ_EVERY == 0 or tally.sent >= count:
                for partition in partitions:
                    partition.read(connection, tally)
    tally.seconds = time.monotonic() - began
    return tally


def run_batches(folder: Path, seed: int, count: int) -> BatchTally:
    """As `fuzz_batches`, with a broker of its own that logs no internal error."""
    process = ServeProcess(folder)
    process.start()
    try:
        try:
            tally = fuzz_batches(process, seed, count)
        except ConnectionError as error:
            raise FuzzError(f"the broker closed the connection:\n{process.log[-4000:]}") from error
        Control(process).check_log()
    finally:
        process.kill()
    return tally
