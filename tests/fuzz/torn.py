"""A write that stopped at any byte of the last batch: everything before it is there, and it is whole or gone."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.wire import FuzzError
from tests.storage.batches import SteppingClock, read_all, ref_of
from tests.storage.conftest import crash_copy

from ottla.broker.partitions.replay import replay
from ottla.broker.partitions.shard import Shard
from ottla.broker.partitions.unsettled_bytes import UnsettledBytes
from ottla.config.topic import TopicConfig
from ottla.core.append import Prepared, prepare
from ottla.core.outcomes import Refused
from ottla.records.batch import build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.local import LocalStore, open_local_store

BATCHES = 4
CONFIG = TopicConfig()

Tear = Callable[[bytes, int, int], bytes]  # the file, where the write stopped, where it began


def cut_off(data: bytes, stop: int, start: int) -> bytes:
    return data[:stop]


def zeroes_behind(data: bytes, stop: int, start: int) -> bytes:
    """The file got its size, its last pages did not get there."""
    return data[:stop] + bytes(len(data) - stop)


def garbage_behind(data: bytes, stop: int, start: int) -> bytes:
    return data[:stop] + random.Random(stop).randbytes(len(data) - stop)


def beginning_missing(data: bytes, stop: int, start: int) -> bytes:
    """The pages were written in another order: the end is there, what is before it is not."""
    return data[:start] + bytes(stop - start) + data[stop:]


TEARS: dict[str, Tear] = {
    "cut": cut_off,
    "zeroes": zeroes_behind,
    "garbage": garbage_behind,
    "holes": beginning_missing,
}


@dataclass
class TornTally:
    cases: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.cases} torn writes in {self.seconds:.0f} s"


def client_batch(number: int, codec: Codec) -> bytearray:
    records = [Record(at, 1_000 + number, b"key", b"value %d" % number) for at in range(2)]
    return bytearray(
        build_batch(records, codec=codec, producer_id=9, producer_epoch=0, base_sequence=number * 2)
    )


def _open(folder: Path) -> tuple[LocalStore, Shard]:
    clock = SteppingClock()
    store = open_local_store(folder, clock=clock)
    try:
        log = store.claim(ref_of(), CONFIG)
        return store, Shard(
            replay(log, clock.now_ms()), CONFIG, lambda shard: None, UnsettledBytes()
        )
    except BaseException:
        store.close()
        raise


def _append(shard: Shard, number: int, codec: Codec) -> int:
    prepared = prepare(client_batch(number, codec), CONFIG, 1_700_000_000_000, 9)
    assert isinstance(prepared, Prepared)
    appended = shard.append(prepared, 1_700_000_000_000)
    if isinstance(appended, Refused):
        raise FuzzError(f"batch {number} is refused with {appended.error.name}")
    return appended.base_offset


def crashed_folder(folder: Path, codec: Codec) -> tuple[Path, int]:
    """A folder as a crash leaves it, and where its last batch begins."""
    store, shard = _open(folder / "running")
    for number in range(BATCHES - 1):
        _append(shard, number, codec)
    start = shard.log.size_bytes
    _append(shard, BATCHES - 1, codec)
    crashed = crash_copy(folder / "running", folder / f"crashed-{codec.name}")
    store.close()
    shutil.rmtree(folder / "running")
    return crashed, start


def check_torn(crashed: Path, folder: Path, torn: bytes, whole: bytes, start: int) -> None:
    """Opens a folder with a torn log and goes on writing there."""
    shutil.copytree(crashed, folder)
    try:
        path = folder / "orders-0" / f"{0:020d}.log"
        path.write_bytes(torn)
        store, shard = _open(folder)
        try:
            kept = read_all(shard.log)
            expected = whole if torn == whole else whole[:start]
            if kept != expected:
                raise FuzzError(f"{len(kept)} bytes are left and not {len(expected)}")
            codec = Codec(whole[22] & 7)
            # The producer goes on with what it got no answer for, or is told what it wrote.
            for number in (BATCHES - 2, BATCHES - 1, BATCHES):
                if _append(shard, number, codec) != number * 2:
                    raise FuzzError(f"batch {number} is not where it belongs")
        finally:
            store.close()
    finally:
        shutil.rmtree(folder)


def run_torn(
    folder: Path, codecs: Iterable[Codec], tears: Sequence[str], every_byte: int = 1
) -> TornTally:
    """Every `every_byte`-th byte of the last batch, torn in these ways."""
    tally = TornTally()
    began = time.monotonic()
    for codec in codecs:
        crashed, start = crashed_folder(folder, codec)
        whole = (crashed / "orders-0" / f"{0:020d}.log").read_bytes()
        for stop in [*range(start, len(whole), every_byte), len(whole)]:
            for name in tears:
                try:
                    torn = TEARS[name](whole, stop, start)
                    check_torn(crashed, folder / "torn", torn, whole, start)
                except Exception as error:
                    raise FuzzError(
                        f"{codec.name}, {name} at byte {stop - start} of the last batch: {error}"
                    ) from error
                tally.cases += 1
    tally.seconds = time.monotonic() - began
    return tally
