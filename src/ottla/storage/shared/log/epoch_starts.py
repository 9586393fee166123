"""The epochs with records of a log, oldest first."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.ports import EpochStart


def stored_epochs(
    stored: Sequence[EpochStart], start_offset: int, end_offset: int
) -> list[EpochStart]:
    """Of what the sequencer has, the epochs under which records were written that are not all deleted."""
    found: list[EpochStart] = []
    for entry in sorted(stored):
        if entry.start_offset < end_offset:
            found = enter_epoch(found, entry)
    return cut_start(found, start_offset)


def enter_epoch(epochs: Sequence[EpochStart], entry: EpochStart) -> list[EpochStart]:
    """With a new epoch; one without records is replaced."""
    return [*(each for each in epochs if each.start_offset < entry.start_offset), entry]


def cut_start(epochs: Sequence[EpochStart], start_offset: int) -> list[EpochStart]:
    """Without epochs whose batches were deleted; the first one left begins at the log's start."""
    below = [entry for entry in epochs if entry.start_offset <= start_offset]
    if not below:
        return list(epochs)
    return [EpochStart(below[-1].epoch, start_offset), *epochs[len(below) :]]
