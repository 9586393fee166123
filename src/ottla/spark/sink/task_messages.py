"""How encoded records get from a task to the driver's commit.

By default in the task's message, through Spark's Java: its memory, its garbage collector, `spark.driver.maxResultSize`.
Where driver and tasks are one Java process (master `local[…]`), both see its folder. Large output then goes through a
file there, which takes a third off the time of a large micro-batch. Spark removes the folder when it ends.
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
from ottla.spark.sink.commit_session import EncodedRecords

# Spark's own limit for results that are sent directly (spark.task.maxDirectResultSize).
MAX_MESSAGE_BYTES: Final = 1024 * 1024
_FOLDER: Final = "ottla"
_NAME: Final = re.compile(r"(.+)-(\d+)-(\d+)\.records")


class HandoverError(OttlaError):
    """The file that a task left for the driver is missing or damaged."""


@dataclass(frozen=True)
class Parcel:
    """The encoded rows of one task, on their way to the driver."""

    records: tuple[tuple[str, int, bytes], ...] = ()
    path: str | None = None
    """The file that holds the record batches, one after the other, instead of `records`."""
    places: tuple[tuple[str, int, int], ...] = ()
    """Topic, partition and length of each record batch in the file."""

    def open(self) -> Iterator[EncodedRecords]:
        """The record batches in the order in which they were packed. Once only: the file is removed."""
        if self.path is None:
            yield from (EncodedRecords(*each) for each in self.records)
            return
        try:
            file = open(self.path, "rb")  # noqa: SIM115
        except FileNotFoundError as error:
            raise HandoverError(f"The file with a task's records is gone: {self.path}") from error
        with file:
            # After a failure Spark runs the tasks again, and they write other files.
            self.discard()
            if os.fstat(file.fileno()).st_size != sum(length for _, _, length in self.places):
                raise HandoverError(f"{self.path} does not have the length that the task wrote")
            # Mapped, not read: the producer sends from there. The mapping outlives the unlinked file.
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        start = 0
        for topic, partition, length in self.places:
            yield EncodedRecords(topic, partition, content[start : start + length])
            start += length

    def discard(self) -> None:
        """Remove the file."""
        if self.path is not None:
            Path(self.path).unlink(missing_ok=True)


NOTHING: Final = Parcel()


def pack_batches(
    batches: Iterable[EncodedBatch], shared_folder: str | None, name: tuple[str, int, int]
) -> Parcel:
    """The record batches of a task; large ones in a file if there is a folder that task and driver share.

    `name` has the query, the micro-batch and the task's attempt.
    """
    small: list[EncodedBatch] = []
    size_bytes = 0
    batches = iter(batches)
    for each in batches:
        small.append(each)
        size_bytes += len(each.data)
        if size_bytes > MAX_MESSAGE_BYTES and shared_folder is not None:
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
    query, batch, attempt = name
    path = folder / f"{query}-{batch}-{attempt}.records"
    places: list[tuple[str, int, int]] = []
    try:
        with open(path, "xb", opener=_readable_by_owner) as file:
            for batches in (first, rest):
                for each in batches:
                    file.write(each.data)
                    places.append((each.topic, each.partition, len(each.data)))
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Parcel(path=str(path), places=tuple(places))


def _readable_by_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def remove_leftovers(query: str, batch: int, shared_folder: str | None) -> None:
    """Remove the files of tasks that failed or ran twice: those of a query's micro-batches up to this one."""
    if shared_folder is None:
        return
    folder = Path(shared_folder) / _FOLDER
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name)
        if match is not None and match[1] == query and int(match[2]) <= batch:
            path.unlink(missing_ok=True)
