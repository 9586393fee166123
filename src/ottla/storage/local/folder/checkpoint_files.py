"""Small text files that are replaced as a whole: checkpoints, partition.metadata and the like."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.events import EventLog
from ottla.ports import EpochStart
from ottla.records.crc import crc32c
from ottla.storage.local.folder import layout

logger = EventLog(__name__)

_VERSION: Final = 0


def sync_path(path: str) -> None:
    """Makes a file or a folder's list of names durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Writes everything, however many calls it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def replace_file(path: str, data: bytes, *, mode: int = 0o644) -> None:
    """Replaces a file in one step: a crash leaves the old or the new one, whole and on disk."""
    temporary = path + layout.TEMPORARY_SUFFIX
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_file(path: str, data: bytes) -> None:
    """Replaces a file in one step without making it durable."""
    temporary = path + layout.TEMPORARY_SUFFIX
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read_small_file(path: str) -> bytes | None:
    """A file's content; None if there is no such file."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except FileNotFoundError:
        return None


def encode_checkpoint(entries: Sequence[str]) -> bytes:
    """A checkpoint file: a version line, a count line, one line per entry."""
    return "".join(f"{line}\n" for line in (_VERSION, len(entries), *entries)).encode()


def decode_checkpoint(data: bytes) -> list[str]:
    """The entry lines of a checkpoint file; ValueError if it is damaged."""
    if not data:
        return []  # Kafka makes the file empty and fills it later
    lines = data.decode("utf-8").splitlines()
    if int(lines[0]) != _VERSION:
        raise ValueError(f"version {lines[0]} instead of {_VERSION}")
    if len(lines) == 1:
        raise ValueError("it ends behind its first line")
    if len(lines) - 2 != int(lines[1]):
        raise ValueError(f"{len(lines) - 2} entries instead of {lines[1]}")
    return lines[2:]


def write_offsets(path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Writes a checkpoint of one offset per partition, durably."""
    lines = [
        f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())
    ]
    replace_file(path, encode_checkpoint(lines))
    sync_path(os.path.dirname(path))


def read_offsets(path: str) -> dict[tuple[str, int], int]:
    """A checkpoint of offsets; a missing or damaged one is empty."""
    data = read_small_file(path)
    if data is None:
        return {}
    offsets = {}
    try:
        for line in decode_checkpoint(data):
            topic, partition, offset = line.split()
            if int(offset) < 0:
                raise ValueError(f"offset {offset} is negative")
            offsets[topic, int(partition)] = int(offset)
    except ValueError as error:
        _log_damage(path, error)
        return {}
    return offsets


def encode_epochs(epochs: Iterable[EpochStart]) -> bytes:
    """The content of a leader-epoch-checkpoint file."""
    return encode_checkpoint([f"{entry.epoch} {entry.start_offset}" for entry in epochs])


def read_epochs(path: str) -> list[EpochStart]:
    """The entries of a leader-epoch-checkpoint file; a missing or damaged one has none."""
    data = read_small_file(path)
    if data is None:
        return []
    try:
        return decode_epochs(data)
    except ValueError as error:
        _log_damage(path, error)
        return []


def decode_epochs(data: bytes) -> list[EpochStart]:
    """The entries in the content of a leader-epoch-checkpoint file; ValueError if it is damaged."""
    epochs: list[EpochStart] = []
    for line in decode_checkpoint(data):
        epoch, start_offset = (int(word) for word in line.split())
        if epochs and (epoch <= epochs[-1].epoch or start_offset < epochs[-1].start_offset):
            raise ValueError(f"epoch {epoch} at {start_offset} is out of order")
        epochs.append(EpochStart(epoch, start_offset))
    return epochs


class Checksum(NamedTuple):
    """The size and the checksum of a file when they were saved; the file may have grown since."""

    size_bytes: int
    crc: int

    def fits(self, data: bytes) -> bool:
        """Whether the content of a file begins with these bytes."""
        return len(data) >= self.size_bytes and crc32c(data[: self.size_bytes]) == self.crc


def write_checksums(path: str, checksums: Mapping[int, Checksum]) -> None:
    """Writes a checkpoint of one checksum per offset, without making it durable."""
    lines = [f"{offset} {size} {crc}" for offset, (size, crc) in sorted(checksums.items())]
    write_file(path, encode_checkpoint(lines))


def read_checksums(path: str) -> dict[int, Checksum]:
    """A checkpoint of checksums; a missing or damaged one has none."""
    data = read_small_file(path)
    if data is None:
        return {}
    try:
        return decode_checksums(data)
    except ValueError as error:
        _log_damage(path, error)
        return {}


def decode_checksums(data: bytes) -> dict[int, Checksum]:
    """The checksums of a checkpoint; ValueError if it is damaged."""
    numbers = [[int(word) for word in line.split()] for line in decode_checkpoint(data)]
    return {offset: Checksum(size_bytes, crc) for offset, size_bytes, crc in numbers}


def encode_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """The content of a partition.metadata file."""
    return f"version: {_VERSION}\ntopic_id: {layout.encode_id(topic_id)}".encode()


def read_topic_id(folder: str) -> uuid.UUID | None:
    """The topic id in the metadata of a partition's folder; None if there is none."""
    path = os.path.join(folder, layout.PARTITION_METADATA_FILE)
    data = read_small_file(path)
    if data is None:
        return None
    topic_id = decode_topic_id(data)
    if topic_id is None:
        _log_damage(path, ValueError("it names no topic id, or is of another version"))
    return topic_id


def decode_topic_id(data: bytes) -> uuid.UUID | None:
    """The topic id in the content of a partition.metadata file; None if it is damaged."""
    fields = dict(
        line.split(": ", 1) for line in data.decode("utf-8", "replace").splitlines() if ": " in line
    )
    if fields.get("version", "").strip() != str(_VERSION):
        return None
    return layout.decode_id(fields.get("topic_id", "").strip())


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """A Java properties file; our values need no escaping."""
    return "".join(f"{key}={value}\n" for key, value in properties.items()).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    """Reads a Java properties file of plain `key=value` lines."""
    properties = {}
    for line in data.decode("utf-8", "replace").splitlines():
        text = line.strip()
        if text and text[0] not in "#!":
            key, _, value = text.partition("=")
            properties[key.strip()] = value.strip()
    return properties


def _log_damage(path: str, error: ValueError) -> None:
    text = "%(path)s is damaged (%(reason)s): going on as if there were none"
    logger.warning("checkpoint_damaged", text, path=path, reason=str(error))
