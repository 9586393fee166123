"""Stores of workers in one data folder: where partitions are, moving them at a start, the lock."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.batches import SteppingClock, fill, read_all
from tests.storage.conftest import patch_in
from tests.storage.worker_stores import (
    CONFIG,
    EMPTY,
    OFFSETS_FILES,
    REFS,
    arrange,
    files_of,
    found_in_one,
    found_in_workers,
    move,
    offsets_of_stores,
    owner_among,
    workers_of,
    written_folder,
)

from ottla.ports import StorageError
from ottla.ports.errors import InUseError, NewerFormatError
from ottla.storage.local import open_local_store, open_supervised_folder, open_worker_store
from ottla.storage.local.folder import checkpoint_files
from ottla.storage.local.folder.claim_epoch_file import decode_claim_epoch
from ottla.storage.local.folder.format_version import NEWEST_VERSION


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def times_in(folder: Path) -> dict[Path, int]:
    """When the files and the folders of partitions were changed, but for locks."""
    return {
        path: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.name != ".lock" and path.parent.name != "workers"
    }


def test_partitions_go_to_workers_and_come_back_as_they_were(tmp_path: Path) -> None:
    written = written_folder(tmp_path)
    for count in (2, 3, 5, 2):
        assert found_in_workers(tmp_path, count) == written
        assert names_in(tmp_path / "workers") == set(map(str, range(1, count + 1)))
    assert found_in_one(tmp_path) == written


def test_the_data_folder_has_no_partitions_beside_workers_and_no_workers_beside_partitions(
    tmp_path: Path,
) -> None:
    written_folder(tmp_path)
    before = names_in(tmp_path)
    move(tmp_path, 2)
    kept = {"meta.properties", "format.properties", "catalog.journal", ".lock"}
    assert names_in(tmp_path) == {*kept, "workers", "workers.properties"}
    found_in_one(tmp_path)
    assert names_in(tmp_path) == before


def test_offsets_go_with_their_partitions(tmp_path: Path) -> None:
    written_folder(tmp_path)
    before = offsets_of_stores(tmp_path)
    assert all(before.values())
    move(tmp_path, 3)
    assert offsets_of_stores(tmp_path) == before
    for store in tmp_path.glob("workers/*"):
        for name in OFFSETS_FILES:
            path = store / name
            entries = path.read_text().splitlines()[2:] if path.exists() else []
            folders = {"{}-{}".format(*entry.split()) for entry in entries}
            assert folders <= names_in(store), "no entry of a partition that is elsewhere"


def test_a_start_with_as_many_workers_moves_nothing(tmp_path: Path) -> None:
    written_folder(tmp_path)
    assert move(tmp_path, 3) == len(REFS) + 1
    before = times_in(tmp_path)
    assert move(tmp_path, 3) == 0
    assert times_in(tmp_path) == before


def test_the_epoch_of_a_partition_never_falls(tmp_path: Path) -> None:
    """Clients ignore a leader with a lower epoch, and an empty log has no file with its epoch."""
    written_folder(tmp_path)
    for _ in range(5):
        open_local_store(tmp_path, clock=SteppingClock()).close()
    told = dict.fromkeys((*REFS, EMPTY), -1)
    for count in (1, 3, 2, 1, 2, 4, 1):
        if count == 1:
            store = open_local_store(tmp_path, clock=SteppingClock())
            owners = dict.fromkeys(told, store)
            closing: Any = store.close
        else:
            workers = workers_of(tmp_path, count)
            stores = workers.__enter__()
            owners = {ref: stores[owner_among(count)(ref.topic, ref.partition)] for ref in told}
            closing = lambda: workers.__exit__(None, None, None)  # noqa: B023, E731
        for ref, store in owners.items():
            assert store.epoch_of(ref) > told[ref]
            log = store.claim(ref, CONFIG)
            told[ref] = log.epoch
            log.close()
            told[ref] = store.epoch_of(ref)
            store.raise_epochs([ref])
            told[ref] = store.epoch_of(ref)
        closing()


@pytest.mark.parametrize("is_target_clean", [True, False])
def test_partitions_of_an_unclean_stop_are_checked_where_they_go(
    tmp_path: Path, is_target_clean: bool
) -> None:
    written = written_folder(tmp_path)
    move(tmp_path, 2)
    torn = tmp_path / "workers" / "1"
    for number, is_clean in ((1, False), (2, is_target_clean)):
        if not is_clean:
            (tmp_path / "workers" / str(number) / ".kafka_cleanshutdown").unlink()
    (folder,) = torn.glob("payments-0")
    segment = max(folder.glob("*.log"))
    with segment.open("ab") as file:
        file.write(b"half a batch")
    assert found_in_one(tmp_path) == written
    assert not segment.exists()


def test_clean_stores_stay_clean(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Else a start with another number of workers would check all partitions."""
    written_folder(tmp_path)
    for count in (2, 3, 2):
        with workers_of(tmp_path, count):
            pass
    found_in_one(tmp_path)
    assert "unclean" not in caplog.text


