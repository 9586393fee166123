"""`ottla serve --storage` with small bounds, so that a short run gets to what happens rarely.

Flushes of clients go into objects from a few hundred bytes on, the tail is rewritten after seconds, and reads soon have
to fetch what is no longer in memory.

    python -m tests.history.shared_serve serve --storage ...
    python -m tests.history.shared_serve BEFORE_PREPARE_APPEND 3 serve --storage ...
    python -m tests.history.shared_serve acknowledge_before_commit serve --storage ...    # a bug of shared_mutants
"""

from __future__ import annotations

import sys

from tests.history.shared_mutants import SHARED_MUTANTS

from ottla.broker.crashpoints import CrashPoint
from ottla.storage.shared import housekeeping, open_store
from ottla.storage.shared.log import consolidation, replacement
from ottla.storage.shared.options import SharedOptions
from ottla.testing.crash_injection import crash_at

OPTIONS = {
    "inline_flush_bytes": 400,
    "objects_linger_seconds": 0.005,
    "tail_cache_bytes": 256 * 1024,
    "cold_cache_bytes": 256 * 1024,
}
# By module, as the names of its constants.
BOUNDS = {
    housekeeping: {
        "MAX_TAIL_AGE_MS": 3_000,
        "MAX_TAIL_ROWS": 200,
        "TURN_PAUSE_MS": 5_000,
        "COLLECT_PAUSE_MS": 5_000,
    },
    consolidation: {"INLINE_BYTES": 2_000},
    replacement: {"INLINE_BYTES": 2_000},
}


def make_small() -> None:
    made = SharedOptions(**OPTIONS)  # type: ignore[arg-type]  # names that are options
    name = "SharedOptions"
    assert getattr(open_store, name) is SharedOptions
    setattr(open_store, name, lambda: made)
    for module, bounds in BOUNDS.items():
        for name, value in bounds.items():
            assert hasattr(module, name)
            setattr(module, name, value)


def main(arguments: list[str]) -> int:
    from ottla.cli.main import main as ottla

    make_small()
    if arguments[0] in SHARED_MUTANTS:
        mutant, *arguments = arguments
        SHARED_MUTANTS[mutant]()
    if arguments[0] in CrashPoint.__members__:
        point, count, *arguments = arguments
        crash_at(CrashPoint[point], int(count))
    return ottla(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
