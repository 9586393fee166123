"""Plain Produce requests: read many at a time, and their responses written at once.

A request is plain if it has the one encoding that every client writes: no tagged fields, lengths in the fewest bytes,
nothing behind the last field; and if it has a batch for 1 to 64 partitions. Almost all are. Others, and those with an
error, are for the general codec. The compiled kernel reads them where it was built, else a twin in Python, which is
written with the general codec.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ottla.wire import _produce_kernel_py
from ottla.wire._produce_kernel_py import PlainBatch as PlainBatch
from ottla.wire._produce_kernel_py import PlainRequest as PlainRequest
from ottla.wire.declare import info_of
from ottla.wire.framing import SIZE_BYTES, read_request_header
from ottla.wire.messages.produce import ProduceRequest

_chosen = _produce_kernel_py
if os.environ.get("OTTLA_PURE") != "1":
    with suppress(ImportError):
        from ottla.wire import _produce_kernel as _chosen  # type: ignore[attr-defined, no-redef]

COMPILED: Final[bool] = _chosen is not _produce_kernel_py

read_plain_requests = _chosen.read_plain_requests
write_plain_responses = _chosen.write_plain_responses

_FLEXIBLE_SINCE: Final = info_of(ProduceRequest).flexible_since
_INT16_BYTES: Final = 2
_TIMEOUT_BYTES: Final = 4


def timeouts_of(received: memoryview, start: int, requests: Sequence[PlainRequest]) -> list[int]:
    """The `timeout_ms` of plain requests that were read from `start` on: only few callers need them."""
    found = []
    for end, version, _, _, transactional_id, _ in requests:
        frame = received[start + SIZE_BYTES : end]
        is_flexible = version >= _FLEXIBLE_SINCE
        position = read_request_header(frame, is_flexible).body_position
        length = 0
        if transactional_id is not None:
            length = len(transactional_id.encode())
        position += length + (_varint_size(length + 1) if is_flexible else _INT16_BYTES)
        position += _INT16_BYTES  # acks
        found.append(
            int.from_bytes(frame[position : position + _TIMEOUT_BYTES], "big", signed=True)
        )
        start = end
    return found


def _varint_size(number: int) -> int:
    return max((number.bit_length() + 6) // 7, 1)
