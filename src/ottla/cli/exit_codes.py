"""The exit codes of the `ottla` command."""

from __future__ import annotations

from typing import Final

DONE, FAILED, USAGE = 0, 1, 2
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
TERMINATED: Final = 143
