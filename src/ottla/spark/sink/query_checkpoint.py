"""What Spark has planned for a micro-batch, found in the query's checkpoint.

`offsets/N` is written before micro-batch N runs and never again: a version, a line about the batch, and a line for each
source with the position at which the batch ends. The sink commits those of our own sources with its transaction.

A second instance on the same checkpoint may write that file again, where the store lets it. So the plan is read when
the tasks are planned, and once more before the commit: whoever finds another one then stops.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from ottla.errors import ConfigError, OttlaError
from ottla.spark.sink.progress import SourceRange, TakenOverError
from ottla.spark.source.stream_offsets import OffsetFormatError, SourceOffset, begin_of

OFF_OPTION: Final = "commitSourceOffsets"
STORAGE_OPTION: Final = "checkpointStorageOptions"
_VERSION: Final = "v1"
# A letter alone is a disk of Windows.
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/]*))?(.*)", re.DOTALL)
_S3: Final = ("s3", "s3a", "s3n")


class CheckpointError(OttlaError):
    """The checkpoint cannot be read, or is not as Spark writes it."""


class StoreError(CheckpointError):
    """The store that has the checkpoint did not answer, and may do so later."""


class FromKafka(NamedTuple):
    """What a plan has of Spark's own Kafka source, which a source of ours has replaced, or may have."""

    ranges: Sequence[SourceRange]
    """What that source has planned of this micro-batch; nothing if it has planned the one before only."""
    groups: Sequence[str | None]
    """Those of our own sources, when they planned it."""
    planned_ms: int | None


class Plan(NamedTuple):
    """What is known of a micro-batch besides its records."""

    digest: str | None
    sources: Sequence[SourceRange]
    keeps_state: bool = False
    """Whether it is a query's first, and the query keeps state in its checkpoint: aggregations, joins of streams."""
    from_kafka: FromKafka | None = None


class Pin(NamedTuple):
    """The newest plan in a checkpoint, when the tasks of a micro-batch were planned; it travels with them."""

    number: int
    plan: Plan


_STATE: Final = "state"
NO_PLAN: Final = Plan(None, ())


class Files(Protocol):
    """The files of a checkpoint, wherever they are."""

    def read(self, name: str) -> bytes | None:
        """A file; None if there is none of that name."""
        ...

    def names(self, folder: str) -> list[str]:
        """What is in a folder, by name; nothing if there is no such folder."""
        ...

    def folders(self) -> list[str]:
        """The names of the folders at the top."""
        ...


