"""The error of an address on which the broker cannot listen."""

from __future__ import annotations

import os

from ottla.errors import OttlaError
from ottla.model import Endpoint


class ListenError(OttlaError):
    """The address is taken, not this machine's, or not allowed."""

    def __init__(self, endpoint: Endpoint, error: OSError, purpose: str = "") -> None:
        self.endpoint = endpoint
        self.errno = error.errno
        reason = os.strerror(error.errno) if error.errno else str(error)
        super().__init__(f"cannot listen on {endpoint}{purpose}: {reason}")
