"""Data folders as brokers leave them, and what is in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.broker.requests import (
    create,
    delete,
    delete_records,
    new_producer_id,
    on_loop,
    produce,
    set_options,
)
from tests.storage.conftest import crash_copy

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch, split_batches
from ottla.records.compression import Codec
from ottla.records.record import Record

TOPICS = {"plain": 2, "small-segments": 1, "trimmed": 1}
BATCHES = 24
FIRST_MS = 1_700_000_000_000
TRIMMED_TO = 7


class StoredBatch(NamedTuple):
    """A batch as it lies in a file."""

    file: str  # relative to the data folder
    position: int
    size_bytes: int
    base_offset: int
    content: bytes  # what the checksum covers
    is_trimmed: bool


@dataclass(frozen=True)
class Sample:
    """A data folder, and every acknowledged batch in it by partition."""

    folder: Path
    batches: dict[tuple[str, int], list[StoredBatch]]

    @property
    def files(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()
        )


def timestamp_of(number: int, at: int) -> int:
    """The timestamp of a record of a batch."""
    return FIRST_MS + number * 100 + at


def batch_number(number: int, producer_id: int) -> bytes:
    """Three records of a producer, compressed by one codec or another."""
    records = [
        Record(at, timestamp_of(number, at), b"k%d" % number, b"value %d-%d" % (number, at))
        for at in range(3)
    ]
    return build_batch(
        records,
        codec=tuple(Codec)[number % len(Codec)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=number * 3,
    )


def _fill(broker: ottla.Broker) -> None:
    with RawConnection(broker.bootstrap_servers) as connection:
        create(connection, "gone", 2)
        create(connection, "plain", TOPICS["plain"])
        create(connection, "small-segments", config={"segment.bytes": "700"})
        create(connection, "trimmed", config={"segment.bytes": "1500"})
        set_options(connection, "plain", {"index.interval.bytes": "300"})
        producer_id = new_producer_id(connection)
        for number in range(BATCHES):
            for topic, count in TOPICS.items():
                for partition in range(count):
                    data = batch_number(number, producer_id)
                    answer = produce(connection, topic, data, partition=partition)
                    assert answer.error_code == ErrorCode.NONE
            if number == BATCHES // 2:
                # What lies before is below the recovery points.
                on_loop(broker, lambda running: running.cluster.store.tick(1 << 60))
        delete(connection, "gone")
        assert delete_records(connection, "trimmed", TRIMMED_TO * 3).low_watermark == 21


def _stored(folder: Path) -> dict[tuple[str, int], list[StoredBatch]]:
    found = {}
    for topic, count in TOPICS.items():
        for partition in range(count):
            batches = []
            for path in sorted((folder / f"{topic}-{partition}").glob("*.log")):
                data = path.read_bytes()
                name = str(path.relative_to(folder))
                batches += [
                    StoredBatch(
                        name,
                        position,
                        header.size_bytes,
                        header.base_offset,
                        data[position + 21 : position + header.size_bytes],
                        topic == "trimmed" and header.base_offset < TRIMMED_TO * 3,
                    )
                    for position, header in split_batches(data)
                ]
            found[topic, partition] = batches
    return found


def make_samples(folder: Path) -> dict[str, Sample]:
    """A folder as a killed broker leaves it, and one that was left in order."""
    running = folder / "running"
    with ottla.Broker(
        data_dir=running, log_flush_offset_checkpoint_interval_ms=3_600_000
    ) as broker:
        _fill(broker)
        crash_copy(running, folder / "unclean")
    running.rename(folder / "clean")
    return {name: Sample(folder / name, _stored(folder / name)) for name in ("clean", "unclean")}
