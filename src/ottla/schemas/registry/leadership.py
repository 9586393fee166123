"""Which registry writes.

The registries of a cluster are a consumer group of the topic's only partition: the member that has it is the leader,
and tells the others its address in the metadata of a commit. That makes it likely that there is one writer. The fence
makes it certain (ADR 0044): a leader first fences its predecessor, then reads the topic to its end, and only then
writes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.model import OffsetAndMetadata
from ottla.errors import KafkaError, OttlaError
from ottla.events import EventLog
from ottla.schemas.registry.errors import NotLeaderError
from ottla.schemas.registry.schema_log import FencedWriter, SchemaLog, WriteFailedError
from ottla.schemas.registry.stored_records import StoredRecord

logger = EventLog("ottla.schemas.registry")

POLL_SECONDS: Final = 0.2
RETRY_SECONDS: Final = 0.5
CLOSE_SECONDS: Final = 5.0
# A leader that has not read its own write after this time lets another one try.
READ_BACK_SECONDS: Final = 15.0


class Leadership:
    """Takes part in the election, and writes while this registry is the leader."""

    def __init__(
        self,
        options: Mapping[str, object],
        schema_log: SchemaLog,
        *,
        group: str,
        own_url: str,
        session_timeout_ms: int,
    ) -> None:
        self._options = dict(options)
        self._log = schema_log
        self._group = group
        self._own_url = own_url
        self._consumer: Consumer[bytes, bytes] = Consumer(
            {
                **options,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": session_timeout_ms,
                "heartbeat.interval.ms": session_timeout_ms // 5,
            }
        )
        self._writer: FencedWriter | None = None
        self._generation = 0  # of the log, when the writer had read it
        self._writing = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def start(self) -> None:
        """Join the group."""
        self._consumer.subscribe([self._log.partition.topic])
        self._running = asyncio.create_task(self._run())

    @property
    def is_leader(self) -> bool:
        """Whether this registry writes, as far as it knows."""
        return self._writer is not None

    @property
    def lock(self) -> asyncio.Lock:
        """Held from a decision until its records were read back: decisions are made one after the other."""
        return self._writing

    async def wait_for_change(self, timeout: float) -> None:
        """Wait until this registry became the leader or ceased to be it, or for a while."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout)

    async def leader_url(self) -> str | None:
        """The address of the registry that was elected last, which may not be there any more."""
        wanted = {self._group: [self._log.partition]}
        offsets = await self._log.admin.list_consumer_group_offsets(wanted)
        committed = offsets[self._group].get(self._log.partition)
        if committed is None or not committed.metadata:
            return None
        try:
            url = json.loads(committed.metadata)["url"]
        except (ValueError, KeyError, TypeError):
            return None
        return None if url == self._own_url else str(url)

    # Being elected

    async def _run(self) -> None:
        while True:
            try:
                await self._consumer.poll(POLL_SECONDS)
                assigned = self._consumer.assignment()
                if assigned and assigned != self._consumer.paused():
                    self._consumer.pause(assigned)
                if assigned and not self.is_leader:
                    await self._take_over()
                elif not assigned and self.is_leader:
                    await self._resign("another registry was elected")
            except OttlaError as error:
                await self._resign(str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _take_over(self) -> None:
        # The commit is refused if the group has gone on without this member, while it was paused for example.
        identity = json.dumps({"url": self._own_url})
        await self._consumer.commit({self._log.partition: OffsetAndMetadata(0, identity)})
        name = f"{self._group}-{self._log.partition.topic}"
        writer = FencedWriter(self._options, self._log.partition, name)
        try:
            await writer.fence_the_previous()
            # From here on no other registry commits: the end of the topic stays where it is.
            self._generation = self._log.generation
            await self._log.read_to_end()
        except BaseException:
            await writer.close()
            raise
        self._writer = writer
        self._tell()
        logger.info("registry_leads", "this registry writes: %(url)s", url=self._own_url)

    async def _resign(self, reason: str) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        logger.info("registry_follows", "this registry does not write: %(reason)s", reason=reason)
        self._tell()
        with suppress(KafkaError):
            await writer.close()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # Writing

    async def write(self, records: Sequence[StoredRecord]) -> int:
        """Commit records and read them back; returns the offset behind the last one.

        The caller holds the lock and has made its decision on the present state. After a failure the state may be
        behind the topic, so this registry does not write again before it has fenced itself and read on.
        """
        writer = self._writer
        if writer is None or self._generation != self._log.generation:
            await self._resign("the topic is read from its beginning again")
            raise NotLeaderError
        try:
            end_offset = await writer.write(records)
            await asyncio.wait_for(self._log.wait_for(end_offset), READ_BACK_SECONDS)
        except (WriteFailedError, TimeoutError) as error:
            if self._writer is writer:
                await self._resign(str(error))
            raise WriteFailedError(str(error)) from error
        except asyncio.CancelledError:
            if self._writer is writer:
                await self._resign("a write was cancelled")
            raise
        return end_offset

    async def close(self) -> None:
        """Leave the group, so that another registry is elected at once."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self._resign("it stops")
        with suppress(KafkaError):
            await self._consumer.close(CLOSE_SECONDS)
