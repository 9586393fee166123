"""Random damage to every kind of file of a stopped broker, which must start, or say why not.

No crash, no traceback, no bytes that were never written, and nothing lost that lies before the damage: its partition
has it, or is offline. Every other partition has everything.
"""

from __future__ import annotations

import logging
import random
import shutil
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker.requests import batch_of, fetch, produce
from tests.fuzz.folders import (
    BATCHES,
    TRIMMED_TO,
    Sample,
    StoredBatch,
    make_samples,
    timestamp_of,
)
from tests.fuzz.mutations import mutate
from tests.fuzz.wire import FuzzError

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode, OttlaError
from ottla.ports import StorageError
from ottla.records.batch import crc_matches, read_header
from ottla.records.errors import CorruptRecordsError, UnsupportedMagicError
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

EARLIEST, LARGEST = -2, -3
# Files that say again what others say: without them nothing is lost.
REDUNDANT = (".index", ".timeindex", ".snapshot", "-checkpoint", ".lock", ".kafka_cleanshutdown")
CATALOG_FILES = ("catalog.journal", "meta.properties")
VERSION_FILE = "format.properties"
# Neither has a checksum. A damaged start offset can hide records, as in Kafka, and under another topic's id a
# folder is set aside, as in Kafka.
UNCHECKED = ("log-start-offset-checkpoint", "partition.metadata")
EXPECTED_REFUSALS = {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@dataclass
class DiskTally:
    """What a run has done."""

    cases: int = 0
    refused_starts: int = 0
    offline: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items()))
        return (
            f"{self.cases} damaged folders in {self.seconds:.0f} s ({kinds}), {self.refused_starts} starts refused "
            f"with a message, {self.offline} partitions offline"
        )


class Complaints(logging.Handler):
    """Collects what no damage may bring about: tracebacks."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.lines: deque[str] = deque(maxlen=40)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")
        if record.exc_info or "this is a bug" in record.getMessage():
            self.found.append(self.format(record))


@contextmanager
def listening_for_complaints() -> Iterator[Complaints]:
    complaints = Complaints()
    root = logging.getLogger()
    ours = logging.getLogger("ottla")
    was_propagating, level = ours.propagate, ours.level
    ours.addHandler(complaints)
    logging.getLogger("asyncio").addHandler(complaints)
    ours.propagate = False
    if not root.handlers:
        logging.lastResort = None
    try:
        yield complaints
    finally:
        ours.removeHandler(complaints)
        logging.getLogger("asyncio").removeHandler(complaints)
        ours.propagate = was_propagating
        ours.setLevel(level)


def damage(rng: random.Random, path: Path, others: list[bytes]) -> tuple[str, int]:
    """Damages a file; says how, and the first byte that is not what it was."""
    before = path.read_bytes()
    kind = rng.choice(("mutate", "mutate", "zero", "truncate", "append", "remove", "random", "old"))
    data = bytearray(before)
    if kind == "remove":
        path.unlink()
        return kind, 0
    at = rng.randrange(len(data)) if data else 0
    if kind == "mutate":
        mutate(rng, data, others)
    elif kind == "zero":
        end = min(len(data), at + rng.randrange(1, 600))
        data[at:end] = bytes(end - at)
    elif kind == "truncate":
        del data[at:]
    elif kind == "append":
        data += rng.choice((rng.randbytes(rng.randrange(1, 300)), bytes(rng.randrange(1, 9000))))
    elif kind == "random":
        data = bytearray(rng.randbytes(rng.randrange(200)))
    else:
        data[at:] = rng.choice(others)  # a block of another file
    path.write_bytes(data)
    same = min(len(data), len(before))
    first = next((number for number in range(same) if data[number] != before[number]), same)
    return kind, first


class Reader:
    """Compares what a broker serves with what was stored."""

    def __init__(self, sample: Sample, damaged: str, first_byte: int) -> None:
        self._sample = sample
        self._damaged = damaged
        self._first_byte = first_byte
        self.offline = 0

    def check(self, connection: RawConnection) -> None:
        for (topic, partition), stored in self._sample.batches.items():
            self._check_partition(connection, topic, partition, stored)
            if self._damaged.endswith(REDUNDANT) and self._damaged != UNCHECKED[0]:
                self._check_times(connection, topic, partition)

    def _check_times(self, connection: RawConnection, topic: str, partition: int) -> None:
        """Timestamps lead to the same offsets as ever."""
        for number in (TRIMMED_TO, TRIMMED_TO + 4, BATCHES - 1):
            for at in range(3):
                found = offset_at(connection, topic, partition, timestamp_of(number, at))
                if found != (ErrorCode.NONE, number * 3 + at):
                    raise FuzzError(f"{topic}-{partition}: {number * 3 + at} is found at {found}")
        found = offset_at(connection, topic, partition, LARGEST)
        if found != (ErrorCode.NONE, BATCHES * 3 - 1):
            raise FuzzError(f"{topic}-{partition}: the largest timestamp is found at {found}")

    def _check_partition(
        self, connection: RawConnection, topic: str, partition: int, stored: list[StoredBatch]
    ) -> None:
        error, served = serve(connection, topic, partition)
        known = {batch.content: batch for batch in stored}
        is_ours = self._damaged.startswith(f"{topic}-{partition}/")
        for base_offset, content in served.items():
            if content not in known:
                raise FuzzError(f"{topic}-{partition}: what is at {base_offset} was never written")
            if known[content].base_offset != base_offset and not self._damaged.endswith(".log"):
                raise FuzzError(
                    f"{topic}-{partition}: {known[content].base_offset} moved to {base_offset}"
                )
        if (
            self._damaged in (*CATALOG_FILES, UNCHECKED[0])
            and error is not ErrorCode.KAFKA_STORAGE_ERROR
        ):
            return
        if is_ours and self._damaged.endswith(UNCHECKED[1]):
            return
        if error is not ErrorCode.NONE:
            self.offline += 1
            if not (is_ours and self._damaged.endswith(".log")):
                raise FuzzError(f"{topic}-{partition} answers {error.name}")
        missing = [
            batch for batch in stored if batch.base_offset not in served and not batch.is_trimmed
        ]
        for batch in missing:
            # An offline partition need not serve what it has; otherwise nothing before the damage is missing.
            if error is ErrorCode.NONE and self._lies_before_damage(batch):
                raise FuzzError(f"{topic}-{partition}: {batch.base_offset} is missing")

    def _lies_before_damage(self, batch: StoredBatch) -> bool:
        if (
            not self._damaged.endswith(".log")
            or Path(batch.file).parent != Path(self._damaged).parent
        ):
            return True
        return batch.file < self._damaged or (
            batch.file == self._damaged and batch.position + batch.size_bytes <= self._first_byte
        )


def offset_at(
    connection: RawConnection, topic: str, partition: int, timestamp_ms: int
) -> tuple[ErrorCode, int]:
    """The offset that ListOffsets finds at a timestamp."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp_ms)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    (answer,) = connection.call(request, ListOffsetsResponse, 7).topics[0].partitions
    return ErrorCode(answer.error_code), answer.offset


