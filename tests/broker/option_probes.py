"""What each option does, as an observation: with the option set it is another one than without."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.broker.quota_requests import set_quotas
from tests.broker.requests import (
    BROKER,
    WAIT_SECONDS,
    batch_of,
    create,
    delete,
    delete_records,
    eventually,
    fetch,
    fetch_request,
    fill,
    new_producer_id,
    now_ms,
    on_loop,
    produce,
    produce_request,
    sequenced,
    session_with,
    set_options,
)
from tests.broker.telemetry.clients import PushingClient
from tests.broker.telemetry.otlp_payloads import many_gauges

import ottla
from ottla.broker.partitions.shard import Shard
from ottla.broker.runtime import BrokerSettings, start_broker
from ottla.client.raw import RawConnection
from ottla.config.broker import BrokerConfig
from ottla.core.append import Prepared, prepare
from ottla.core.catalog import NewTopic, Topic
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.ports import monotonic_ms
from ottla.records.batch import TimestampType, build_batch, split_batches
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.local.log.partition_log import LocalLog
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import ProduceResponse

HOUR_MS = 3_600_000
# How long an observation waits for something that is not to happen.
PATIENCE_SECONDS = 0.4
# Text that a better level makes smaller.
WORDS = " ".join(random.Random(1).choices(["alpha", "beta", "gamma", "delta"], k=8000)).encode()


@dataclass
class Bench:
    """A broker, a topic whose options are set, and a connection."""

    broker: ottla.Broker
    connection: RawConnection
    topic: str
    # How long it waits for what the option brings about; without the option it is in vain.
    patience_seconds: float = WAIT_SECONDS

    def shard(self) -> Shard:
        """The partition's own objects, which no client sees."""

        def look(running: Any) -> Shard:
            found = running.node.partitions.shard(self.topic, 0)
            assert isinstance(found, Shard)
            return found

        return on_loop(self.broker, look)

    def log(self) -> LocalLog:
        log = self.shard().log
        assert isinstance(log, LocalLog)
        return log

    def folder(self) -> Path:
        return Path(self.broker.data_dir) / f"{self.topic}-0"

    def append(self, data: bytes) -> ErrorCode:
        return ErrorCode(produce(self.connection, self.topic, data).error_code)

    def append_at(self, timestamp_ms: int, value: bytes = b"v" * 100) -> ErrorCode:
        return self.append(build_batch([Record(0, timestamp_ms, b"k", value)]))

    def segment_count(self) -> int:
        return on_loop(self.broker, lambda running: len(self.log_in(running).segments()))

    def log_in(self, running: Any) -> LocalLog:
        log = running.node.partitions.shard(self.topic, 0).log
        assert isinstance(log, LocalLog)
        return log

    def tick(self) -> None:
        on_loop(
            self.broker,
            lambda running: running.cluster.store.tick(monotonic_ms(running.cluster.clock)),
        )

    def apply_retention(self) -> int:
        """Applies retention now; the offset that the log starts at then."""

        def apply(running: Any) -> int:
            shard = running.node.partitions.shard(self.topic, 0)
            shard.apply_retention(now_ms())
            return int(shard.log.start_offset)

        return on_loop(self.broker, apply)


Probe = Callable[[Bench], object]


class TopicProbe(NamedTuple):
    """A value of a topic option, what is seen with it, and what without; `also` is set in both cases."""

    value: str
    probe: Probe
    seen: object
    without: object
    also: Mapping[str, str] = {}
    # The same value in the units of other broker options that give it.
    broker_values: Mapping[str, str] = {}


def keyless_record(bench: Bench) -> object:
    return bench.append(build_batch([Record(0, now_ms(), None, b"v")]))


def stored_codec(bench: Bench) -> object:
    bench.append(batch_of(b"value"))
    ((_, header),) = split_batches(bytes(fetch(bench.connection, bench.topic, 0).records or b""))
    return header.codec


def is_of_another_size(bench: Bench) -> object:
    """Whether words take more or less room than at the codec's default level."""
    bench.append(batch_of(WORDS))
    ((_, header),) = split_batches(bytes(fetch(bench.connection, bench.topic, 0).records or b""))
    by_default = len(batch_of(WORDS, codec=header.codec))
    return header.size_bytes != by_default


def deleted_files_go_at_once(bench: Bench) -> object:
    fill(bench.connection, bench.topic, *[b"x" * 300] * 6)
    before = len(list(bench.folder().glob("*.log")))
    delete_records(bench.connection, bench.topic, 5)
    assert len(list(bench.folder().glob("*.log"))) < before
    bench.tick()
    return eventually(lambda: not list(bench.folder().glob("*.deleted")), bench.patience_seconds)


def is_synced_when_acknowledged(bench: Bench) -> object:
    bench.append(batch_of(b"v"))
    return bench.log().durability.synced_offset == 1


