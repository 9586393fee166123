"""The ends of leader epochs, by which clients notice that a log has lost its tail (KIP-101, KIP-320)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochStart(NamedTuple):
    """The first offset that was written under a leader epoch."""

    epoch: int
    start_offset: int


class EpochHistory(Protocol):
    """A log that knows under which epochs it was written, oldest first."""

    @property
    def epochs(self) -> Sequence[EpochStart]: ...


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


UNDEFINED = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


def end_of_epoch(
    epochs: Sequence[EpochStart], current_epoch: int, requested_epoch: int, end_offset: int
) -> EpochEnd:
    """The largest known epoch up to the requested one, and the offset at which the next epoch begins."""
    if requested_epoch == UNDEFINED_EPOCH:
        return UNDEFINED
    if requested_epoch == current_epoch:
        return EpochEnd(requested_epoch, end_offset)
    if requested_epoch > current_epoch:
        return UNDEFINED
    higher = [entry for entry in epochs if entry.epoch > requested_epoch]
    lower = [entry for entry in epochs if entry.epoch <= requested_epoch]
    # An epoch is entered with its first record; the current one, without any yet, begins at the log's end.
    next_start = higher[0].start_offset if higher else end_offset
    return EpochEnd(lower[-1].epoch if lower else requested_epoch, next_start)


def epoch_at(epochs: Sequence[EpochStart], offset: int) -> int:
    """The epoch under which the record at an offset was written."""
    found = UNDEFINED_EPOCH
    for entry in epochs:
        if entry.start_offset > offset:
            break
        found = entry.epoch
    return found
