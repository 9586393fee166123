"""The cluster that the command line and pipelines use if none is given."""

from __future__ import annotations

import os
from typing import Final

SERVERS_VARIABLE: Final = "OTTLA_BOOTSTRAP_SERVER"
DEFAULT_SERVERS: Final = "127.0.0.1:9092"


def default_servers() -> str:
    """The bootstrap servers of the environment variable, else the default address of `ottla serve`."""
    return os.environ.get(SERVERS_VARIABLE) or DEFAULT_SERVERS
