"""Plain Produce requests: read many at a time, and their responses written at once.

A request is plain if it has the one encoding that every client writes: no tagged fields, lengths in the fewest bytes,
nothing behind the last field; and if it has a batch for 1 to 64 partitions. Almost all are. Others, and those with an
error, are for the general codec. The compiled kernel reads them where it was built, else a twin in Python, which is
written with the general codec.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from ottla.wire import _produce_kernel_py
from ottla.wire._produce_kernel_py import PlainBatch as PlainBatch
from ottla.wire._produce_kernel_py import PlainRequest as PlainRequest

_chosen = _produce_kernel_py
if os.environ.get("OTTLA_PURE") != "1":
    with suppress(ImportError):
        from ottla.wire import _produce_kernel as _chosen  # type: ignore[attr-defined, no-redef]

COMPILED: Final[bool] = _chosen is not _produce_kernel_py

read_plain_requests = _chosen.read_plain_requests
write_plain_responses = _chosen.write_plain_responses
