"""What a crash of the machine may leave behind: a log whose end is cut, damaged or full of zeros."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.processes import BrokerProcess, fault_rng
from tests.faults.raw_calls import (
    batch_of,
    create_topic,
    new_producer_id,
    produce,
    read_partition,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import BatchHeader, split_batches

BATCHES, BATCH_RECORDS = 60, 10
BASE_OFFSET_BYTES = 8
TOPIC = "orders"

# Changes the last segment's file and answers the first byte that may be gone.
Damage = Callable[[Path, random.Random], int]


def values_of(number: int) -> list[bytes]:
    return [b"%d.%d %s" % (number, index, b"." * 90) for index in range(BATCH_RECORDS)]


def cut(path: Path, rng: random.Random) -> int:
    size = rng.randrange(path.stat().st_size)
    with path.open("r+b") as file:
        file.truncate(size)
    return size


def flip_a_bit(path: Path, rng: random.Random) -> int:
    data = bytearray(path.read_bytes())
    # No checksum covers a base offset: a larger one is a gap, as compaction leaves it.
    starts = [start for start, _ in split_batches(bytes(data))]
    spared = {start + byte for start in starts for byte in range(BASE_OFFSET_BYTES)}
    position = rng.choice([place for place in range(len(data)) if place not in spared])
    data[position] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return position


def zero_the_end(path: Path, rng: random.Random) -> int:
    data = bytearray(path.read_bytes())
    # The very last byte is zero as it is: the last record has no headers.
    position = rng.randrange(len(data) - 1)
    data[position:] = bytes(len(data) - position)
    path.write_bytes(data)
    return position


def append_garbage(path: Path, rng: random.Random) -> int:
    data = path.read_bytes()
    path.write_bytes(data + rng.randbytes(rng.randrange(1, 5000)))
    return len(data)


def append_a_preallocated_end(path: Path, rng: random.Random) -> int:
    data = path.read_bytes()
    path.write_bytes(data + bytes(rng.randrange(1, 100_000)))
    return len(data)


def repeat_the_last_batch(path: Path, rng: random.Random) -> int:
    """A whole batch with a right checksum, but with offsets that are there already."""
    data = path.read_bytes()
    position, _ = split_batches(data)[-1]
    path.write_bytes(data + data[position:])
    return len(data)


def last_segment(broker: BrokerProcess) -> Path:
    return max(
        path for path in (broker.data / f"{TOPIC}-0").glob("*.log") if path.stat().st_size > 0
    )


def fill(broker: BrokerProcess) -> int:
    """Produces batches with one producer id, which it answers."""
    with RawConnection(broker.address) as connection:
        create_topic(connection, TOPIC)
        producer_id = new_producer_id(connection)
        for number in range(BATCHES):
            batch = batch_of(values_of(number), producer_id, number * BATCH_RECORDS)
            assert produce(connection, TOPIC, 0, batch)[0] is ErrorCode.NONE
    return producer_id


def batches_before(headers: list[tuple[int, BatchHeader]], position: int) -> int:
    """How many batches of the whole log end at or before a position of the last segment."""
    first = headers[0][1].base_offset // BATCH_RECORDS
    return first + sum(at + header.size_bytes <= position for at, header in headers)


def check_log(broker: BrokerProcess, batch_count: int) -> None:
    expected = [value for number in range(batch_count) for value in values_of(number)]
    with RawConnection(broker.address) as connection:
        seen = read_partition(connection, TOPIC, 0)
    assert [record.value for record in seen] == expected


def resume(broker: BrokerProcess, producer_id: int, whole: int) -> None:
    """Repeats the last batches that are left and sends those that are not."""
    with RawConnection(broker.address) as connection:
        for number in range(max(whole - 2, 0), BATCHES + 2):
            batch = batch_of(values_of(number), producer_id, number * BATCH_RECORDS)
            answer = produce(connection, TOPIC, 0, batch)
            assert answer == (ErrorCode.NONE, number * BATCH_RECORDS)


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        flip_a_bit,
        zero_the_end,
        append_garbage,
        append_a_preallocated_end,
        repeat_the_last_batch,
    ],
)
def test_a_torn_tail_costs_nothing_before_it(tmp_path: Path, damage: Damage) -> None:
    rng = fault_rng()
    broker = BrokerProcess(tmp_path, log_segment_bytes=20_000)
    with broker:
        producer_id = fill(broker)
        broker.kill()
        path = last_segment(broker)
        headers = split_batches(path.read_bytes())
        position = damage(path, rng)
        whole = batches_before(headers, position)
        print(f"{path.name} from {position} on: {whole} batches are whole")
        broker.start()
        with RawConnection(broker.address) as connection:
            kept = len(read_partition(connection, TOPIC, 0))
        # A bit that no checksum covers (base offset, length, leader epoch) may do no harm at all.
        assert kept >= whole * BATCH_RECORDS
        assert kept % BATCH_RECORDS == 0
        if damage is not flip_a_bit:
            assert kept == whole * BATCH_RECORDS
        check_log(broker, kept // BATCH_RECORDS)
        resume(broker, producer_id, kept // BATCH_RECORDS)
        broker.kill()
        broker.start()
        check_log(broker, BATCHES + 2)


def test_producers_are_remembered_as_of_the_end_that_is_left(tmp_path: Path) -> None:
    """Snapshots above a cut must go with it: they know batches that are lost, as if they were there."""
    broker = BrokerProcess(tmp_path, log_segment_bytes=20_000)
    with broker:
        producer_id = fill(broker)
        broker.kill()
        _, second, third, *_ = sorted((broker.data / f"{TOPIC}-0").glob("*.log"))
        stale_offset = int(third.stem)
        headers = split_batches(second.read_bytes())
        position, header = headers[len(headers) // 2]
        with second.open("r+b") as file:
            file.truncate(position + 30)
        whole = header.base_offset // BATCH_RECORDS
        broker.start()
        check_log(broker, whole)
        # Somebody else takes the log past the offset of the snapshot, within the same segment.
        others = [b"-"] * (stale_offset - header.base_offset + 5)
        with RawConnection(broker.address) as connection:
            answer = produce(connection, TOPIC, 0, batch_of(others, -1, -1))
            assert answer == (ErrorCode.NONE, header.base_offset)
        broker.kill()
        broker.start()
        lost = batch_of(values_of(whole), producer_id, whole * BATCH_RECORDS)
        with RawConnection(broker.address) as connection:
            answer = produce(connection, TOPIC, 0, lost)
            assert answer == (ErrorCode.NONE, header.base_offset + len(others))
            seen = [record.value for record in read_partition(connection, TOPIC, 0)]
        assert seen[header.base_offset :] == others + values_of(whole)


@pytest.mark.parametrize("pattern", ["*.index", "*.timeindex", "*.snapshot"])
@pytest.mark.parametrize("replace", ["nothing", "garbage"])
def test_side_files_are_made_anew(tmp_path: Path, pattern: str, replace: str) -> None:
    """Indexes and snapshots only say again what the log says."""
    rng = fault_rng()
    broker = BrokerProcess(tmp_path, log_segment_bytes=20_000)
    with broker:
        producer_id = fill(broker)
        broker.kill()
        paths = sorted((broker.data / f"{TOPIC}-0").glob(pattern))
        assert paths
        for path in paths:
            if replace == "nothing":
                path.unlink()
            else:
                path.write_bytes(rng.randbytes(rng.randrange(1, 200)))
        broker.start()
        check_log(broker, BATCHES)
        resume(broker, producer_id, BATCHES)
        check_log(broker, BATCHES + 2)


def test_an_unfinished_line_of_the_catalog_is_cut_off(tmp_path: Path) -> None:
    """A crash in the middle of a catalog change: the change did not happen, everything before it did."""
    rng = fault_rng()
    broker = BrokerProcess(tmp_path)
    with broker:
        producer_id = fill(broker)
        broker.kill()
        before = {path: path.read_bytes() for path in broker.data.iterdir() if path.is_file()}
        broker.start()
        with RawConnection(broker.address) as connection:
            assert create_topic(connection, "second").error_code == 0
        broker.kill()
        grown = [path for path in before if len(path.read_bytes()) > len(before[path])]
        assert len(grown) == 1
        lines = grown[0].read_bytes().splitlines(keepends=True)
        last = max(number for number, line in enumerate(lines) if b"second" in line)
        torn = lines[last][: rng.randrange(1, len(lines[last]) - 1)]
        grown[0].write_bytes(b"".join(lines[:last]) + torn)
        broker.start()
        with RawConnection(broker.address) as connection:
            assert create_topic(connection, "second").error_code == 0
        resume(broker, producer_id, BATCHES)
        check_log(broker, BATCHES + 2)
