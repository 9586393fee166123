"""Which snapshots of a partition an engine keeps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

_NEWEST_KEPT: Final = 3


def kept_snapshots(offsets: Sequence[int], cuts: Iterable[int]) -> set[int]:
    """The newest few of sorted offsets, and for each cut the newest at or below it.

    A recovery may cut the log at the base offset of a segment or behind it, and removes the snapshots above the cut.
    Only an older snapshot then still has the producers whose batches were deleted.
    """
    kept = set(offsets[-_NEWEST_KEPT:])
    for cut in cuts:
        position = bisect_right(offsets, cut)
        if position:
            kept.add(offsets[position - 1])
    return kept
