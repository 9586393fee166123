"""The data folder as a whole: its lock, its owner, its epochs, deletion, and many partitions."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage.batches import (
    SteppingClock,
    append,
    begins_segment,
    fill,
    joined,
    make_batch,
    offsets_of,
    read_all,
    ref_of,
)
from tests.storage.conftest import Opener, crash_copy

from ottla.config.topic import TopicConfig
from ottla.ports import Snapshot, StorageError
from ottla.storage.local import LocalStoreOptions, open_local_store
from ottla.storage.local.folder import layout

CONFIG = TopicConfig()
END = 2**62


def test_a_second_broker_is_kept_out(open_store: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store = open_store(folder)
    with pytest.raises(StorageError, match=f"{folder} is in use"):
        open_store(folder)
    store.close()
    open_store(folder)


def test_a_failed_open_lets_go_of_the_lock(open_store: Opener, tmp_path: Path) -> None:
    open_store(tmp_path).close()
    with pytest.raises(StorageError, match=r"belongs to node\.id 1, not 2"):
        open_store(tmp_path, LocalStoreOptions(node_id=2))
    open_store(tmp_path)


def test_the_folder_of_another_node_or_cluster_is_refused(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    cluster_id = store.cluster_id
    store.close()
    with pytest.raises(StorageError, match=rf"belongs to cluster\.id {cluster_id}, not other"):
        open_store(tmp_path, LocalStoreOptions(cluster_id="other"))
    again = open_store(tmp_path, LocalStoreOptions(cluster_id=cluster_id))
    assert again.cluster_id == cluster_id


@pytest.mark.parametrize("content", ["", "version=0\ncluster.id=x\n", "version=1\n", "garbage"])
def test_damaged_meta_properties_are_refused(
    open_store: Opener, tmp_path: Path, content: str
) -> None:
    (tmp_path / "meta.properties").write_text(content)
    with pytest.raises(StorageError, match=r"meta\.properties"):
        open_store(tmp_path)


def test_epochs_rise_over_stops_and_crashes(open_store: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "0"
    last = 0
    for number in range(1, 7):
        store = open_store(folder)
        expected = store.epoch_of(ref_of())
        log = store.claim(ref_of(), CONFIG)
        assert log.epoch == expected > last
        log = store.claim(ref_of(), CONFIG)
        last = log.epoch
        if number % 2:
            fill(log, 1)
            folder = crash_copy(folder, tmp_path / str(number))
        else:
            store.close()


def test_epochs_are_above_those_that_another_program_left(
    open_store: Opener, tmp_path: Path
) -> None:
    for partition, epoch in ((0, 17), (1, 40)):
        folder = tmp_path / f"orders-{partition}"
        folder.mkdir()
        (folder / "00000000000000000000.log").write_bytes(make_batch(0, epoch=epoch).data)
        (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} 0\n")
    store = open_store(tmp_path)
    assert store.epoch_of(ref_of(partition=0)) == 41
    assert store.claim(ref_of(partition=0), CONFIG).epoch == 41
    folder = tmp_path / "orders-2"
    folder.mkdir()
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n99 0\n")
    (folder / "00000000000000000000.log").write_bytes(make_batch(0, epoch=99).data)
    assert store.claim(ref_of(partition=2), CONFIG).epoch == 100


def test_a_partition_survives_a_stop(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), TopicConfig(index_interval_bytes=300))
    batches = fill(log, 20, records=3)
    log.roll()
    batches += fill(log, 20, records=3)
    log.trim(10)
    log.save_snapshot(Snapshot(60, b"state"))
    before = (log.segments(), log.epochs, list(log.snapshots()), log.size_bytes)
    store.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    again = open_store(tmp_path).claim(ref_of(), CONFIG)
    assert (again.start_offset, again.end_offset) == (10, 120)
    assert (again.segments(), again.epochs, list(again.snapshots()), again.size_bytes) == before
    assert read_all(again) == joined(batches[3:])
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_the_age_of_a_segment_survives_a_stop(open_store: Opener, tmp_path: Path) -> None:
    config = TopicConfig(segment_ms=5000)
    store = open_store(tmp_path)
    append(store.claim(ref_of(), config), make_batch(0, timestamp_ms=1000))
    store.close()
    log = open_store(tmp_path).claim(ref_of(), config)
    assert not begins_segment(log, make_batch(1, timestamp_ms=6000))
    assert begins_segment(log, make_batch(2, timestamp_ms=6001))


def test_a_roll_is_due_when_an_index_is_full(open_store: Opener, tmp_path: Path) -> None:
    config = TopicConfig(index_interval_bytes=0, segment_index_bytes=36)
    log = open_store(tmp_path).claim(ref_of(), config)
    append(log, make_batch(0, timestamp_ms=10))
    for offset in (1, 2):
        assert not begins_segment(log, make_batch(offset, timestamp_ms=10 + offset))
    full = begins_segment(log, make_batch(3, timestamp_ms=10))
    assert full, "the time index keeps one of its three entries free"


def test_jitter_makes_segments_younger(tmp_path: Path, clock: SteppingClock) -> None:
    config = TopicConfig(segment_ms=10_000, segment_jitter_ms=4000)
    store = open_local_store(tmp_path, clock=clock, rng=random.Random(1))
    ages = set()
    for partition in range(20):
        log = store.claim(ref_of(partition=partition), config)
        append(log, make_batch(0, timestamp_ms=0))
        ages.add(
            next(
                age_ms
                for offset, age_ms in enumerate(range(0, 10_020, 10), start=1)
                if begins_segment(log, make_batch(offset, timestamp_ms=age_ms))
            )
        )
    store.close()
    assert len(ages) > 10
    assert all(6000 < age_ms <= 10_010 for age_ms in ages)


def test_compacted_topics_roll_by_their_largest_lag(open_store: Opener, tmp_path: Path) -> None:
    config = TopicConfig(cleanup_policy=("compact",), max_compaction_lag_ms=100)
    log = open_store(tmp_path).claim(ref_of(), config)
    append(log, make_batch(0, timestamp_ms=0))
    assert not begins_segment(log, make_batch(1, timestamp_ms=100))
    assert begins_segment(log, make_batch(2, timestamp_ms=101))


def test_segments_that_were_trimmed_leave_after_the_delay(
    open_store: Opener, tmp_path: Path, clock: SteppingClock
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), TopicConfig(file_delete_delay_ms=1000))
    fill(log, 3)
    log.roll()
    fill(log, 3)
    log.trim(3)
    folder = tmp_path / "orders-0"
    deleted = {
        "00000000000000000000.log.deleted",
        "00000000000000000000.index.deleted",
        "00000000000000000000.timeindex.deleted",
    }
    assert {path.name for path in folder.glob("*0.*")} == deleted
    store.tick(clock.now_ms() + 999)
    assert deleted <= {path.name for path in folder.iterdir()}
    store.tick(clock.now_ms() + 1000)
    store.close()
    assert not deleted & {path.name for path in folder.iterdir()}


def test_a_trim_survives_a_crash(open_store: Opener, tmp_path: Path) -> None:
    log = open_store(tmp_path / "a").claim(ref_of(), CONFIG)
    for _ in range(3):
        fill(log, 4)
        log.roll()
    for start_offset in (2, 4, 7, 8, 12):
        log.trim(start_offset)
        again = open_store(crash_copy(tmp_path / "a", tmp_path / str(start_offset)))
        assert again.claim(ref_of(), CONFIG).start_offset == start_offset


def test_a_deleted_folder_is_renamed_and_then_removed(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    topic = "t" * 249
    fill(store.claim(ref_of(topic), CONFIG), 3)
    store.delete(ref_of(topic))
    assert not (tmp_path / f"{topic}-0").exists()
    store.close()
    assert not list(tmp_path.glob("*-delete"))


def test_what_a_crash_left_of_a_deletion_is_removed(open_store: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"old")
    store = open_store(tmp_path)
    assert store.partitions() == []
    store.close()
    assert not folder.exists()


def test_the_folder_of_another_topic_is_set_aside_not_removed(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    fill(store.claim(ref_of(number=1), CONFIG), 5)
    store.close()
    again = open_store(tmp_path)
    assert again.claim(ref_of(number=2), CONFIG).end_offset == 0
    (stray,) = tmp_path.glob("orders-0.*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size == 500


def test_a_folder_without_topic_id_is_adopted(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    batches = fill(store.claim(ref_of(), CONFIG), 5)
    store.close()
    (tmp_path / "orders-0" / "partition.metadata").write_bytes(b"")
    again = open_store(tmp_path)
    assert read_all(again.claim(ref_of(), CONFIG)) == joined(batches)
    assert again.partitions() == [ref_of()]


def test_a_new_partition_inherits_no_offsets_even_over_a_crash(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "a")
    log = store.claim(ref_of(number=1), CONFIG)
    fill(log, 50)
    log.trim(40)
    store.checkpoint()
    store.delete(ref_of(number=1))
    batches = fill(store.claim(ref_of(number=2), CONFIG), 10)
    again = open_store(crash_copy(tmp_path / "a", tmp_path / "b"))
    log = again.claim(ref_of(number=2), CONFIG)
    assert (log.start_offset, log.end_offset) == (0, 10)
    assert read_all(log) == joined(batches)


def test_names_that_are_no_folder_are_refused(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    for topic in ("../orders", "a/b", "", "a" * 250):
        with pytest.raises(StorageError, match="name of a folder"):
            store.claim(ref_of(topic), CONFIG)
    assert os.listdir(tmp_path) == ["data"]


def test_a_closed_store_refuses_everything(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StorageError, match="closed"):
        store.claim(ref_of(), CONFIG)
    with pytest.raises(StorageError, match="closed"):
        store.delete(ref_of())


def test_large_active_segments_are_read_through_a_mapping_that_grows(
    open_store: Opener, tmp_path: Path
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    batches = []
    for offset in range(60):
        batches.append(make_batch(offset, body=bytes([offset]) * 100_000))
        append(log, batches[-1])
        data = log.read(max(0, offset - 3), 1 << 22, END)
        assert bytes(data) == joined(batches[max(0, offset - 3) :])[: len(data)]
        assert offsets_of(data)[0] == max(0, offset - 3)
    held = [log.read(offset, 0, END) for offset in range(60)]
    assert read_all(log, max_bytes=1 << 22) == joined(batches)
    assert b"".join(held) == joined(batches)


MANY = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
from ottla.config.topic import TopicConfig
from ottla.storage.local import open_local_store
from tests.storage.batches import SteppingClock, fill, joined, read_all, ref_of

clock = SteppingClock()
folder = Path(sys.argv[1])
store = open_local_store(folder, clock=clock)
logs = [store.claim(ref_of(partition=number), TopicConfig()) for number in range(1000)]
batches = {}
for step in range(3):
    for number, log in enumerate(logs):
        batches.setdefault(number, []).extend(fill(log, 1))
        if step == 1 and number % 4 == 0:
            log.roll()
for number, log in enumerate(logs):
    assert read_all(log) == joined(batches[number])
store.close()
store = open_local_store(folder, clock=clock)
for number in range(1000):
    assert read_all(store.claim(ref_of(partition=number), TopicConfig())) == joined(batches[number])
store.close()
print("done")
"""


def test_a_thousand_partitions_fit_into_two_hundred_open_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path / "data")],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", ".", *sys.path])},
    )
    assert done.stdout == "done\n", done.stderr


def test_nothing_is_written_to_a_partition_that_is_deleted(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    fill(store.claim(ref_of(number=1), CONFIG), 500)
    store.delete(ref_of(number=1))
    (retired,) = tmp_path.glob(f"*{layout.DELETED_FOLDER_SUFFIX}")
    assert (retired / "00000000000000000000.log").stat().st_size > 0
    assert [path for path in retired.glob("*index") if path.stat().st_size] == []
