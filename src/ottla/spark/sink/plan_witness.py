"""What sources have planned in this driver, for its sink to compare with the checkpoint.

A second instance may replace `offsets/N` before this one's sink has seen it. Then only the source knows what the tasks
read. Both are Python processes of one Java process, with a folder that no other one has (`task_messages`): the source
leaves a note there. Notes can only contradict: where there is none, because Spark had no use for a source say, nothing
is concluded.
"""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.model import TopicPartition
from ottla.spark.sink.progress import SourceRange

log = logging.getLogger("ottla.spark")

# Of one source; the sink asks for the last one only.
MOST_NOTES: Final = 8
_FOLDER: Final = "ottla-plans"


def _name(source: SourceRange) -> tuple[str, str]:
    """Where a source begins and where it ends, as parts of a file's name."""
    begin = f"{source.cluster} {source.group} {_text(source.start)}"
    return _digest(begin), _digest(_text(source.end))


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    return " ".join(f"{each.topic} {each.partition} {at}" for each, at in sorted(offsets.items()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Notes:
    """The notes of one source, each with the name of the pipeline that the source has now.

    A plan has the name that the source had when it was planned, which the user may have changed since.
    """

    def __init__(self, drivers_folder: str | None, pipeline: str | None = None) -> None:
        self._pipeline = pipeline
        self._folder = None if drivers_folder is None else Path(drivers_folder) / _FOLDER
        self._left: deque[Path] = deque()

    def leave(self, planned: SourceRange) -> None:
        """Tasks are going to read this; without a folder nobody is told."""
        if self._folder is None:
            return
        path = self._folder / "-".join(_name(planned))
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            path.write_text(self._pipeline or "", encoding="utf-8")
        except OSError as error:
            log.warning("no note of what is read could be left: %s", error)
            return
        if path not in self._left:
            self._left.append(path)
        while len(self._left) > MOST_NOTES:
            self._left.popleft().unlink(missing_ok=True)


def noted_pipeline(planned: SourceRange, drivers_folder: str | None) -> str | None:
    """The name that a source of this driver has which reads this; empty if it has none, None without a note."""
    if drivers_folder is None:
        return None
    try:
        return (Path(drivers_folder) / _FOLDER / "-".join(_name(planned))).read_text("utf-8")
    except FileNotFoundError:
        return None


def is_contradicted(sources: Sequence[SourceRange], drivers_folder: str | None) -> bool:
    """Whether sources of this driver began where a plan says, and none of them ended where it says."""
    if drivers_folder is None:
        return False
    folder = Path(drivers_folder) / _FOLDER
    planned: dict[str, list[str]] = {}
    for source in sources:
        if source.start == source.end:
            # Spark does not ask a source for nothing.
            continue
        begin, end = _name(source)
        planned.setdefault(begin, []).append(end)
    for begin, ends in planned.items():
        noted = {path.name.partition("-")[2] for path in folder.glob(f"{begin}-*")}
        # Of several sources that begin together, one may have left no note.
        if len(noted) >= len(ends) and not noted.issuperset(ends):
            return True
    return False
