"""What a stored run says beside its batches: aborted transactions, and whether it begins a segment.

The entries have the form of a .txnindex file: a version, then four offsets. Version 0 is an aborted transaction, as in
Kafka; with version 1 a segment of the log begins at the run, so that the next claim finds the same segments. Entries
of neighbouring runs can be put together as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.core.aborted import AbortedSpan
from ottla.ports import DamagedError

_ENTRY: Final = struct.Struct(">hqqqq")
_ABORTED: Final = 0
_SEGMENT_START: Final = 1


class RunSpans(NamedTuple):
    aborted: Sequence[AbortedSpan]
    segment_starts: Sequence[int]


def encode_spans(aborted: Sequence[AbortedSpan], segment_start: int | None) -> bytes:
    """The entries of a run; with `segment_start` it begins a segment there."""
    encoded = [_ENTRY.pack(_ABORTED, *span) for span in aborted]
    if segment_start is not None:
        encoded.insert(0, _ENTRY.pack(_SEGMENT_START, 0, segment_start, segment_start, 0))
    return b"".join(encoded)


def decode_spans(data: bytes) -> RunSpans:
    aborted: list[AbortedSpan] = []
    starts: list[int] = []
    try:
        for version, *numbers in _ENTRY.iter_unpack(data):
            if version == _ABORTED:
                aborted.append(AbortedSpan(*numbers))
            elif version == _SEGMENT_START:
                starts.append(numbers[1])
            else:
                raise DamagedError(f"a stored run has an entry of the unknown version {version}")
    except struct.error as error:
        raise DamagedError(f"the entries of a stored run are damaged: {error}") from error
    return RunSpans(aborted, starts)
