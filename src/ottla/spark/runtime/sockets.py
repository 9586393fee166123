"""How Spark's Java and its Python processes talk: through sockets of the file system, where there are some.

Spark's own choice is TCP, which holds small messages back until the last one is acknowledged, and acknowledges late:
every task with a Python worker waited 40 ms, three quarters of the time of a small micro-batch.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

SWITCH: Final = "spark.python.unix.domain.socket.enabled"
FOLDER: Final = "spark.python.unix.domain.socket.dir"
DAEMON: Final = "spark.python.daemon.module"
# What systems take as the name of a socket (macOS the least), and the names that Spark gives: a dot, a UUID, ".sock".
_LONGEST_NAME: Final = 103
_NAME_LENGTH: Final = 42
_PREFIX: Final = "ottla-spark-"


@cache
def socket_settings() -> dict[str, str]:
    """What to tell Spark; nothing where it has to stay with TCP.

    Only this user may enter the folder, which keeps others out instead of a secret. It goes with this process.
    """
    longest = Path(tempfile.gettempdir(), _PREFIX + 8 * "x", _NAME_LENGTH * "x")
    if not hasattr(socket, "AF_UNIX") or len(bytes(longest)) > _LONGEST_NAME:
        return {}
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    atexit.register(_remove, folder, os.getpid())
    return {SWITCH: "true", FOLDER: folder, DAEMON: "ottla.spark.runtime.daemon"}


def _remove(folder: str, owner: int) -> None:
    # Not by a child that was forked. Java may be about to remove its own files in it.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def remove_sockets() -> None:
    """Before this process becomes another program, which has sockets of its own."""
    if socket_settings.cache_info().currsize and (folder := socket_settings().get(FOLDER)):
        shutil.rmtree(folder, ignore_errors=True)