class LocalFiles:
    """On this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._folder / folder))
        except FileNotFoundError:
            return []

    def folders(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(each.name for each in self._folder.iterdir() if each.is_dir())


class ArrowFiles:
    """In a store that pyarrow opens: S3 and its like, HDFS, Google's."""

    def __init__(self, filesystem: Any, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")

    def read(self, name: str) -> bytes | None:
        try:
            with self._filesystem.open_input_stream(f"{self._folder}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _trouble(f"{self._folder}/{name}", error) from error

    def names(self, folder: str) -> list[str]:
        return sorted(each.base_name for each in self._listed(f"{self._folder}/{folder}"))

    def _listed(self, folder: str) -> list[Any]:
        from pyarrow import fs

        selector = fs.FileSelector(folder, allow_not_found=True)
        try:
            return list(self._filesystem.get_file_info(selector))
        except OSError as error:
            raise _trouble(folder, error) from error

    def folders(self) -> list[str]:
        from pyarrow import fs

        found = self._listed(self._folder)
        return sorted(each.base_name for each in found if each.type == fs.FileType.Directory)


class FsspecFiles:
    """In a store that fsspec opens."""

    def __init__(self, filesystem: Any, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")

    def read(self, name: str) -> bytes | None:
        # What a listing said before may be older than the file.
        self._filesystem.invalidate_cache()
        try:
            return bytes(self._filesystem.cat_file(f"{self._folder}/{name}"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _trouble(f"{self._folder}/{name}", error) from error

    def names(self, folder: str) -> list[str]:
        return sorted(_last_part(each["name"]) for each in self._listed(f"{self._folder}/{folder}"))

    def _listed(self, folder: str) -> list[Any]:
        self._filesystem.invalidate_cache()
        try:
            return list(self._filesystem.ls(folder, detail=True))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _trouble(folder, error) from error

    def folders(self) -> list[str]:
        found = self._listed(self._folder)
        return sorted(_last_part(each["name"]) for each in found if each["type"] == "directory")


def _last_part(name: str) -> str:
    return name.rstrip("/").rsplit("/", 1)[-1]


# What does not pass by itself, as pyarrow writes it.
_REFUSED: Final = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|UNRECOGNIZED_CLIENT|Forbidden"
)


def _trouble(name: str, error: OSError) -> CheckpointError:
    text = f"The checkpoint's file {name} cannot be read: {' '.join(str(error).split())}"
    if isinstance(error, PermissionError) or _REFUSED.search(text):
        return CheckpointError(f"{text}. {STORAGE_OPTION} or the environment has to give the keys.")
    return StoreError(text)


def open_files(location: str, storage: Mapping[str, Any]) -> Files:
    """The files below a location: a path, file: or a URL of a store that pyarrow or fsspec opens.

    `storage` goes to the store: to pyarrow's S3FileSystem (endpoint_override, access_key, ...) or to fsspec's.
    """
    # As Hadoop reads it: nothing is quoted, so that %20, ? and # are parts of names.
    match = _URL.fullmatch(location)
    if match is None:
        return LocalFiles(Path(location))
    scheme, place, path = match[1].lower(), match[2] or "", match[3]
    if scheme == "file":
        return LocalFiles(Path(path))
    folder = f"{place}{path}"
    try:
        if scheme in _S3:
            from pyarrow import fs

            return ArrowFiles(fs.S3FileSystem(**storage), folder)
        if not storage:
            from pyarrow import fs

            try:
                return ArrowFiles(*fs.FileSystem.from_uri(f"{scheme}://{place}{quote(path)}"))
            except (ValueError, NotImplementedError, ImportError):
                pass
        import fsspec

        return FsspecFiles(fsspec.filesystem(scheme, **storage), folder)
    except Exception as error:
        raise CheckpointError(
            f"The checkpoint {location} cannot be opened from Python: {error}. Install what opens it (pyarrow does "
            f"s3, hdfs and gs; fsspec others), give {STORAGE_OPTION} what it needs, or set {OFF_OPTION}=false: then "
            "the source's offsets are not committed with the output."
        ) from error


def read_storage_options(text: str | None) -> dict[str, Any]:
    """The value of the option, an object in JSON."""
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        # Neither its text nor the cause, which has it too: there may be keys in it.
        raise _bad_storage_options("it is no JSON") from None
    if not isinstance(found, dict):
        raise _bad_storage_options("it is no object")
    return found


def _bad_storage_options(why: str) -> ConfigError:
    example = '{"endpoint_override":"127.0.0.1:9000","scheme":"http"}'
    return ConfigError(f"{STORAGE_OPTION} is not valid: it must be like {example} ({why})")


class Checkpoint:
    """The checkpoint of one query."""

    def __init__(self, location: str, files: Files) -> None:
        self.location = location
        self._files = files

    def query(self) -> str | None:
        """The id of the query; None if it has not begun."""
        return _query_in(self._files, "metadata")

    def newest(self) -> int | None:
        """The micro-batch that was planned last; None if there is none."""
        numbers = [int(name) for name in self._files.names("offsets") if name.isdecimal()]
        return max(numbers, default=None)

    def is_planned(self, number: int) -> bool:
        """Whether a micro-batch was planned: its file is there, also where a list of files is behind."""
        return self._files.read(f"offsets/{number}") is not None

    def keeps_state(self) -> bool:
        """Whether tasks have written state of aggregations and the like."""
        return _STATE in self._files.folders()

    def digest(self, number: int) -> str:
        """What tells the plan of a micro-batch from others of the same number."""
        return _digest(self._planned(number))

    def is_anothers(self, number: int) -> TakenOverError:
        """The plan in the checkpoint is not the one that ran."""
        return TakenOverError(
            f"The checkpoint {self.location} has another plan than micro-batch {number}, which ran: another instance "
            "uses it too and has planned since. Nothing of this one is written; run one instance of a pipeline."
        )

    def _planned(self, number: int) -> bytes:
        planned = self._files.read(f"offsets/{number}")
        if planned is None:
            raise CheckpointError(
                f"The checkpoint {self.location} has no offsets/{number}, and the micro-batch is running: the sink "
                "sees another place than Spark does. The location has to mean the same on the driver's Python."
            )
        return planned

    def plan(self, number: int) -> Plan:
        """What was planned for a micro-batch."""
        planned = self._planned(number)
        end = self._positions(planned)
        before = self._files.read(f"offsets/{number - 1}") if number else None
        start = self._positions(before) if before is not None else _NOTHING_PLANNED
        starts = {**start.kafkas, **start.ours}
        sources = [range_of(starts.get(place), at) for place, at in end.ours.items()]
        from_kafka = None
        if end.kafkas or end.ours.keys() & start.kafkas.keys():
            ranges = [range_of(starts.get(place), at) for place, at in end.kafkas.items()]
            from_kafka = FromKafka(ranges, [each.group for each in sources], end.planned_ms)
        return Plan(_digest(planned), sources, from_kafka=from_kafka)

    def _positions(self, planned: bytes) -> _Planned:
        version, metadata, *lines = planned.decode().splitlines()
        if version.strip() != _VERSION:
            raise CheckpointError(
                f"The checkpoint {self.location} is of format {version!r}, which this release does not know: "
                f"set spark.sql.streaming.offsetLog.formatVersion=1 for a new one, or {OFF_OPTION}=false."
            )
        ours: dict[int, SourceOffset] = {}
        kafkas: dict[int, SourceOffset] = {}
        for place, line in enumerate(lines):
            position = _position_in(line)
            if position is not None:
                (ours if _is_ours(line) else kafkas)[place] = position
        return _Planned(ours, kafkas, _planned_ms(metadata))


class _Planned(NamedTuple):
    """The positions in a plan that are ours and those of Spark's own Kafka source, by their place among all."""

    ours: Mapping[int, SourceOffset]
    kafkas: Mapping[int, SourceOffset]
    planned_ms: int | None


_NOTHING_PLANNED: Final = _Planned({}, {}, None)


def _planned_ms(metadata: str) -> int | None:
    """When Spark planned it."""
    try:
        at = json.loads(metadata)["batchTimestampMs"]
    except (ValueError, KeyError, TypeError):
        return None
    return at if type(at) is int else None


def _digest(planned: bytes) -> str:
    return hashlib.sha256(planned).hexdigest()[:32]


def _position_in(line: str) -> SourceOffset | None:
    """A position of our source or of Spark's own Kafka source; None for what other sources write."""
    try:
        found = SourceOffset.from_json(json.loads(line))
    except (ValueError, OffsetFormatError):
        return None
    return found if found.offsets or _is_ours(line) else None


def _is_ours(line: str) -> bool:
    """Whether a position is that of our source: Spark's own Kafka source writes topics only."""
    found = json.loads(line)
    return isinstance(found.get("version"), int) and "topics" in found


def range_of(before: SourceOffset | None, end: SourceOffset) -> SourceRange:
    """What is between two positions; where partitions begin as far as it is known."""
    start = {**end.begin, **end.new}
    if before is not None:
        start = {each: begin_of(before, end, each) for each in end.offsets}
    return SourceRange(end.cluster, start, end.offsets, end.group)


def _query_in(files: Files, name: str) -> str | None:
    found = files.read(name)
    if found is None:
        return None
    try:
        query = json.loads(found)["id"]
    except (ValueError, KeyError, TypeError):
        return None
    return query if isinstance(query, str) else None


def unknown_place() -> CheckpointError:
    """Neither the sink nor the session says where the checkpoint is."""
    return CheckpointError(
        "The checkpoint's place is not known: give the sink the option checkpointLocation, or set "
        f"spark.sql.streaming.checkpointLocation, or {OFF_OPTION}=false."
    )


def find_checkpoint(
    query: str,
    location: str | None,
    root: str | None,
    query_name: str | None,
    storage: Mapping[str, Any],
) -> Checkpoint:
    """The checkpoint of a query: where its options say, or below what the session has for all queries.

    Below a root, Spark calls the folder as the query, or by a random name.
    """
    if location is not None:
        return Checkpoint(location, open_files(location, storage))
    if root is None:
        raise unknown_place()
    key = (query, root, query_name)
    if key in _found:
        return Checkpoint(_found[key], open_files(_found[key], storage))
    below = open_files(root, storage)
    names = [query_name] if query_name else below.folders()
    for name in names:
        if _query_in(below, f"{name}/metadata") == query:
            location = _found[key] = f"{root.rstrip('/')}/{name}"
            return Checkpoint(location, open_files(location, storage))
    raise CheckpointError(
        f"No checkpoint below {root} is that of query {query}: give the sink the option checkpointLocation, or "
        f"{OFF_OPTION}=false."
    )


# Where this process found the checkpoints of queries: an id is in one place only.
_found: dict[tuple[str, str, str | None], str] = {}


def check_unchanged(checkpoint: Checkpoint, pin: Pin, number: int) -> None:
    """Stop if the checkpoint has another plan than the tasks of this micro-batch had.

    To commit then would be to commit these records under the plan, or the number, of others.
    """
    if pin.number == number and checkpoint.digest(number) == pin.plan.digest:
        return
    raise checkpoint.is_anothers(number)