def is_synced_soon(bench: Bench) -> object:
    bench.append(batch_of(b"v"))

    def synced() -> bool:
        bench.tick()
        return bench.log().durability.synced_offset == 1

    return eventually(synced, bench.patience_seconds)


def index_is_dense(bench: Bench) -> object:
    fill(bench.connection, bench.topic, *[b"v"] * 10)
    on_loop(bench.broker, lambda running: bench.log_in(running).write_index())
    return (bench.folder() / f"{0:020d}.index").stat().st_size >= 8 * 9


def segments_after_ten_batches(bench: Bench) -> object:
    fill(bench.connection, bench.topic, *[b"x" * 300] * 10)
    return bench.segment_count() > 1


def large_record(bench: Bench) -> object:
    return bench.append(batch_of(b"x" * 2000))


def record_of_the_future(bench: Bench) -> object:
    return bench.append_at(now_ms() + HOUR_MS // 2)


def record_of_the_past(bench: Bench) -> object:
    return bench.append_at(now_ms() - HOUR_MS)


def stored_timestamp_type(bench: Bench) -> object:
    bench.append(batch_of(b"v"))
    ((_, header),) = split_batches(bytes(fetch(bench.connection, bench.topic, 0).records or b""))
    return header.timestamp_type


def record_with_acks_of_all(bench: Bench) -> object:
    return bench.append(batch_of(b"v"))


def start_after_old_records(bench: Bench) -> object:
    for _ in range(3):
        bench.append_at(now_ms() - 10 * HOUR_MS)
    return bench.apply_retention()


def start_after_many_records(bench: Bench) -> object:
    fill(bench.connection, bench.topic, *[b"x" * 300] * 10)
    return bench.apply_retention() > 0


def segments_after_two_hours(bench: Bench) -> object:
    now = now_ms()
    bench.append_at(now - 2 * HOUR_MS)
    bench.append_at(now)
    return bench.segment_count()


def has_jitter(bench: Bench) -> object:
    bench.append(batch_of(b"v"))
    return bench.log()._active.jitter_ms > 0


SMALL_SEGMENTS = {"segment.bytes": "500"}
TOPIC_PROBES: dict[str, TopicProbe] = {
    "cleanup.policy": TopicProbe(
        "compact", keyless_record, ErrorCode.INVALID_RECORD, ErrorCode.NONE
    ),
    "compression.gzip.level": TopicProbe(
        "1", is_of_another_size, True, False, {"compression.type": "gzip"}
    ),
    "compression.lz4.level": TopicProbe(
        "12", is_of_another_size, True, False, {"compression.type": "lz4"}
    ),
    "compression.type": TopicProbe("zstd", stored_codec, Codec.ZSTD, Codec.NONE),
    "compression.zstd.level": TopicProbe(
        "19", is_of_another_size, True, False, {"compression.type": "zstd"}
    ),
    "file.delete.delay.ms": TopicProbe("0", deleted_files_go_at_once, True, False, SMALL_SEGMENTS),
    "flush.messages": TopicProbe("1", is_synced_when_acknowledged, True, False),
    "flush.ms": TopicProbe(
        "1", is_synced_soon, True, False, {}, {"log.flush.scheduler.interval.ms": "1"}
    ),
    "index.interval.bytes": TopicProbe("0", index_is_dense, True, False),
    "max.message.bytes": TopicProbe(
        "1000", large_record, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE
    ),
    "message.timestamp.after.max.ms": TopicProbe(
        "1000", record_of_the_future, ErrorCode.INVALID_TIMESTAMP, ErrorCode.NONE
    ),
    "message.timestamp.before.max.ms": TopicProbe(
        "1000", record_of_the_past, ErrorCode.INVALID_TIMESTAMP, ErrorCode.NONE
    ),
    "message.timestamp.type": TopicProbe(
        "LogAppendTime",
        stored_timestamp_type,
        TimestampType.LOG_APPEND_TIME,
        TimestampType.CREATE_TIME,
    ),
    "min.insync.replicas": TopicProbe(
        "2", record_with_acks_of_all, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE
    ),
    "retention.bytes": TopicProbe("1000", start_after_many_records, True, False, SMALL_SEGMENTS),
    "retention.ms": TopicProbe(
        str(HOUR_MS),
        start_after_old_records,
        3,
        0,
        {},
        {"log.retention.minutes": "60", "log.retention.hours": "1"},
    ),
    "segment.bytes": TopicProbe("1000", segments_after_ten_batches, True, False),
    "segment.index.bytes": TopicProbe(
        "16", segments_after_ten_batches, True, False, {"index.interval.bytes": "0"}
    ),
    "segment.jitter.ms": TopicProbe(
        str(HOUR_MS), has_jitter, True, False, {}, {"log.roll.jitter.hours": "1"}
    ),
    "segment.ms": TopicProbe(
        str(HOUR_MS), segments_after_two_hours, 2, 1, {}, {"log.roll.hours": "1"}
    ),
}


# Options of the broker itself.


def metadata_of_a_new_topic(bench: Bench) -> object:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="unknown")], allow_auto_topic_creation=True
    )
    (topic,) = bench.connection.call(request, MetadataResponse, 9).topics
    return ErrorCode(topic.error_code)


