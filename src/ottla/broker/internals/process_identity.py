"""Which process tells: numbers of events and counts begin anew with it. A fork is another one than its parent."""

from __future__ import annotations

import os
import secrets
import time


class ProcessIdentity:
    """An id that no other process has, and when this one began."""

    def __init__(self) -> None:
        self.instance = ""
        self.started_seconds = 0.0
        """As Unix time."""
        self.renew()

    def renew(self) -> None:
        """A fork begins."""
        self.instance = secrets.token_hex(8)
        self.started_seconds = time.time()

    @property
    def started_ms(self) -> int:
        """As Unix time in milliseconds."""
        return round(self.started_seconds * 1000)


IDENTITY = ProcessIdentity()
os.register_at_fork(after_in_child=IDENTITY.renew)