# -- a crash at any point


class Killed(BaseException):
    """The process is killed at this call."""


CHANGES = (
    "rename",
    "replace",
    "unlink",
    "rmdir",
    "mkdir",
    "fsync",
    "open",
    "write",
    "ftruncate",
    "pwrite",
)


def kill_at(folder: Path, patch: pytest.MonkeyPatch, call_number: int) -> list[str]:
    """Lets every change of files fail from one call on, also those that would clean up; returns the calls so far."""
    calls: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            calls.append(f"{name} {target}")
            if len(calls) >= call_number:
                raise Killed
            return real(target, *arguments, **options)

        return call

    for name in CHANGES:
        patch_in(folder, patch, os, name, counted(name))
    return calls


@pytest.fixture
def temporary() -> Iterator[Path]:
    """For thousands of files, in memory where there is such a place: what is lost does not depend on where they are."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("before", "killed", "after"),
    [
        *((1, 2, 1), (2, 3, 2), (3, 1, 2)),
        *(
            pytest.param(*counts, marks=pytest.mark.campaign)
            for counts in ((1, 2, 2), (1, 3, 2), (3, 2, 4), (2, 1, 1))
        ),
    ],
)
def test_a_kill_at_any_point_of_a_start_loses_nothing(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, before: int, killed: int, after: int
) -> None:
    patch_in(temporary, monkeypatch, os, "fsync", lambda descriptor: None)
    source, folder = temporary / "source", temporary / "killed"
    written = written_folder(source)
    arrange(source, before)
    before_kill = files_of(source), offsets_of_stores(source)
    is_over = False
    points = 0
    while not is_over:
        points += 1
        shutil.copytree(source, folder)
        with pytest.MonkeyPatch.context() as patch:
            calls = kill_at(folder, patch, points)
            try:
                arrange(folder, killed)
                is_over = True
            except Killed:
                pass
        assert (files_of(folder), offsets_of_stores(folder)) == before_kill, calls[-1]
        arrange(folder, after)
        assert (files_of(folder), offsets_of_stores(folder)) == before_kill, calls[-1]
        if points % 15 == 0 or is_over:
            found = found_in_one(folder) if after == 1 else found_in_workers(folder, after)
            assert found == written, calls[-1]
        shutil.rmtree(folder)
    assert points > 40


def test_a_source_forgets_its_partitions_when_their_new_place_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss before may bring the old place back, which then needs its offsets."""
    written_folder(tmp_path)
    calls = []

    def noted(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(target: Any, *arguments: Any) -> Any:
            path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else target
            calls.append((name, os.path.relpath(path, tmp_path), *arguments[:1]))
            return real(target, *arguments)

        return call

    for name in ("rename", "replace", "fsync"):
        patch_in(tmp_path, monkeypatch, os, name, noted(name))
    move(tmp_path, 2)
    renames = [at for at, call in enumerate(calls) if call[:2] == ("rename", "orders-0")]
    added = [
        at
        for at, call in enumerate(calls)
        if call[:2] == ("fsync", "workers/1") and at < renames[0]
    ]
    last = max(at for at, call in enumerate(calls) if call[0] == "rename")
    synced = [calls.index(("fsync", folder), last) for folder in ("workers/1", "workers/2", ".")]
    dropped = calls.index(
        (
            "replace",
            "recovery-point-offset-checkpoint.tmp",
            str(tmp_path / "recovery-point-offset-checkpoint"),
        )
    )
    assert added
    assert synced == sorted(synced)
    assert dropped > synced[-1]


# -- places that cannot be


def test_a_partition_with_records_in_two_places_stops_the_start(tmp_path: Path) -> None:
    written_folder(tmp_path)
    move(tmp_path, 2)
    shutil.copytree(
        tmp_path / "workers" / "1" / "payments-0", tmp_path / "workers" / "2" / "payments-0"
    )
    before = times_in(tmp_path)
    for start in (
        lambda: move(tmp_path, 3),
        lambda: move(tmp_path, 2),
        lambda: found_in_one(tmp_path),
    ):
        with pytest.raises(
            StorageError, match=r"a partition is in two places.*payments-0 and .*payments-0"
        ):
            start()
    assert times_in(tmp_path) == before


def test_of_two_places_one_without_records_is_set_aside(tmp_path: Path) -> None:
    written = written_folder(tmp_path)
    move(tmp_path, 2)
    for number in (1, 2):
        for topic in ("payments-0", "orders-1"):
            folder = tmp_path / "workers" / str(number) / topic
            if not folder.exists():
                folder.mkdir()
                (folder / f"{0:020d}.log").touch()
    assert found_in_workers(tmp_path, 2) == written
    stray = [path.name for path in tmp_path.rglob("*-stray")]
    assert sorted(name.partition(".")[0] for name in stray) == ["orders-1", "payments-0"]
    assert found_in_one(tmp_path) == written
    assert {path.name for path in tmp_path.glob("*-stray")} == set(stray)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system")
    folder = Path(tempfile.mkdtemp(dir=shared))
    yield folder
    shutil.rmtree(folder)


def test_several_file_systems_are_refused_in_one_line_and_nothing_moves(
    tmp_path: Path, disk: Path
) -> None:
    written = written_folder(tmp_path)
    offsets = offsets_of_stores(tmp_path)
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "2").symlink_to(disk)
    with pytest.raises(
        StorageError, match="on different file systems: start with as many"
    ) as refused:
        move(tmp_path, 2)
    assert "\n" not in str(refused.value)
    assert offsets_of_stores(tmp_path) == offsets
    assert not list(tmp_path.rglob("*.tmp"))
    assert not list(tmp_path.glob("workers/*/*-0"))
    (tmp_path / "workers" / "2").unlink()
    (tmp_path / "workers.properties").unlink()
    assert found_in_one(tmp_path) == written


