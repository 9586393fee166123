"""The folder that all Python processes of one Spark driver share, and the registry of planned reads in it.

Spark runs the source, the sink's planner, local tasks and the sink's commit in different Python processes. They have
two channels in common: the query's checkpoint, which a second instance may overwrite, and the block manager's folder of
their Java process, which has a random name and which Spark removes when it ends.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.model import TopicPartition
from ottla.spark.source.stream_offsets import SourceRange

log = logging.getLogger("ottla.spark")

# The variable in which Spark passes the folders of the Java process to its Python processes.
FOLDERS: Final = "SPARK_LOCAL_DIRS"
# Entries per source. The sink asks for those of the micro-batch that runs.
MAX_ENTRIES: Final = 8
_REGISTRY: Final = "ottla-plans"


def driver_folder() -> str | None:
    """The folder of this process's Java process; None outside of Spark's Python processes."""
    folder = os.environ.get(FOLDERS, "").split(",")[0]
    # Users set the same variable to a folder that many processes share. Spark's own folders begin with blockmgr-.
    return folder if Path(folder).name.startswith("blockmgr-") else None


class SourceRegistry:
    """Which offsets the sources of one driver have planned to read, and under which pipeline name.

    A second instance can replace `offsets/N` in the checkpoint before this driver's sink has read it. Then only the
    source knows what its tasks read. So it records each planned range here, and the sink compares.

    An entry can refute a plan, never confirm one: Spark may not have asked a source for a range, or there is no folder.

    Lifetime: entries live as long as the driver's Java process, at most MAX_ENTRIES of each source.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = None if folder is None else Path(folder) / _REGISTRY
        self._recorded: deque[Path] = deque()

    def record(self, planned: SourceRange, pipeline: str | None) -> None:
        """Called by a source before its tasks read the range; `pipeline` is the source's option of that name.

        A plan in the checkpoint has the name of the day it was planned, which the user may have changed since.
        """
        if self._folder is None:
            return
        path = self._folder / "-".join(_entry_name(planned))
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            path.write_text(pipeline or "", encoding="utf-8")
        except OSError as error:
            log.warning("The planned offsets were not recorded for the sink: %s", error)
            return
        if path not in self._recorded:
            self._recorded.append(path)
        while len(self._recorded) > MAX_ENTRIES:
            self._recorded.popleft().unlink(missing_ok=True)

    def pipeline_of(self, planned: SourceRange) -> str | None:
        """The pipeline name of the source that planned this range: empty if it has none, None without an entry."""
        if self._folder is None:
            return None
        try:
            return (self._folder / "-".join(_entry_name(planned))).read_text("utf-8")
        except FileNotFoundError:
            return None

    def has(self, planned: SourceRange) -> bool:
        """Whether a source of this driver has planned this range."""
        return self.pipeline_of(planned) is not None

    def refutes(self, sources: Sequence[SourceRange]) -> bool:
        """Whether sources of this driver began where a plan says, and none of them ended where it says."""
        if self._folder is None:
            return False
        planned: dict[str, list[str]] = {}
        for source in sources:
            # Spark does not call `partitions` for an empty range.
            if source.start != source.end:
                start, end = _entry_name(source)
                planned.setdefault(start, []).append(end)
        for start, ends in planned.items():
            recorded = {path.name.partition("-")[2] for path in self._folder.glob(f"{start}-*")}
            # Of several sources with the same start, one may have recorded nothing.
            if len(recorded) >= len(ends) and not recorded.issuperset(ends):
                return True
        return False


def _entry_name(source: SourceRange) -> tuple[str, str]:
    """Digests of where a range starts and where it ends."""
    start = f"{source.cluster} {source.group} {_text(source.start)}"
    return _digest(start), _digest(_text(source.end))


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    return " ".join(f"{each.topic} {each.partition} {at}" for each, at in sorted(offsets.items()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
