"""Commits of flushes: one call of the sequencer, repeated under the same id until there is a definite answer."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from ottla.events import EventLog
from ottla.ports import DamagedError, FencedError, StorageError, StorageFullError
from ottla.storage.shared.engine_metrics import EngineMetrics, LaneMetrics
from ottla.storage.shared.errors import SequencerUnavailableError
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.retries import until_available
from ottla.storage.shared.sequencer.records import AppendOutcome, PartAppend, WrittenObject
from ottla.storage.shared.sequencer.sequencer import Sequencer
from ottla.storage.shared.session import Session
from ottla.storage.shared.write.part import Part

logger = EventLog(__name__)


class Placed(NamedTuple):
    """A part, and what the sequencer gets of it."""

    part: Part
    append: PartAppend


class Commits:
    """Of both lanes."""

    def __init__(
        self,
        sequencer: Sequencer,
        session: Session,
        options: SharedOptions,
        metrics: EngineMetrics,
    ) -> None:
        self._sequencer = sequencer
        self._session = session
        self._options = options
        self._metrics = metrics

    async def commit(
        self, placed: Sequence[Placed], objects: Sequence[WrittenObject], lane: LaneMetrics
    ) -> None:
        """Appends parts and settles them, each with its own outcome."""
        loop = asyncio.get_running_loop()
        flush = uuid.uuid4()
        session = self._session.id
        appends = [each.append for each in placed]
        began = loop.time()
        tries = 0

        async def append() -> Sequence[AppendOutcome]:
            nonlocal tries
            tries += 1
            return await self._sequencer.append(session, flush, objects, appends)

        try:
            outcomes = await until_available(
                append, self._options.write_budget_seconds, self._options
            )
        except StorageError as error:
            self._fail(placed, error)
            return
        except Exception as error:
            logger.bug("commit_impossible", "a flush cannot be committed", error)
            self._fail(placed, StorageError(f"the flush was not committed: {error}"))
            return
        finally:
            self._metrics.repeated_commits += max(0, tries - 1)
        now = loop.time()
        lane.commit_seconds.observe(now - began)
        for each, outcome in zip(placed, outcomes, strict=True):
            self._metrics.append_seconds.observe(now - each.part.began)
            self._settle(each.part, outcome)

    def _fail(self, placed: Sequence[Placed], error: StorageError) -> None:
        """Whether the parts were appended is unknown: their partitions have to be claimed anew."""
        if isinstance(error, SequencerUnavailableError):
            error = StorageError(f"whether the batches were appended is unknown: {error}")
        elif isinstance(error, StorageFullError):
            # What follows them in memory has no place any more.
            error = StorageError(f"the batches were not appended: {error}")
        for each in placed:
            each.part.fail(type(error)(*error.args))

    def _settle(self, part: Part, outcome: AppendOutcome) -> None:
        log = part.log
        if outcome is AppendOutcome.ALREADY:
            self._metrics.already_answers += 1
        if outcome in (AppendOutcome.OK, AppendOutcome.ALREADY):
            part.settle()
        elif outcome is AppendOutcome.FENCED:
            self._metrics.fenced_answers += 1
            part.fail(FencedError(f"{log.ref} was claimed anew, epoch {log.epoch} is over"))
        else:
            self._metrics.misplaced_answers += 1
            # Under its own epoch a log has one writer, which knows where it ends.
            error = DamagedError(
                f"{log.ref} does not end at offset {part.base_offset}, up to which appends were acknowledged:"
                " the sequencer has lost data"
            )
            logger.error(
                "acknowledged_records_lost",
                "partition %(topic)s-%(partition)d is offline: the store does not end at offset %(known_end)d, up to"
                " which records were acknowledged",
                topic=log.ref.topic,
                partition=log.ref.partition,
                known_end=part.base_offset,
            )
            part.fail(error)