def test_workers_on_several_file_systems_start_where_nothing_moves(
    tmp_path: Path, disk: Path
) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "2").symlink_to(disk)
    contents: dict[int, bytes] = {}
    for _ in range(2):
        with workers_of(tmp_path, 2) as stores:
            for number, store in stores.items():
                ref = next(ref for ref in REFS if owner_among(2)(*ref[:2]) == number)
                log = store.claim(ref, CONFIG)
                assert read_all(log) == contents.get(number, b"")
                fill(log, 3)
                contents[number] = read_all(log)


def test_a_store_that_is_not_mounted_is_missed(tmp_path: Path) -> None:
    """Else its partitions would begin anew, without a word."""
    written = written_folder(tmp_path)
    move(tmp_path, 3)
    store = tmp_path / "workers" / "2"
    for is_empty_folder_left in (False, True):
        store.rename(tmp_path / "unmounted")
        if is_empty_folder_left:
            store.mkdir()
        for start in (
            lambda: move(tmp_path, 3),
            lambda: move(tmp_path, 2),
            lambda: found_in_one(tmp_path),
        ):
            with pytest.raises(
                StorageError, match="2 is not the folder that worker 2 had: mount it"
            ):
                start()
        if is_empty_folder_left:
            store.rmdir()
        (tmp_path / "unmounted").rename(store)
    assert found_in_workers(tmp_path, 3) == written


def test_the_store_of_another_cluster_is_refused(tmp_path: Path) -> None:
    written_folder(tmp_path / "one")
    written_folder(tmp_path / "other")
    move(tmp_path / "one", 2)
    move(tmp_path / "other", 3)
    shutil.copytree(tmp_path / "other" / "workers" / "3", tmp_path / "one" / "workers" / "3")
    with pytest.raises(StorageError, match=r"3 belongs to cluster .*: move it out"):
        move(tmp_path / "one", 2)


def test_the_folder_of_a_worker_is_no_data_folder(tmp_path: Path) -> None:
    written_folder(tmp_path)
    move(tmp_path, 2)
    store = tmp_path / "workers" / "1"
    before = names_in(store)
    for opener in (lambda: found_in_one(store), lambda: open_supervised_folder(store)):
        with pytest.raises(StorageError, match=f"the folder of one worker: .*, {tmp_path}$"):
            opener()
    assert names_in(store) == before


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    written_folder(tmp_path)
    move(tmp_path, 2)
    version = tmp_path / "workers" / "2" / "format.properties"
    version.write_text(f"version={NEWEST_VERSION + 1}\n")
    for start in (lambda: move(tmp_path, 2), lambda: found_in_one(tmp_path)):
        with pytest.raises(NewerFormatError):
            start()


