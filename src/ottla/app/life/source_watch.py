"""Changes of a program's source files, found by looking at them."""

from __future__ import annotations

import os
from collections.abc import Iterable

State = dict[str, tuple[int, int]]


class SourceWatch:
    """Files of a program, and Python files that appear beside them."""

    def __init__(self, files: Iterable[str] = ()) -> None:
        self._files: set[str] = set(files)
        self._seen: State = self._look()

    def add(self, files: Iterable[str]) -> None:
        """Watch these too, from now on as they are now."""
        new = set(files) - self._files
        if new:
            self._files |= new
            self._seen = {**self._look(), **self._seen}

    def changed(self) -> str | None:
        """A file that is new, gone or different since the last call; None if all are as they were."""
        before, self._seen = self._seen, self._look()
        for name in sorted(before.keys() | self._seen.keys()):
            if before.get(name) != self._seen.get(name):
                return name
        return None

    def _look(self) -> State:
        state: State = {}
        for folder in {os.path.dirname(name) for name in self._files}:
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.name.endswith(".py"):
                            status = entry.stat()
                            state[entry.path] = (status.st_mtime_ns, status.st_size)
            except OSError:
                continue  # it is gone, and with it its files
        return state
