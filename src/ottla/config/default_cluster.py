"""Which cluster is meant where nobody says it: for the command line and for pipelines."""

from __future__ import annotations

import os
from typing import Final

SERVERS_VARIABLE: Final = "OTTLA_BOOTSTRAP_SERVER"
DEFAULT_SERVERS: Final = "127.0.0.1:9092"


def default_servers() -> str:
    """The brokers that the environment names, or where `ottla serve` listens."""
    return os.environ.get(SERVERS_VARIABLE) or DEFAULT_SERVERS
