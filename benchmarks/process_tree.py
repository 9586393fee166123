"""Processor time of a process and of all that it started, by kind; Linux only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import TICKS_PER_SECOND

# What a process is, from its id and its name.
KindOf = Callable[[int, str], str]


class Process(NamedTuple):
    """What the system says of a process."""

    pid: int
    parent: int
    name: str
    cpu_seconds: float


def processes() -> Iterator[Process]:
    """All that run now."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue
        # The command's name stands in parentheses and may contain blanks; what follows does not.
        front, _, back = text.rpartition(")")
        fields = back.split()
        used = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
        yield Process(int(folder.name), int(fields[1]), front.partition("(")[2], used)


def descendants(root: int) -> list[Process]:
    """What a process has started, and what that has started; not the process itself."""
    children: dict[int, list[Process]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += [process.pid for process in below]
    return found


class ProcessTree:
    """Sums what processes have used; look often, because those that have ended tell nothing more."""

    def __init__(self, root: int, kind_of: KindOf) -> None:
        self._root = root
        self._kind_of = kind_of
        self._seen: dict[int, tuple[str, float]] = {}

    def look(self) -> None:
        """Note what each process below the root has used by now; the root itself does not count."""
        for process in descendants(self._root):
            self._seen[process.pid] = self._kind_of(process.pid, process.name), process.cpu_seconds

    def seconds(self) -> dict[str, float]:
        """Processor time so far, by kind."""
        found: dict[str, float] = {}
        for kind, used in self._seen.values():
            found[kind] = found.get(kind, 0.0) + used
        return found
