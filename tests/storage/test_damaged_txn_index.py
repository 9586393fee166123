"""Aborted records stay hidden whatever happens to a .txnindex file: what was written is known by its checksum."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.core.client_batches import NOW_MS, client_batch
from tests.storage.batches import SteppingClock, ref_of
from tests.storage.conftest import Opener, crash_copy

from ottla.broker.partitions.replay import replay
from ottla.broker.partitions.shard import Appended, Shard
from ottla.broker.partitions.unsettled_bytes import UnsettledBytes
from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan
from ottla.ports import SaveTime, Snapshot
from ottla.ports.futures import settled
from ottla.records.control import MarkerType
from ottla.storage.local import LocalStore, open_local_store
from ottla.storage.local.folder.checkpoint_files import read_checksums
from ottla.storage.local.log.transaction_index import ENTRY_BYTES

CONFIG = TopicConfig()
FULL = TopicConfig(segment_bytes=14)
CHECKPOINT = "transaction-index-checkpoint"
PRODUCERS = 2
SEGMENTS = 3


class Ledger:
    """A partition with aborted and committed transactions in several segments."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.log = store.claim(ref_of(), CONFIG)
        self.shard = Shard(replay(self.log, NOW_MS), CONFIG, lambda shard: None, UnsettledBytes())
        self._sequences = dict.fromkeys(range(PRODUCERS), 0)

    def send(self, producer_id: int) -> None:
        sequence = self._sequences[producer_id]
        data = client_batch(
            3,
            producer_id=producer_id,
            producer_epoch=0,
            first_sequence=sequence,
            transactional=True,
        )
        assert isinstance(self.shard.append_own(data, NOW_MS), Appended)
        self._sequences[producer_id] += 3

    def end(self, producer_id: int, marker: MarkerType) -> None:
        appended = self.shard.append_marker(marker, producer_id, 0, 0, 1, NOW_MS)
        assert isinstance(appended, Appended)

    def fill(self) -> list[AbortedSpan]:
        for _ in range(SEGMENTS + 1):
            self.end_and_begin()
        return self.spans

    def end_and_begin(self) -> None:
        if self._sequences[1]:
            # The segment counts as full: this append begins another one.
            self.log.configure(FULL)
            self.end(1, MarkerType.ABORT)
            self.log.configure(CONFIG)
        for marker in (MarkerType.ABORT, MarkerType.COMMIT, MarkerType.ABORT):
            self.send(0)
            self.end(0, marker)
        self.send(1)

    @property
    def spans(self) -> list[AbortedSpan]:
        return list(self.log.aborted(0))

    @property
    def state(self) -> object:
        producers = self.shard.partition.producers
        return [
            (one.producer_id, one.epoch, one.transaction_first_offset, one.last_sequence)
            for one in producers
        ]

    def stop(self) -> None:
        self.shard.save_at_close()
        self.store.close()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[AbortedSpan]]:
    """A folder that was left in order."""
    folder = tmp_path_factory.mktemp("stopped")
    ledger = Ledger(open_local_store(folder, clock=SteppingClock()))
    spans = ledger.fill()
    ledger.stop()
    return folder, spans


def indexes(folder: Path) -> list[Path]:
    return sorted((folder / "orders-0").glob("*.txnindex"))


def empty(path: Path) -> None:
    os.truncate(path, 0)


def cut_last_entry(path: Path) -> None:
    os.truncate(path, path.stat().st_size - ENTRY_BYTES)


def tear_last_entry(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 5)


def keep_last_entry(path: Path) -> None:
    path.write_bytes(path.read_bytes()[-ENTRY_BYTES:])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "gone": os.unlink,
    "empty": empty,
    "last entry cut": cut_last_entry,
    "last entry torn": tear_last_entry,
    "first entries gone": keep_last_entry,
}


def told(caplog: pytest.LogCaptureFixture, event: str) -> int:
    return sum(getattr(record, "event", "") == event for record in caplog.records)


@pytest.mark.parametrize("number", range(SEGMENTS + 1))
@pytest.mark.parametrize("damage", DAMAGES)
def test_an_index_that_was_damaged_after_a_stop_is_made_anew(
    stopped: tuple[Path, list[AbortedSpan]],
    open_store: Opener,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: str,
    number: int,
) -> None:
    source, spans = stopped
    folder = tmp_path / "data"
    shutil.copytree(source, folder)
    good = [path.read_bytes() for path in indexes(folder)]
    DAMAGES[damage](indexes(folder)[number])
    with caplog.at_level(logging.INFO):
        ledger = Ledger(open_store(folder))
    assert ledger.spans == spans
    assert told(caplog, "transaction_index_damaged") == 1
    ledger.stop()
    assert [path.read_bytes() for path in indexes(folder)] == good
    caplog.clear()
    with caplog.at_level(logging.INFO):
        again = Ledger(open_store(folder))
    assert again.spans == spans
    assert not told(caplog, "transaction_index_damaged")


def test_no_flipped_bit_is_believed(
    stopped: tuple[Path, list[AbortedSpan]], open_store: Opener, tmp_path: Path
) -> None:
    source, spans = stopped
    size_bytes = indexes(source)[1].stat().st_size
    for position in range(0, size_bytes, 3):
        folder = tmp_path / str(position)
        shutil.copytree(source, folder)
        path = indexes(folder)[1]
        data = bytearray(path.read_bytes())
        data[position] ^= 1 << position % 8
        path.write_bytes(data)
        ledger = Ledger(open_store(folder))
        assert ledger.spans == spans, position
        ledger.store.close()