def idle_connection_is_closed(bench: Bench) -> object:
    bench.connection.socket.settimeout(bench.patience_seconds)
    try:
        return bench.connection.socket.recv(1) == b""
    except TimeoutError:
        return False


def topic_without_a_factor(bench: Bench) -> object:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="another")], allow_auto_topic_creation=True
    )
    (topic,) = bench.connection.call(request, MetadataResponse, 9).topics
    return ErrorCode(topic.error_code)


def deletion(bench: Bench) -> object:
    return ErrorCode(delete(bench.connection, bench.topic).error_code)


def batches_in_a_fetch(bench: Bench) -> object:
    fill(bench.connection, bench.topic, b"x" * 700, b"x" * 700)
    return len(split_batches(bytes(fetch(bench.connection, bench.topic, 0).records or b"")))


def recovery_points_are_written_soon(bench: Bench) -> object:
    bench.append(batch_of(b"v"))
    path = Path(bench.broker.data_dir) / "recovery-point-offset-checkpoint"

    def is_written() -> bool:
        bench.tick()
        return path.exists() and f"{bench.topic} 0 1" in path.read_text()

    return eventually(is_written, bench.patience_seconds)


def old_records_go_soon(bench: Bench) -> object:
    bench.append_at(now_ms() - 10 * HOUR_MS)
    return eventually(
        lambda: fetch(bench.connection, bench.topic, 1).log_start_offset == 1,
        bench.patience_seconds,
    )


def second_connection_is_served(bench: Bench) -> object:
    try:
        with session_with(bench.broker) as second:
            second.call(MetadataRequest(topics=[]), MetadataResponse, 9)
    except ConnectionError:
        return False
    return True


def thirteenth_connection_is_served_soon(bench: Bench) -> object:
    with ExitStack() as opened:
        for _ in range(12):
            last = opened.enter_context(session_with(bench.broker))
        last.socket.settimeout(PATIENCE_SECONDS)
        try:
            last.call(MetadataRequest(topics=[]), MetadataResponse, 9)
        except TimeoutError:
            return False
    return True


def producer_waits(bench: Bench, value_bytes: int) -> bool:
    """Whether a client with a quota of a thousand bytes waits after a value of this size."""
    name = f"client-{uuid.uuid4().hex[:8]}"
    with session_with(bench.broker) as connection:
        set_quotas(connection, {"client-id": name}, producer_byte_rate=1000)
        request = produce_request(bench.topic, batch_of(random.Random(1).randbytes(value_bytes)))
        connection.send(request, 12, name)
        return bool(connection.receive(ProduceResponse, 12).throttle_time_ms)


def waits_after_half_of_the_windows(bench: Bench) -> object:
    return producer_waits(bench, 5_000)


def waits_after_more_than_ten_seconds_worth(bench: Bench) -> object:
    return producer_waits(bench, 15_000)


def topics_created(bench: Bench, partitions: int) -> int:
    """How many topics a client creates at once that may create a partition a second."""
    name = f"client-{uuid.uuid4().hex[:8]}"
    with session_with(bench.broker) as connection:
        set_quotas(connection, {"client-id": name}, controller_mutation_rate=1)
        topics = [
            CreatableTopic(
                name=f"{name}-{number}",
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            for number in range(3)
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=True)
        connection.send(request, 7, name)
        made = connection.receive(CreateTopicsResponse, 7)
        return sum(topic.error_code == ErrorCode.NONE for topic in made.topics)


def topics_of_three_partitions_created(bench: Bench) -> object:
    return topics_created(bench, 3)


def topics_of_ten_partitions_created(bench: Bench) -> object:
    return topics_created(bench, 10)


def fetch_session_is_kept(bench: Bench) -> object:
    request = fetch_request(bench.topic, 0, session_epoch=0)
    return bench.connection.call(request, FetchResponse, 12).session_id != 0


def broker_id(bench: Bench) -> object:
    answer = bench.connection.call(MetadataRequest(topics=[]), MetadataResponse, 9)
    return answer.brokers[0].node_id


def partitions_without_a_number(bench: Bench) -> object:
    create(bench.connection, "another", -1)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="another")])
    return len(bench.connection.call(request, MetadataResponse, 9).topics[0].partitions)


def producer_is_forgotten_soon(bench: Bench) -> object:
    bench.append(sequenced(new_producer_id(bench.connection), 0))
    return eventually(lambda: not _producers(bench), bench.patience_seconds)