# -- what is not a live partition


def test_retired_folders_do_not_stay_in_stores_that_go(tmp_path: Path) -> None:
    written_folder(tmp_path)
    move(tmp_path, 3)
    third = tmp_path / "workers" / "3"
    (third / f"gone-0.{'a' * 32}-delete").mkdir()
    (third / f"old-0.{'b' * 32}-stray").mkdir()
    with workers_of(tmp_path, 2):
        assert names_in(tmp_path / "workers") == {"1", "2"}
    assert [path.name for path in tmp_path.rglob("*-stray")] == [f"old-0.{'b' * 32}-stray"]
    assert not list(tmp_path.rglob("*-delete"))


def test_files_of_others_keep_the_folder_of_a_worker_that_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = written_folder(tmp_path)
    move(tmp_path, 3)
    notes = tmp_path / "workers" / "3" / "notes.txt"
    notes.write_text("mine")
    assert found_in_workers(tmp_path, 2) == written
    assert notes.read_text() == "mine"
    assert "3 has no partitions any more, but is not removed" in caplog.text
    assert found_in_workers(tmp_path, 3) == written
    assert found_in_one(tmp_path) == written


def test_a_counter_of_epochs_that_was_lost_goes_on_from_far_above(tmp_path: Path) -> None:
    written_folder(tmp_path)
    with workers_of(tmp_path, 2) as stores:
        for _ in range(20):
            stores[1].raise_epochs([])
        told = stores[1].epoch_of(EMPTY)
    counter = tmp_path / "workers" / "1" / "claim-epoch-checkpoint"
    counter.unlink()
    with workers_of(tmp_path, 2) as stores:
        assert stores[1].epoch_of(EMPTY) > told


def test_a_damaged_counter_of_epochs_is_named(tmp_path: Path) -> None:
    written_folder(tmp_path)
    move(tmp_path, 2)
    counter = tmp_path / "workers" / "1" / "claim-epoch-checkpoint"
    good = counter.read_bytes()
    for position in range(len(good) - 1):
        for bit in range(7):
            data = bytearray(good)
            data[position] ^= 1 << bit
            try:
                assert decode_claim_epoch(bytes(data)) == decode_claim_epoch(good)
            except ValueError:
                continue
    counter.write_bytes(good.replace(b"\n0\n1\n", b"\n0\n2\n").replace(b" ", b"7 "))
    with pytest.raises(StorageError, match=r"claim-epoch-checkpoint is damaged: .*remove it"):
        move(tmp_path, 2)


