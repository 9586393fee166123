"""What the logs of a local store have in common."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.histogram import Histogram
from ottla.ports import Clock, PartitionRef
from ottla.storage.local.folder.cleaned_offsets import CleanedOffsets
from ottla.storage.local.folder.open_files import OpenFiles
from ottla.storage.local.sync.background_sync import BackgroundSyncs

if TYPE_CHECKING:
    from ottla.storage.local.log.partition_log import LocalLog


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Given to every log by its store."""

    clock: Clock
    random: random.Random
    files: OpenFiles
    executor: ThreadPoolExecutor  # for syncs that clients wait for
    unawaited: ThreadPoolExecutor  # for the rest, which must not be in their way
    background: BackgroundSyncs
    timed_flushes: dict[
        LocalLog, int
    ]  # the logs with flush.ms set and something to flush, and since when
    remove_later: Callable[[Sequence[str], int], None]  # paths, when (ms)
    save_log_start: Callable[[PartitionRef, int], None]
    note_log_start: Callable[[PartitionRef, int], None]  # durable with the next one that is saved
    cleaned_offsets: CleanedOffsets
    ended: Callable[[LocalLog], None]
    sync_failed_late: Callable[[PartitionRef, OSError], None]  # after the claim that began the sync
    syncs: Histogram
