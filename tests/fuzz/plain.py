"""The same frames to two brokers, one of which answers every request by itself: responses and logs must be the same.

python -m tests.fuzz.plain SEED RECEIVES
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.broker.listeners import plaintext_listener
from tests.fuzz.mutations import mutate
from tests.lasting import LASTING

from ottla.broker.network.connection import Connection
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, start_broker
from ottla.config.broker import BrokerConfig
from ottla.records.batch import BatchFlag, TimestampType, build_batch, split_batches
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.testing.disk_faults import faulty_store
from ottla.testing.faults import Faults
from ottla.wire.framing import SIZE_BYTES, frame_request
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PARTITIONS = 2
ANSWER_SECONDS = 20.0
NOW_MS = 1_750_000_000_000
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "zstd": {"compression.type": "zstd"},
    "uncompressed": {"compression.type": "uncompressed"},
    "small": {"max.message.bytes": "150", "segment.bytes": "1000"},
    "timed": {"message.timestamp.after.max.ms": "1000", "message.timestamp.before.max.ms": "1000"},
    "replicated": {"min.insync.replicas": "2"},
    "synced": {"flush.messages": "1"},
}
NAMES = (*TOPICS, *("plain",) * 6, "unknown", "__consumer_offsets")
VALUE_BYTES = (0, 10, 100)
# A receive with these may have more than is answered together. No batch has so much that a thread prepares it: when
# that is done would not be the same for both brokers.
LARGE_VALUE_BYTES = (100, 5_000, 12_000)
VERSIONS = (*range(3, 14), 9, 12, 12)
API_VERSIONS = frame_request(
    ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3, 77, "fuzz"
)


class FuzzError(AssertionError):
    """The two brokers differ."""


class FrozenClock:
    """Time stands still, so that both brokers see the same."""

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_seconds(self) -> float:
        return 1000.0


class Client(asyncio.Transport):
    """A client of one broker, without a network: it has what the broker wrote."""

    def __init__(self, running: RunningBroker, answers_plain: bool) -> None:
        super().__init__()
        self.running = running
        self.written = bytearray()
        self.closed = False
        self.connection = Connection(running.server, plaintext_listener())
        if not answers_plain:
            self.connection._answers_plain = False
        self.connection.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 9) if name in ("peername", "sockname") else default

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, list_of_data: Any) -> None:
        for each in list_of_data:
            self.written += each

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    async def receive(self, data: bytes) -> bytes:
        """What the broker answers to bytes that arrive at once."""
        self.written.clear()
        position = 0
        while position < len(data) and not self.closed:
            room = self.connection.get_buffer(-1)
            if not len(room):
                await asyncio.sleep(0)
                continue
            piece = data[position : position + len(room)]
            room[: len(piece)] = piece
            position += len(piece)
            self.connection.buffer_updated(len(piece))
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self.closed and not (self.connection.is_idle and self.connection._may_handle):
            if time.monotonic() > deadline:
                raise FuzzError("the broker does not answer")
            await asyncio.sleep(0)
        return bytes(self.written)

    def end(self) -> None:
        self.closed = True
        self.connection.connection_lost(None)


@dataclass
class Tally:
    """What a run has done."""

    receives: int = 0
    frames: int = 0
    answered_bytes: int = 0
    closed: int = 0
    batches: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.receives} receives with {self.frames} frames in {self.seconds:.0f} s, "
            f"{self.answered_bytes} bytes of answers, {self.closed} connections closed, "
            f"{self.batches} batches in the logs"
        )


class Producers:
    """Idempotent and transactional producers that mostly send what comes next."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next: dict[tuple[int, str, int], int] = {}

    def numbers(self, topic: str, partition: int, count: int) -> dict[str, Any]:
        """The fields of a batch about its producer."""
        rng = self._rng
        if rng.random() < 0.5:
            return {}
        producer_id = rng.choice((0, 1, 2))
        key = producer_id, topic, partition
        following = self._next.get(key, 0)
        chance = rng.random()
        sequence = following
        if chance < 0.08:
            sequence = max(0, following - rng.choice((1, 2, 3)))
        elif chance < 0.12:
            sequence = following + rng.choice((1, 2))
        elif chance < 0.14:
            sequence = 2**31 - 1
        else:
            self._next[key] = (following + count) & 0x7FFFFFFF
        epoch = rng.choice((0,) * 12 + (1, -1))
        flags = BatchFlag.TRANSACTIONAL if rng.random() < 0.06 else BatchFlag.NONE
        return {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "base_sequence": sequence,
            "flags": flags,
        }


