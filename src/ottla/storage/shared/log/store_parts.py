"""What all logs of a store share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.ports import Clock
from ottla.storage.shared.engine_metrics import EngineMetrics
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.read.cold_reads import ColdReads
from ottla.storage.shared.read.tail_cache import TailCache
from ottla.storage.shared.sequencer.sequencer import Sequencer
from ottla.storage.shared.session import Session
from ottla.storage.shared.write.lanes import Lanes
from ottla.storage.shared.write.uploads import Uploads

if TYPE_CHECKING:
    from ottla.storage.shared.log.partition_log import SharedLog


@dataclass
class StoreParts:
    sequencer: Sequencer
    session: Session
    lanes: Lanes
    uploads: Uploads
    tails: TailCache
    reads: ColdReads
    clock: Clock
    options: SharedOptions
    metrics: EngineMetrics
    # Called when a claim has ended, whatever the cause.
    ended: Callable[[SharedLog], None]
