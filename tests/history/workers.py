"""`ottla serve --workers` with a supervisor that soon takes a worker for hung, as a round is short.

python -m tests.history.workers serve --workers 2 ...
python -m tests.history.workers BEFORE_PREPARE_APPEND 3 serve --workers 2 ...
"""

from __future__ import annotations

import sys

from ottla.broker.crashpoints import CrashPoint
from ottla.broker.workers.supervisor import Supervisor
from ottla.testing.crash_injection import crash_at

HANG_SECONDS = 6.0


def main(arguments: list[str]) -> int:
    from ottla.cli.main import main as ottla

    assert Supervisor.__init__.__kwdefaults__ is not None
    assert "hang_seconds" in Supervisor.__init__.__kwdefaults__
    Supervisor.__init__.__kwdefaults__["hang_seconds"] = HANG_SECONDS
    if arguments[0] in CrashPoint.__members__:
        point, count, *arguments = arguments
        crash_at(CrashPoint[point], int(count))
    return ottla(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
