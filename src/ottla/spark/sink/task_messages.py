"""How encoded records come from a task to the driver's commit.

Usually in the task's message, through Spark's Java: its memory, its collector and `spark.driver.maxResultSize`. Where
driver and task are one Java process (master `local[…]`), both see the same folder, so what is large goes through a file
there, which takes a third off the time of a large micro-batch. Spark removes that folder when it ends.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.errors import OttlaError
from ottla.records.arrow import EncodedBatch
from ottla.spark.sink.progress import Records

# What Spark tells its Python processes: the folders of their Java process, with a name that no other one has.
FOLDERS: Final = "SPARK_LOCAL_DIRS"
# Spark's own limit for results that go without a detour (spark.task.maxDirectResultSize).
MOST_MESSAGE_BYTES: Final = 1024 * 1024
_FOLDER: Final = "ottla"
_NAME: Final = re.compile(r"(.+)-(\d+)-(\d+)\.records")


class HandoverError(OttlaError):
    """What a task left for the driver is not there as it was left."""


def own_folder() -> str | None:
    """The folder of this process's Java; None if Spark did not say."""
    folder = os.environ.get(FOLDERS, "").split(",")[0]
    # A user may have set the same variable, on all machines alike: what Spark makes has a random name.
    return folder if Path(folder).name.startswith("blockmgr-") else None


@dataclass(frozen=True)
class Parcel:
    """What one task has encoded; it travels to the driver."""

    records: tuple[tuple[str, int, bytes], ...] = ()
    path: str | None = None
    """The file that has the record batches, one behind the other, instead of `records`."""
    places: tuple[tuple[str, int, int], ...] = ()
    """Of those in the file: topic, partition and length."""

    def open(self) -> Iterator[Records]:
        """The record batches, in the order in which they were packed; once, the file is gone then."""
        if self.path is None:
            yield from (Records(*each) for each in self.records)
            return
        try:
            file = open(self.path, "rb")  # noqa: SIM115
        except FileNotFoundError as error:
            raise HandoverError(f"What a task has encoded is gone: {self.path}") from error
        with file:
            # Whoever fails now runs the tasks again, and they leave other files.
            self.discard()
            if os.fstat(file.fileno()).st_size != sum(length for _, _, length in self.places):
                raise HandoverError(f"{self.path} is not as long as the task left it")
            # Shown, not read: the producer sends it from there. It stays, because nobody else can open it any more.
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        start = 0
        for topic, partition, length in self.places:
            yield Records(topic, partition, whole[start : start + length])
            start += length

    def discard(self) -> None:
        """Nobody wants it any more."""
        if self.path is not None:
            Path(self.path).unlink(missing_ok=True)


def packed(
    batches: Iterable[EncodedBatch], shared_folder: str | None, name: tuple[str, int, int]
) -> Parcel:
    """The record batches of a task; what is large in a file if the driver's folder is ours too.

    `name` is that of the query, the micro-batch and the task's attempt.
    """
    small: list[EncodedBatch] = []
    size_bytes = 0
    batches = iter(batches)
    for each in batches:
        small.append(each)
        size_bytes += len(each.data)
        if size_bytes > MOST_MESSAGE_BYTES and shared_folder is not None:
            return _in_file(small, batches, shared_folder, name)
    return Parcel(tuple((each.topic, each.partition, each.data) for each in small))


def _in_file(
    first: list[EncodedBatch],
    rest: Iterator[EncodedBatch],
    shared_folder: str,
    name: tuple[str, int, int],
) -> Parcel:
    folder = Path(shared_folder) / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    query, number, attempt = name
    path = folder / f"{query}-{number}-{attempt}.records"
    places: list[tuple[str, int, int]] = []
    try:
        with open(path, "xb", opener=_for_us_only) as file:
            for batches in (first, rest):
                for each in batches:
                    file.write(each.data)
                    places.append((each.topic, each.partition, len(each.data)))
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Parcel(path=str(path), places=tuple(places))


def _for_us_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sweep(query: str, number: int, shared_folder: str | None) -> None:
    """Remove what tasks left that failed, or ran twice: files of micro-batches of a query up to this one."""
    if shared_folder is None:
        return
    folder = Path(shared_folder) / _FOLDER
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name)
        if match is not None and match[1] == query and int(match[2]) <= number:
            path.unlink(missing_ok=True)