def test_all_indexes_can_be_gone_at_once(
    stopped: tuple[Path, list[AbortedSpan]], open_store: Opener, tmp_path: Path
) -> None:
    source, spans = stopped
    folder = tmp_path / "data"
    shutil.copytree(source, folder)
    for path in indexes(folder):
        path.unlink()
    assert Ledger(open_store(folder)).spans == spans


def test_the_state_of_the_producers_is_what_it_was(open_store: Opener, tmp_path: Path) -> None:
    ledger = Ledger(open_store(tmp_path))
    ledger.fill()
    before = ledger.state, ledger.shard.partition.last_stable_offset
    ledger.stop()
    indexes(tmp_path)[0].unlink()
    again = Ledger(open_store(tmp_path))
    assert (again.state, again.shard.partition.last_stable_offset) == before


@pytest.mark.parametrize("number", range(SEGMENTS + 1))
@pytest.mark.parametrize("damage", DAMAGES)
def test_an_index_below_a_snapshot_is_known_after_a_kill_too(
    open_store: Opener, tmp_path: Path, damage: str, number: int
) -> None:
    ledger = Ledger(open_store(tmp_path / "a"))

    async def fill() -> list[AbortedSpan]:
        spans = ledger.fill()
        state = ledger.shard.partition.producers.to_snapshot()
        snapshot = Snapshot(ledger.log.end_offset, state)
        await settled(ledger.log.save_snapshot(snapshot, SaveTime.SOON))
        return spans

    spans = asyncio.run(fill())
    folder = crash_copy(tmp_path / "a", tmp_path / "b")
    DAMAGES[damage](indexes(folder)[number])
    assert Ledger(open_store(folder)).spans == spans


def test_a_sealed_index_is_known_after_a_kill_in_a_running_loop(
    open_store: Opener, tmp_path: Path
) -> None:
    """An append begins the new segment, and the kill follows at once."""
    ledger = Ledger(open_store(tmp_path / "a"))

    async def fill() -> list[AbortedSpan]:
        spans = ledger.fill()
        crash_copy(tmp_path / "a", tmp_path / "b")
        return spans

    spans = asyncio.run(fill())
    noted = read_checksums(str(tmp_path / "b" / "orders-0" / CHECKPOINT))
    assert len(noted) == SEGMENTS
    for path in indexes(tmp_path / "b")[:SEGMENTS]:
        path.unlink()
    assert Ledger(open_store(tmp_path / "b")).spans == spans


def test_a_stop_in_the_middle_of_making_it_anew_is_made_good(
    stopped: tuple[Path, list[AbortedSpan]], open_store: Opener, tmp_path: Path
) -> None:
    """The checkpoint then has what was found so far, and no snapshot says that this is all."""
    source, spans = stopped
    folder = tmp_path / "data"
    shutil.copytree(source, folder)
    indexes(folder)[1].unlink()
    store = open_store(folder)
    store.claim(ref_of(), CONFIG)
    store.close()
    assert Ledger(open_store(folder)).spans == spans


def test_nothing_is_told_of_a_folder_in_order_nor_after_a_kill(
    open_store: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = Ledger(open_store(tmp_path / "a"))
    ledger.fill()
    killed = crash_copy(tmp_path / "a", tmp_path / "b")
    ledger.stop()
    with caplog.at_level(logging.WARNING):
        for folder in (tmp_path / "a", killed):
            Ledger(open_store(folder))
    assert not caplog.records


def test_segments_that_are_deleted_or_cleaned_are_not_missed(
    open_store: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = Ledger(open_store(tmp_path / "a"))
    ledger.fill()
    bases = [segment.base_offset for segment in ledger.log.segments()]
    ledger.shard.trim(bases[1])
    replacement = ledger.log.begin_replacement(bases[1:2])
    replacement.flush()
    assert replacement.commit()
    killed = crash_copy(tmp_path / "a", tmp_path / "b")
    assert len(indexes(killed)) == SEGMENTS - 1
    with caplog.at_level(logging.WARNING):
        Ledger(open_store(killed))
    assert not told(caplog, "transaction_index_damaged")


def test_a_folder_without_checksums_opens_and_gets_them(
    stopped: tuple[Path, list[AbortedSpan]], open_store: Opener, tmp_path: Path
) -> None:
    """As earlier versions, and Apache Kafka, leave it."""
    source, spans = stopped
    folder = tmp_path / "data"
    shutil.copytree(source, folder)
    checkpoint = folder / "orders-0" / CHECKPOINT
    written = checkpoint.read_bytes()
    checkpoint.unlink()
    ledger = Ledger(open_store(folder))
    assert ledger.spans == spans
    ledger.stop()
    assert checkpoint.read_bytes() == written


@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"0\n1\n0 34\n", b"9\n0\n", b"\xff\xfe", b"0\n1\na b c\n"]
)
def test_a_damaged_checkpoint_does_no_harm(
    stopped: tuple[Path, list[AbortedSpan]], open_store: Opener, tmp_path: Path, content: bytes
) -> None:
    source, spans = stopped
    folder = tmp_path / "data"
    shutil.copytree(source, folder)
    (folder / "orders-0" / CHECKPOINT).write_bytes(content)
    assert Ledger(open_store(folder)).spans == spans


def test_a_partition_without_aborted_transactions_has_no_checkpoint(
    open_store: Opener, tmp_path: Path
) -> None:
    ledger = Ledger(open_store(tmp_path))
    ledger.log.configure(FULL)
    ledger.send(0)
    ledger.end(0, MarkerType.COMMIT)
    assert len(ledger.log.segments()) == 2
    ledger.stop()
    assert not (tmp_path / "orders-0" / CHECKPOINT).exists()
