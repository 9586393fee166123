"""Processor time of a process and of all that it started, by kind; Linux only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import TICKS_PER_SECOND

# What a process is, from its id and its name.
KindOf = Callable[[int, str], str]


class ProcessTree:
    """Sums what processes have used; look often, because those that have ended tell nothing more."""

    def __init__(self, root: int, kind_of: KindOf) -> None:
        self._root = root
        self._kind_of = kind_of
        self._seen: dict[int, tuple[str, float]] = {}

    def look(self) -> None:
        """Note what each process below the root has used by now; the root itself does not count."""
        children: dict[int, list[tuple[int, str, float]]] = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                text = (folder / "stat").read_text()
            except OSError:
                continue
            front, _, back = text.rpartition(")")
            fields = back.split()
            used = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
            entry = (int(folder.name), front.partition("(")[2], used)
            children.setdefault(int(fields[1]), []).append(entry)
        todo = [self._root]
        while todo:
            for pid, name, used in children.get(todo.pop(), []):
                self._seen[pid] = (self._kind_of(pid, name), used)
                todo.append(pid)

    def seconds(self) -> dict[str, float]:
        """Processor time so far, by kind."""
        found: dict[str, float] = {}
        for kind, used in self._seen.values():
            found[kind] = found.get(kind, 0.0) + used
        return found