class Frames:
    """Random Produce frames, some of them damaged."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._producers = Producers(rng)
        self._number = 0
        self._value_bytes = VALUE_BYTES
        self._recent: list[bytes] = [API_VERSIONS]

    def receive(self) -> list[bytes]:
        """The frames of one receive."""
        self._value_bytes = LARGE_VALUE_BYTES if self._rng.random() < 0.1 else VALUE_BYTES
        count = self._rng.choice((1, 1, 2, 3, 8, 30))
        frames = [self._frame() for _ in range(count)]
        self._recent = [*self._recent, *frames][-20:]
        return frames

    def _frame(self) -> bytes:
        rng = self._rng
        if rng.random() < 0.03:
            return API_VERSIONS
        if rng.random() < 0.03:
            return rng.choice(self._recent)
        frame = bytearray(self._produce())
        if rng.random() < 0.02:
            mutate(rng, frame, self._recent)
            if rng.random() < 0.7:
                frame[:SIZE_BYTES] = max(0, len(frame) - SIZE_BYTES).to_bytes(4, "big")
        return bytes(frame)

    def _produce(self) -> bytes:
        rng = self._rng
        version = rng.choice(VERSIONS)
        topics = []
        for _ in range(rng.choice((1,) * 8 + (2, 3))):
            name = rng.choice(NAMES)
            data = [self._partition(name) for _ in range(rng.choice((1,) * 8 + (2, 3)))]
            if rng.random() < 0.2:
                # A batch for every partition, as clients mostly send that write to several.
                for index, each in enumerate(data[:PARTITIONS]):
                    each.index = index
            topic = TopicProduceData(partition_data=data)
            if version >= 13:
                # Both brokers have their own ids: the name is in its place until they are known.
                topic.topic_id = UUID(bytes=placeholder_of(name))
            else:
                topic.name = name
            topics.append(topic)
        self._number += 1
        request = ProduceRequest(
            transactional_id=rng.choice((None, None, None, "txn")),
            acks=rng.choice((-1,) * 50 + (1,) * 10 + (0, 2)),
            timeout_ms=1000,
            topic_data=topics,
        )
        return frame_request(request, version, self._number, rng.choice((None, "fuzz")))

    def _partition(self, topic: str) -> PartitionProduceData:
        rng = self._rng
        partition = rng.choice((0,) * 6 + (1, PARTITIONS))
        count = rng.choice((1, 1, 1, 2, 5))
        time_ms = rng.choice((NOW_MS,) * 8 + (-1, 0, NOW_MS + 5_000))
        records = [
            Record(
                index if rng.random() < 0.98 else index + 3,
                time_ms + rng.randrange(3),
                rng.choice((b"key", b"key", None)),
                rng.randbytes(rng.choice(self._value_bytes)),
            )
            for index in range(count)
        ]
        records.sort(key=lambda record: record.offset)
        batch = bytearray(
            build_batch(
                records,
                codec=rng.choice((Codec.NONE,) * 8 + tuple(Codec)),
                timestamp_type=rng.choice((TimestampType.CREATE_TIME,) * 12 + tuple(TimestampType)),
                **self._producers.numbers(topic, partition, count),
            )
        )
        if rng.random() < 0.04:
            mutate(rng, batch, self._recent)
        if rng.random() < 0.01:
            return PartitionProduceData(index=partition, records=None)
        return PartitionProduceData(index=partition, records=bytes(batch))


# The two brokers.


class Pair:
    """The two brokers, and a client of each."""

    def __init__(self) -> None:
        self._running: list[RunningBroker] = []
        self._clients: list[Client] = []
        self._faults: list[Faults] = []
        # Of each broker: what stands in frames for a topic, and its id.
        self._ids: list[dict[bytes, bytes]] = []

    async def start(self, folder: Path) -> None:
        for number in range(2):
            faults = Faults(range(1, 2), frozenset())
            options = {**LASTING, "listeners": "PLAINTEXT://127.0.0.1:0"}
            settings = BrokerSettings(BrokerConfig.read(options), str(folder / str(number)))
            clock = FrozenClock()
            instruments = Instruments(clock=clock, wrap_store=faulty_store(faults, clock))
            self._running.append(await start_broker(settings, instruments))
            self._faults.append(faults)
        self._connect()
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=PARTITIONS,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in of.items()],
            )
            for name, of in TOPICS.items()
        ]
        frame = frame_request(CreateTopicsRequest(topics=topics, timeout_ms=1000), 5, 1, None)
        for client in self._clients:
            await client.receive(frame)
        self._ids = [
            {
                placeholder_of(name): topic.topic_id.bytes
                for name, topic in running.cluster.catalog.topics.items()
            }
            for running in self._running
        ]
        assert all(len(ids) == len(TOPICS) for ids in self._ids)

    def _connect(self) -> None:
        self._clients = [
            Client(running, answers_plain=number == 0)
            for number, running in enumerate(self._running)
        ]

    async def receive(self, data: bytes, disk_is_full: bool) -> tuple[bytes, bool]:
        """What both answer, and whether both close the connection; FuzzError if they differ."""
        results = []
        for client, faults, ids in zip(self._clients, self._faults, self._ids, strict=True):
            own = data
            for placeholder, topic_id in ids.items():
                own = own.replace(placeholder, topic_id)
            with faults.fill_disk() if disk_is_full else nullcontext():
                answer = await client.receive(own)
            for placeholder, topic_id in ids.items():
                answer = answer.replace(topic_id, placeholder)
            results.append((answer, client.closed))
        if results[0] != results[1]:
            raise FuzzError(f"{data.hex()}\nplain  {results[0]}\nsingle {results[1]}")
        if results[0][1]:
            for client in self._clients:
                client.end()
            self._connect()
        return results[0]

    async def check_logs(self) -> int:
        """Both brokers have the same batches and know the same of producers; returns the number of batches."""
        for running in self._running:
            await _all_durable(running)
        ours, others = (states_of(running) for running in self._running)
        if ours.keys() != others.keys():
            raise FuzzError(f"partitions {ours.keys()} and {others.keys()}")
        for partition, state in ours.items():
            if state != others[partition]:
                raise FuzzError(f"{partition}:\n{state}\n{others[partition]}")
        return sum(len(split_batches(state[0])) for state in ours.values())

    async def stop(self) -> None:
        for client in self._clients:
            client.end()
        for running in self._running:
            await running.stop()


def placeholder_of(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")[:16]


async def _all_durable(running: RunningBroker) -> None:
    """Returns when everything is durable: no answer waits for what was written with acks=0."""
    deadline = time.monotonic() + ANSWER_SECONDS
    for shard in running.node.partitions.open_shards():
        while shard.partition.high_watermark < shard.partition.end_offset:
            if time.monotonic() > deadline:
                raise FuzzError(f"{shard.log.ref} does not become durable")
            await asyncio.sleep(0.001)


def states_of(running: RunningBroker) -> dict[tuple[str, int], tuple[Any, ...]]:
    found: dict[tuple[str, int], tuple[Any, ...]] = {}
    for shard in running.node.partitions.open_shards():
        ref, partition = shard.log.ref, shard.partition
        if ref.topic not in TOPICS:
            continue
        data = bytearray()
        offset = partition.start_offset
        while offset < partition.end_offset:
            piece = bytes(shard.read(offset, 1 << 20, partition.end_offset))
            data += piece
            offset = split_batches(piece)[-1][1].last_offset + 1
        found[ref.topic, ref.partition] = (
            bytes(data),
            partition.end_offset,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.producers.to_snapshot(),
            [(each.base_offset, each.end_offset) for each in shard.log.segments()],
        )
    return found


async def _run(folder: Path, seed: int, receives: int, check_every: int) -> Tally:
    rng = random.Random(seed)
    tally, frames, pair = Tally(), Frames(rng), Pair()
    began = time.monotonic()
    await pair.start(folder)
    try:
        while tally.receives < receives:
            sent = frames.receive()
            answer, closed = await pair.receive(b"".join(sent), disk_is_full=rng.random() < 0.02)
            tally.receives += 1
            tally.frames += len(sent)
            tally.answered_bytes += len(answer)
            tally.closed += closed
            if tally.receives % check_every == 0:
                tally.batches = await pair.check_logs()
        tally.batches = await pair.check_logs()
    except FuzzError as error:
        raise FuzzError(f"seed {seed}, receive {tally.receives}: {error}") from error
    finally:
        await pair.stop()
    tally.seconds = time.monotonic() - began
    return tally


def run_plain(folder: Path, seed: int, receives: int, check_every: int = 200) -> Tally:
    return asyncio.run(_run(folder, seed, receives, check_every))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(run_plain(Path(temporary), int(sys.argv[1]), int(sys.argv[2])))
