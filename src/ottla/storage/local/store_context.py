"""The resources of a local store that its logs share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.histogram import Histogram
from ottla.ports import Clock, PartitionRef
from ottla.storage.local.folder.open_files import OpenFiles
from ottla.storage.local.partition_entry import PartitionEntries
from ottla.storage.local.sync.background_sync import BackgroundSyncs

if TYPE_CHECKING:
    from ottla.storage.local.log.partition_log import LocalLog


@dataclass(frozen=True, slots=True)
class StoreContext:
    """The threads, files and bookkeeping that the logs of a store share."""

    clock: Clock
    random: random.Random
    files: OpenFiles
    executor: ThreadPoolExecutor  # for syncs that clients wait for
    unawaited: ThreadPoolExecutor  # for work that no client waits for
    background: BackgroundSyncs
    # The logs with flush.ms set and something to flush, and since when.
    timed_flushes: dict[LocalLog, int]
    remove_later: Callable[[Sequence[str], int], None]  # paths, when (ms)
    entries: PartitionEntries
    ended: Callable[[LocalLog], None]
    sync_failed_late: Callable[[PartitionRef, OSError], None]  # after the claim that began the sync
    syncs: Histogram
