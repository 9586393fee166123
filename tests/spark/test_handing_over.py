"""What tasks have encoded reaches the driver as it was, and leaves nothing behind."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.records.arrow import EncodedBatch
from ottla.spark.driver_folder import FOLDERS, driver_folder
from ottla.spark.sink import task_messages as handing_over
from ottla.spark.sink.commit_session import EncodedRecords
from ottla.spark.sink.task_messages import HandoverError, Parcel, pack_batches, remove_leftovers

NAME = ("query", 3, 7)


@pytest.fixture(autouse=True)
def small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing_over, "MAX_MESSAGE_BYTES", 20)


def batches(*sizes: int) -> list[EncodedBatch]:
    return [EncodedBatch("t", at, 1, bytes([at]) * size) for at, size in enumerate(sizes)]


def wanted(*sizes: int) -> list[EncodedRecords]:
    return [EncodedRecords("t", at, bytes([at]) * size) for at, size in enumerate(sizes)]


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.rglob("*") if each.is_file())


def carried(parcel: Parcel) -> Parcel:
    """As it is after Spark has carried it."""
    return pickle.loads(pickle.dumps(parcel))  # type: ignore[no-any-return]


@pytest.mark.parametrize("sizes", [(), (20,), (10, 10), (21,), (5, 20, 0, 30)])
@pytest.mark.parametrize("is_shared", [True, False])
def test_what_is_packed_is_what_is_opened(
    tmp_path: Path, sizes: tuple[int, ...], is_shared: bool
) -> None:
    parcel = carried(pack_batches(batches(*sizes), str(tmp_path) if is_shared else None, NAME))
    assert (parcel.path is not None) is (is_shared and sum(sizes) > 20)
    assert list(parcel.open()) == wanted(*sizes)
    assert files(tmp_path) == []


def test_a_file_is_for_its_owner_only(tmp_path: Path) -> None:
    parcel = pack_batches(batches(30), str(tmp_path), NAME)
    assert parcel.path is not None
    assert stat.S_IMODE(os.stat(parcel.path).st_mode) == 0o600


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def failing() -> Iterator[EncodedBatch]:
        yield from batches(30)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        pack_batches(failing(), str(tmp_path), NAME)
    assert files(tmp_path) == []


@pytest.mark.parametrize("left", [None, 0, 29, 31])
def test_a_file_that_is_not_as_it_was_left_is_an_error(tmp_path: Path, left: int | None) -> None:
    parcel = pack_batches(batches(30), str(tmp_path), NAME)
    assert parcel.path is not None
    if left is None:
        os.unlink(parcel.path)
    else:
        os.truncate(parcel.path, left)
    with pytest.raises(HandoverError, match="query-3-7"):
        list(parcel.open())


def test_what_nobody_wants_is_discarded(tmp_path: Path) -> None:
    parcel = pack_batches(batches(30), str(tmp_path), NAME)
    parcel.discard()
    parcel.discard()
    Parcel().discard()
    assert files(tmp_path) == []


def test_files_of_earlier_tasks_of_a_query_are_swept_up(tmp_path: Path) -> None:
    for name in (("query", 2, 5), ("query", 3, 7), ("query", 4, 9), ("other-query", 2, 6)):
        pack_batches(batches(30), str(tmp_path), name)
    remove_leftovers("query", 3, str(tmp_path))
    assert files(tmp_path) == ["other-query-2-6.records", "query-4-9.records"]
    remove_leftovers("query", 3, None)
    remove_leftovers("query", 3, str(tmp_path / "none"))


def test_the_folder_is_the_first_that_spark_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDERS, raising=False)
    assert driver_folder() is None
    monkeypatch.setenv(FOLDERS, "/a/blockmgr-1,/b/blockmgr-2")
    assert driver_folder() == "/a/blockmgr-1"
    monkeypatch.setenv(FOLDERS, "/scratch")
    assert driver_folder() is None