def _producers(bench: Bench) -> int:
    return on_loop(
        bench.broker,
        lambda running: (
            len(
                running.node.partitions.shard(bench.topic, 0).partition.producers.to_snapshot()  # type: ignore[union-attr]
            )
            > EMPTY_SNAPSHOT_BYTES
        ),
    )


EMPTY_SNAPSHOT_BYTES = 10


def large_request_is_served(bench: Bench) -> object:
    try:
        return bench.append(batch_of(b"x" * 10_000)) is ErrorCode.NONE
    except ConnectionError:
        return False


def push_of_metrics(bench: Bench) -> object:
    with PushingClient(bench.broker.bootstrap_servers) as client:
        client.get()
        return client.push(many_gauges(f"metric-{number}" for number in range(20)))


class BrokerProbe(NamedTuple):
    """As TopicProbe; `also` are broker options."""

    value: str
    probe: Probe
    seen: object
    without: object
    also: Mapping[str, str] = {}
    topic_options: Mapping[str, str] = {}


BROKER_PROBES: dict[str, BrokerProbe] = {
    "auto.create.topics.enable": BrokerProbe(
        "false",
        metadata_of_a_new_topic,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ),
    "controller.quota.window.num": BrokerProbe("2", topics_of_three_partitions_created, 1, 3),
    "controller.quota.window.size.seconds": BrokerProbe(
        "5", topics_of_ten_partitions_created, 3, 2
    ),
    "connections.max.idle.ms": BrokerProbe("2500", idle_connection_is_closed, True, False),
    "default.replication.factor": BrokerProbe(
        "2", topic_without_a_factor, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.NONE
    ),
    "delete.topic.enable": BrokerProbe(
        "false", deletion, ErrorCode.TOPIC_DELETION_DISABLED, ErrorCode.NONE
    ),
    "fetch.max.bytes": BrokerProbe("1024", batches_in_a_fetch, 1, 2),
    "log.flush.offset.checkpoint.interval.ms": BrokerProbe(
        "1", recovery_points_are_written_soon, True, False
    ),
    "log.retention.check.interval.ms": BrokerProbe(
        "10", old_records_go_soon, True, False, {}, {"retention.ms": "1000"}
    ),
    "max.connection.creation.rate": BrokerProbe(
        "1", thirteenth_connection_is_served_soon, False, True
    ),
    "max.connections": BrokerProbe("1", second_connection_is_served, False, True),
    "max.connections.per.ip": BrokerProbe("1", second_connection_is_served, False, True),
    "max.connections.per.ip.overrides": BrokerProbe(
        "127.0.0.1:1", second_connection_is_served, False, True
    ),
    "max.incremental.fetch.session.cache.slots": BrokerProbe(
        "0", fetch_session_is_kept, False, True
    ),
    "node.id": BrokerProbe("7", broker_id, 7, 1),
    "num.partitions": BrokerProbe("3", partitions_without_a_number, 3, 1),
    "producer.id.expiration.check.interval.ms": BrokerProbe(
        "10", producer_is_forgotten_soon, True, False, {"producer.id.expiration.ms": "1"}
    ),
    "producer.id.expiration.ms": BrokerProbe(
        "1",
        producer_is_forgotten_soon,
        True,
        False,
        {"producer.id.expiration.check.interval.ms": "10"},
    ),
    "quota.window.num": BrokerProbe("2", waits_after_half_of_the_windows, True, False),
    "quota.window.size.seconds": BrokerProbe(
        "5", waits_after_more_than_ten_seconds_worth, False, True
    ),
    "socket.request.max.bytes": BrokerProbe("5000", large_request_is_served, False, True),
    "telemetry.max.bytes": BrokerProbe(
        "100", push_of_metrics, ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.NONE
    ),
}


def takes_in_memory(max_bytes: int) -> bool:
    """Whether a broker that keeps everything in memory takes a record of 1000 bytes."""

    async def append() -> bool:
        config = BrokerConfig.read(
            {
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "ottla.ephemeral.max.bytes": str(max_bytes),
            }
        )
        running = await start_broker(BrokerSettings(config))
        try:
            (made,) = running.node.topics.create([NewTopic("t", 1, -1, {}, {})])
            assert isinstance(made, Topic)
            shard = running.node.partitions.shard("t", 0)
            assert isinstance(shard, Shard)
            prepared = prepare(batch_of(b"x" * 1000), shard.config, now_ms(), 9)
            assert isinstance(prepared, Prepared)
            return not isinstance(shard.append(prepared, now_ms()), Refused)
        finally:
            await running.stop()

    return asyncio.run(append())


def alter_broker(connection: RawConnection, options: Mapping[str, str]) -> ErrorCode:
    return ErrorCode(set_options(connection, "1", options, BROKER))
