"""How many microseconds do our codecs and those of peers take for messages of the hot path?

Every peer decodes the bytes that Ottla wrote and encodes what it decoded. Our decode leaves records
in the receive buffer and our encode leaves large ones out of the copy; the peers copy them.

Run: python benchmarks/bench_codecs.py > result.json
"""

import io
import json
import platform
import subprocess
import time
import uuid
from collections.abc import Callable
from importlib.metadata import version as installed_version
from typing import Any, NamedTuple

from kafka.protocol.consumer import FetchResponse as PeerFetchResponse
from kafka.protocol.metadata import MetadataResponse as PeerMetadataResponse
from kafka.protocol.producer import ProduceRequest as PeerProduceRequest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from ottla.wire.compile import codec_of, encode_message
from ottla.wire.declare import info_of
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

SECONDS_EACH = 0.3
TOPIC_ID = uuid.UUID("7b2f6a3e-1c1d-4f7e-9a43-0d9c1a5b6c7d")
KAFKA_PYTHON = {
    "ProduceRequest": PeerProduceRequest,
    "FetchResponse": PeerFetchResponse,
    "MetadataResponse": PeerMetadataResponse,
}


class Subject(NamedTuple):
    """A message to measure at a version."""

    name: str
    message: Any
    version: int


def microseconds(action: Callable[[], object]) -> float:
    """The shortest time of one call, in batches of about a millisecond."""
    action()
    started = time.perf_counter()
    action()
    batch = max(1, int(0.001 / max(time.perf_counter() - started, 1e-7)))
    best = float("inf")
    end = time.perf_counter() + SECONDS_EACH
    while (started := time.perf_counter()) < end:
        for _ in range(batch):
            action()
        best = min(best, (time.perf_counter() - started) / batch)
    return round(best * 1e6, 2)


def produce_request(partitions: int, records: bytes) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index in range(partitions)]
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="events", topic_id=TOPIC_ID, partition_data=data)],
    )


def fetch_response(partitions: int, records: bytes) -> FetchResponse:
    data = [
        PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=1_000_000,
            last_stable_offset=1_000_000,
            log_start_offset=0,
            aborted_transactions=[],
            records=records,
        )
        for index in range(partitions)
    ]
    topic = FetchableTopicResponse(topic="events", topic_id=TOPIC_ID, partitions=data)
    return FetchResponse(session_id=77, responses=[topic])


def metadata_response(topics: int, partitions: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host="host", port=9092) for node in range(3)],
        cluster_id="cluster",
        controller_id=0,
        topics=[
            MetadataResponseTopic(
                error_code=0,
                name=f"topic-{number}",
                topic_id=uuid.UUID(int=number + 1),
                partitions=[
                    MetadataResponsePartition(
                        error_code=0,
                        partition_index=index,
                        leader_id=index % 3,
                        leader_epoch=1,
                        replica_nodes=[0, 1, 2],
                        isr_nodes=[0, 1, 2],
                    )
                    for index in range(partitions)
                ],
            )
            for number in range(topics)
        ],
    )


def ottla_times(subject: Subject, data: bytes) -> dict[str, float]:
    codec = codec_of(type(subject.message), subject.version)
    view = memoryview(data)
    return {
        "encode": microseconds(lambda: codec.encode(subject.message, bytearray(), [])),
        "decode": microseconds(lambda: codec.decode(view, 0)),
    }


def kio_times(subject: Subject, data: bytes) -> dict[str, float]:
    info = info_of(type(subject.message))
    load = load_request_schema if info.name.endswith("Request") else load_response_schema
    schema: Any = load(info.api_key, subject.version)
    read, write = entity_reader(schema), entity_writer(schema)
    entity, _ = read(data, 0)
    return {
        "encode": microseconds(lambda: write(io.BytesIO(), entity)),
        "decode": microseconds(lambda: read(data, 0)),
    }


def kafka_python_times(subject: Subject, data: bytes) -> dict[str, float]:
    peer = KAFKA_PYTHON[type(subject.message).__name__]
    message = peer.decode(data, version=subject.version)
    message._header = None  # kafka-python's encode asks for it and its decode does not set it
    assert message.encode(version=subject.version) == data
    return {
        "encode": microseconds(lambda: message.encode(version=subject.version)),
        "decode": microseconds(lambda: peer.decode(data, version=subject.version)),
    }


def commit() -> str:
    """The commit that was measured, or unknown outside of a repository."""
    try:
        return subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main() -> None:
    small, large = b"r" * 1_000, b"r" * 64_000
    subjects = [
        Subject("Produce v9 request, 1 partition of 1 kB", produce_request(1, small), 9),
        Subject("Produce v12 request, 12 partitions of 64 kB", produce_request(12, large), 12),
        Subject("Fetch v12 response, 12 partitions of 1 kB", fetch_response(12, small), 12),
        Subject("Fetch v17 response, 12 partitions of 64 kB", fetch_response(12, large), 17),
        Subject("Fetch v17 response, 100 empty partitions", fetch_response(100, b""), 17),
        Subject("Metadata v12 response, 50 topics of 6", metadata_response(50, 6), 12),
    ]
    results = {}
    for subject in subjects:
        data = encode_message(subject.message, subject.version)
        results[subject.name] = {
            "bytes": len(data),
            "ottla": ottla_times(subject, data),
            "kio": kio_times(subject, data),
            "kafka-python": kafka_python_times(subject, data),
        }
    peers = {name: installed_version(name) for name in ("kio", "kafka-python")}
    result = {
        "question": "microseconds for one message, one core, best batch",
        "machine": f"{platform.machine()} {platform.system()} Python {platform.python_version()}",
        "commit": commit(),
        "peers": peers,
        "results": results,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
