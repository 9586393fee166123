"""Plain requests to group coordinators: JoinGroup, SyncGroup, Heartbeat and OffsetCommit, and their responses.

Plain is meant as in `plain_produce`: the one encoding that every client writes, and no more elements than can be
answered in one go. A response is a whole frame. The compiled kernel reads and writes them where it was built, else a
twin in Python, which is written with the general codec.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from ottla.wire import _group_kernel_py
from ottla.wire._group_kernel_py import PlainOffsets as PlainOffsets

_chosen = _group_kernel_py
if os.environ.get("OTTLA_PURE") != "1":
    with suppress(ImportError):
        from ottla.wire import _group_kernel as _chosen  # type: ignore[attr-defined, no-redef]

COMPILED: Final[bool] = _chosen is not _group_kernel_py

read_plain_commit = _chosen.read_plain_commit
read_plain_heartbeat = _chosen.read_plain_heartbeat
read_plain_join = _chosen.read_plain_join
read_plain_sync = _chosen.read_plain_sync
write_commit_response = _chosen.write_commit_response
write_heartbeat_response = _chosen.write_heartbeat_response
write_join_response = _chosen.write_join_response
write_sync_response = _chosen.write_sync_response
