"""What is known of partitions that are not open here: their sizes and ends, asked for in bulk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from ottla.ports import PartitionRef, StorageError, UnclaimedLog
from ottla.storage.shared.log.partition_log import SharedLog
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.sequencer.sequencer import Sequencer


class UnclaimedLogs:
    """Answers are kept for a while; what is old or missing is asked for in one call after the caller's turn."""

    def __init__(
        self,
        sequencer: Sequencer,
        options: SharedOptions,
        logs: Mapping[PartitionRef, SharedLog],
    ) -> None:
        self._sequencer = sequencer
        self._fresh_seconds = options.unclaimed_fresh_seconds
        self._logs = logs
        self._known: dict[PartitionRef, tuple[float, UnclaimedLog]] = {}
        self._sizes: dict[tuple[str, int], int] = {}
        self._wanted: dict[PartitionRef, None] = {}
        self._asking: asyncio.Task[None] | None = None

    def find(self, refs: Iterable[PartitionRef]) -> dict[PartitionRef, UnclaimedLog | StorageError]:
        loop = asyncio.get_running_loop()
        now = loop.time()
        found: dict[PartitionRef, UnclaimedLog | StorageError] = {}
        for ref in refs:
            if ref in self._logs:
                continue
            at, known = self._known.get(ref, (float("-inf"), None))
            if known is not None:
                found[ref] = known
            if now - at > self._fresh_seconds:
                self._wanted[ref] = None
        if self._wanted and self._asking is None:
            self._asking = loop.create_task(self._ask_wanted())
        return found

    async def _ask_wanted(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = list(self._wanted), {}
                with suppress(StorageError):
                    await self.ask(wanted)
                await asyncio.sleep(0)
        finally:
            self._asking = None

    async def ask(self, refs: Sequence[PartitionRef]) -> None:
        found = await self._sequencer.unclaimed(refs)
        now = asyncio.get_running_loop().time()
        for ref in refs:
            known = found.get(ref)
            if known is None:
                self.forget(ref)
            else:
                self._known[ref] = now, known
                self._sizes[ref.topic, ref.partition] = known.size_bytes

    def closed(self, log: SharedLog) -> None:
        """A log is not open here any more: what was known is older than that."""
        self._known.pop(log.ref, None)
        self._sizes[log.ref.topic, log.ref.partition] = log.size_bytes

    def forget(self, ref: PartitionRef) -> None:
        """There is no such partition."""
        self._known.pop(ref, None)
        self._wanted.pop(ref, None)
        self._sizes.pop((ref.topic, ref.partition), None)

    def sizes(self) -> dict[tuple[str, int], int]:
        """The last known sizes."""
        return dict(self._sizes)