@given(data=st.binary(max_size=40) | st.builds(b"0\n1\n%b\n".__mod__, st.binary(max_size=20)))
def test_garbage_is_no_epoch(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_claim_epoch(data)


# -- locks


HOLDER = """
import fcntl, sys
if sys.argv[1] == "kafka":
    file = open(sys.argv[2], "r+")
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
else:
    from ottla.storage.local.folder.identity import hold_inherited_lock
    hold_inherited_lock(sys.argv[2], int(sys.argv[3]))
print("locked", flush=True)
sys.stdin.read()
"""


def holder(*arguments: object, pass_fds: Sequence[int] = ()) -> subprocess.Popen[str]:
    """Another process that locks something until its stdin is closed."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=pass_fds,
        text=True,
    )


def is_locked_by(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "locked\n"


def test_a_data_folder_stays_locked_while_a_worker_lives_whose_supervisor_is_gone(
    tmp_path: Path,
) -> None:
    supervised = open_supervised_folder(tmp_path)
    lock = supervised.lock_descriptor
    with holder("worker", tmp_path, lock, pass_fds=[lock]) as worker:
        assert is_locked_by(worker)
        supervised.close()
        for opener in (
            lambda: open_supervised_folder(tmp_path),
            lambda: open_local_store(tmp_path, clock=SteppingClock()),
        ):
            told = f"in use by another broker: process .*{worker.pid}"
            with pytest.raises(InUseError, match=told):
                opener()
        with holder("kafka", tmp_path / ".lock") as kafka:
            assert not is_locked_by(kafka)
        worker.communicate()
    with holder("kafka", tmp_path / ".lock") as kafka:
        assert is_locked_by(kafka)
        with pytest.raises(InUseError):
            open_supervised_folder(tmp_path)
        kafka.communicate()
    open_supervised_folder(tmp_path).close()


def test_a_worker_does_not_start_without_the_lock_of_its_supervisor(tmp_path: Path) -> None:
    supervised = open_supervised_folder(tmp_path)
    supervised.move_partitions(1, lambda topic, partition: 1)
    foreign = os.open(tmp_path / "meta.properties", os.O_RDONLY)
    reopened = os.open(tmp_path / ".lock", os.O_RDWR)
    for descriptor in (foreign, reopened):
        with pytest.raises(InUseError):
            open_worker_store(
                tmp_path,
                1,
                lock_descriptor=descriptor,
                catalog=supervised.catalog,
                clock=SteppingClock(),
            )
        os.close(descriptor)
    supervised.close()


def test_a_worker_does_not_start_beside_an_earlier_process_of_it(tmp_path: Path) -> None:
    written_folder(tmp_path)
    with workers_of(tmp_path, 2) as stores:
        descriptor = os.open(tmp_path / ".lock", os.O_RDWR)
        os.close(descriptor)
        supervised_lock = next(
            int(name)
            for name in os.listdir("/proc/self/fd")
            if os.path.realpath(f"/proc/self/fd/{name}") == str(tmp_path / ".lock")
        )
        with pytest.raises(InUseError, match="workers/1 is in use"):
            open_worker_store(
                tmp_path,
                1,
                lock_descriptor=os.dup(supervised_lock),
                catalog=stores[1].catalog,
                clock=SteppingClock(),
            )


def test_the_store_of_a_worker_that_was_not_made_is_not_opened(tmp_path: Path) -> None:
    supervised = open_supervised_folder(tmp_path)
    supervised.move_partitions(2, owner_among(2))
    with pytest.raises(StorageError, match="cannot use the data folder"):
        open_worker_store(
            tmp_path,
            3,
            lock_descriptor=os.dup(supervised.lock_descriptor),
            catalog=supervised.catalog,
            clock=SteppingClock(),
        )
    supervised.close()


# -- the catalog


def test_the_catalog_stays_with_the_data_folder(tmp_path: Path) -> None:
    supervised = open_supervised_folder(tmp_path)
    supervised.catalog.commit({"topic": "orders"}, 0)
    supervised.close()
    with workers_of(tmp_path, 2) as stores:
        assert stores[2].catalog.entries() == {"topic": "orders"}
        assert not list(tmp_path.glob("workers/*/catalog.journal"))
    store = open_local_store(tmp_path, clock=SteppingClock())
    assert store.catalog.entries() == {"topic": "orders"}
    store.close()


def test_deletions_are_durable_before_a_supervisor_forgets_the_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_folder(tmp_path)
    with workers_of(tmp_path, 2) as stores:
        ref = REFS[0]
        number = owner_among(2)(ref.topic, ref.partition)
        store = stores[number]
        store.delete(ref)
        synced: list[str] = []
        monkeypatch.setattr(checkpoint_files, "sync_path", synced.append)
        store.sync_deletions()
        monkeypatch.undo()
        assert synced == [str(tmp_path / "workers" / str(number))]
        assert ref not in store.partitions()


def test_a_supervisor_lists_the_partitions_of_all_stores(tmp_path: Path) -> None:
    written = written_folder(tmp_path)
    for count in (1, 3):
        arrange(tmp_path, count)
        supervised = open_supervised_folder(tmp_path)
        assert set(supervised.partitions()) == set(written)
        supervised.close()


def test_a_folder_of_kafkas_goes_to_workers(tmp_path: Path) -> None:
    written = written_folder(tmp_path)
    for name in ("catalog.journal", "format.properties"):
        (tmp_path / name).unlink()
    (tmp_path / "__cluster_metadata-0").mkdir()
    for folder in tmp_path.glob("orders-*"):
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n700 0\n")
    supervised = open_supervised_folder(tmp_path)
    assert set(supervised.partitions()) == set(written)
    supervised.close()
    with workers_of(tmp_path, 2) as stores:
        assert all(store.epoch_of(EMPTY) > 700 for store in stores.values())
        for ref, found in written.items():
            log = stores[owner_among(2)(ref.topic, ref.partition)].claim(ref, CONFIG)
            assert read_all(log) == found.content
    assert (tmp_path / "__cluster_metadata-0").is_dir()
