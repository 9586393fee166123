"""Reads what Spark has planned for a micro-batch from the query's checkpoint.

Spark writes `offsets/N` before micro-batch N runs: a version, a line of metadata, and one line for each source with the
position at which the micro-batch ends. The sink commits the positions of our own sources with its transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.spark.sink.checkpoint_files import OFF_OPTION, CheckpointError, Files, open_files
from ottla.spark.sink.commit_plan import KafkaSourcePlan, PlannedOffsets
from ottla.spark.sink.process_state import SINK_PROCESS
from ottla.spark.source.stream_offsets import OffsetFormatError, SourceOffset, source_range

_VERSION: Final = "v1"
_STATE: Final = "state"


class Checkpoint:
    """The checkpoint of one query."""

    def __init__(self, location: str, files: Files) -> None:
        self.location = location
        self._files = files

    def query(self) -> str | None:
        """The id of the query; None if it has not started."""
        return _query_id(self._files, "metadata")

    def newest(self) -> int | None:
        """The micro-batch that was planned last; None if there is none."""
        numbers = [int(name) for name in self._files.names("offsets") if name.isdecimal()]
        return max(numbers, default=None)

    def is_planned(self, batch: int) -> bool:
        """Whether `offsets/N` exists, also where the store's listings lag behind."""
        return self._files.read(f"offsets/{batch}") is not None

    def keeps_state(self) -> bool:
        """Whether tasks have written state of aggregations and the like."""
        return _STATE in self._files.folders()

    def digest(self, batch: int) -> str:
        """A checksum that distinguishes the plan of a micro-batch from others with the same number."""
        return _digest(self._read(batch))

    def planned(self, batch: int) -> PlannedOffsets:
        """The plan of a micro-batch."""
        content = self._read(batch)
        end = self._parse(content)
        before = self._files.read(f"offsets/{batch - 1}") if batch else None
        start = self._parse(before) if before is not None else _NO_POSITIONS
        starts = {**start.kafka, **start.ours}
        sources = [source_range(starts.get(index), at) for index, at in end.ours.items()]
        kafka_source = None
        if end.kafka or end.ours.keys() & start.kafka.keys():
            ranges = [source_range(starts.get(index), at) for index, at in end.kafka.items()]
            kafka_source = KafkaSourcePlan(ranges, [each.group for each in sources], end.planned_ms)
        return PlannedOffsets(batch, _digest(content), sources, kafka_source)

    def _read(self, batch: int) -> bytes:
        content = self._files.read(f"offsets/{batch}")
        if content is None:
            raise CheckpointError(
                f"The checkpoint {self.location} has no offsets/{batch}, and the micro-batch is running: the sink "
                "sees another place than Spark does. The location has to mean the same in the driver's Python."
            )
        return content

    def _parse(self, content: bytes) -> _Positions:
        version, metadata, *lines = content.decode().splitlines()
        if version.strip() != _VERSION:
            raise CheckpointError(
                f"The checkpoint {self.location} is of format {version!r}, which this release does not know: "
                f"set spark.sql.streaming.offsetLog.formatVersion=1 for a new one, or {OFF_OPTION}=false."
            )
        ours: dict[int, SourceOffset] = {}
        kafka: dict[int, SourceOffset] = {}
        for index, line in enumerate(lines):
            position = _position(line)
            if position is not None:
                (ours if _is_ours(line) else kafka)[index] = position
        return _Positions(ours, kafka, _planned_ms(metadata))


class _Positions(NamedTuple):
    """The positions of our sources and of Spark's own Kafka source in `offsets/N`, by their index among all."""

    ours: Mapping[int, SourceOffset]
    kafka: Mapping[int, SourceOffset]
    planned_ms: int | None


_NO_POSITIONS: Final = _Positions({}, {}, None)


def _planned_ms(metadata: str) -> int | None:
    """When Spark planned the micro-batch."""
    try:
        at = json.loads(metadata)["batchTimestampMs"]
    except (ValueError, KeyError, TypeError):
        return None
    return at if type(at) is int else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _position(line: str) -> SourceOffset | None:
    """A position of our source or of Spark's own Kafka source; None for other sources."""
    try:
        found = SourceOffset.from_json(json.loads(line))
    except (ValueError, OffsetFormatError):
        return None
    return found if found.offsets or _is_ours(line) else None


def _is_ours(line: str) -> bool:
    """Whether a position is that of our source: Spark's own Kafka source writes topics only."""
    found = json.loads(line)
    return isinstance(found.get("version"), int) and "topics" in found


def _query_id(files: Files, name: str) -> str | None:
    found = files.read(name)
    if found is None:
        return None
    try:
        query = json.loads(found)["id"]
    except (ValueError, KeyError, TypeError):
        return None
    return query if isinstance(query, str) else None


def unknown_location() -> CheckpointError:
    """Neither the sink's options nor the session say where the checkpoint is."""
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
    """The checkpoint of a query: at its own location, or below the session's root for all queries.

    Below a root, Spark names the folder after the query, or at random.
    """
    if location is not None:
        return Checkpoint(location, open_files(location, storage))
    if root is None:
        raise unknown_location()
    known = SINK_PROCESS.checkpoint_locations
    key = (query, root, query_name)
    if key in known:
        return Checkpoint(known[key], open_files(known[key], storage))
    below = open_files(root, storage)
    names = [query_name] if query_name else below.folders()
    for name in names:
        if _query_id(below, f"{name}/metadata") == query:
            location = known[key] = f"{root.rstrip('/')}/{name}"
            return Checkpoint(location, open_files(location, storage))
    raise CheckpointError(
        f"No checkpoint below {root} is that of query {query}: give the sink the option checkpointLocation, or "
        f"{OFF_OPTION}=false."
    )