def serve(
    connection: RawConnection, topic: str, partition: int
) -> tuple[ErrorCode, dict[int, bytes]]:
    """What a partition serves with a right checksum, by base offset, and the error that ended it."""
    found: dict[int, bytes] = {}
    error, offset = offset_at(connection, topic, partition, EARLIEST)
    if error is not ErrorCode.NONE:
        return error, found
    while True:
        # Little at a time, so that the indexes are asked for every batch.
        data = fetch(connection, topic, offset, partition=partition, partition_max_bytes=200)
        if data.error_code != ErrorCode.NONE:
            return ErrorCode(data.error_code), found
        raw = bytes(data.records or b"")
        following, position = offset, 0
        while position < len(raw):
            try:
                header = read_header(raw, position)
            except (CorruptRecordsError, UnsupportedMagicError):
                return ErrorCode.NONE, found
            # A client goes no further than to the first wrong checksum.
            if not crc_matches(raw, position, header):
                return ErrorCode.NONE, found
            found[header.base_offset] = raw[position + 21 : position + header.size_bytes]
            following = max(following, header.last_offset + 1)
            position += header.size_bytes
        if following == offset:
            return ErrorCode.NONE, found
        offset = following


def check_damaged(sample: Sample, folder: Path, damaged: str, first_byte: int) -> tuple[str, int]:
    """Starts a broker over a damaged folder; says how that went and how many partitions are offline."""
    try:
        broker = ottla.Broker(data_dir=folder).start()
    except (OttlaError, StorageError) as error:
        if damaged not in (*CATALOG_FILES, VERSION_FILE):
            raise FuzzError(f"the start is refused: {error}") from error
        if damaged not in str(error) and "data folder" not in str(error):
            raise FuzzError(
                f"the start is refused with a message that does not help: {error}"
            ) from error
        return "refused", 0
    reader = Reader(sample, damaged, first_byte)
    try:
        with RawConnection(broker.bootstrap_servers) as connection:
            reader.check(connection)
            for topic, partition in sample.batches:
                answer = produce(connection, topic, batch_of(b"new"), partition=partition)
                code = ErrorCode(answer.error_code)
                if code is not ErrorCode.NONE and code not in EXPECTED_REFUSALS:
                    raise FuzzError(f"producing to {topic}-{partition} fails with {code.name}")
    finally:
        broker.stop()
    return "started", reader.offline


def one_case(
    rng: random.Random, samples: dict[str, Sample], folder: Path, tally: DiskTally
) -> None:
    """Copies a folder, damages one file of it, and looks at what a broker makes of it."""
    name = rng.choice(sorted(samples))
    sample = samples[name]
    by_kind: dict[str, list[str]] = {}
    for file in sample.files:
        by_kind.setdefault(Path(file).suffix or Path(file).name, []).append(file)
    kind = rng.choice([*sorted(by_kind), ".log", ".log"])
    damaged = rng.choice(by_kind[kind])
    others = [(sample.folder / file).read_bytes() for file in rng.sample(sample.files, 5)]
    shutil.copytree(sample.folder, folder)
    try:
        how, first_byte = damage(rng, folder / damaged, others)
        tally.kinds[kind] += 1
        with listening_for_complaints() as complaints:
            try:
                outcome, offline = check_damaged(sample, folder, damaged, first_byte)
            except Exception as error:
                logged = "\n".join(complaints.lines)
                raise FuzzError(
                    f"{name} {damaged}, {how} from byte {first_byte}: {error}\n{logged}"
                ) from error
        if complaints.found:
            raise FuzzError(f"{name} {damaged}, {how} from {first_byte}: {complaints.found[0]}")
        tally.refused_starts += outcome == "refused"
        tally.offline += offline
        tally.cases += 1
    finally:
        shutil.rmtree(folder)


def run_disk(folder: Path, seed: int, first_case: int, cases: int) -> DiskTally:
    """That many cases; each has a seed of its own, so that one can be repeated alone."""
    samples = make_samples(folder)
    tally = DiskTally()
    began = time.monotonic()
    for number in range(first_case, first_case + cases):
        try:
            one_case(random.Random(seed * 1_000_003 + number), samples, folder / "damaged", tally)
        except FuzzError as error:
            raise FuzzError(f"case {number}: {error}") from error
    tally.seconds = time.monotonic() - began
    return tally
