"""A member of a group with Ottla's own client, the one for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from tests.groups.workers.ottla_member import OttlaMember, places
from tests.groups.workers.reporting import POLL_SECONDS, Reporter

from ottla.aio import Consumer
from ottla.errors import KafkaError
from ottla.model import TopicPartition


class Worker(OttlaMember[Consumer]):
    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self.commit()
        self.reporter.revoked(places(partitions), self.identity)

    async def commit(self) -> None:
        offsets = dict(self.reporter.pending)
        if not offsets:
            return
        who, began = self.identity, time.monotonic()
        try:
            await self.consumer.commit(dict(offsets.items()))
        except KafkaError as failure:
            self.reporter.commit_failed(offsets, who, began, failure.name, self.identity)
        else:
            self.reporter.committed(offsets, who, began)

    async def run(self) -> None:
        self.consumer.subscribe(self.wanted, self)
        while not self.reporter.is_leaving:
            self.process(await self.consumer.poll(POLL_SECONDS))
            await asyncio.sleep(self.reporter.commit_delay_seconds)
            await self.commit()
        await self.commit()
        # Closing revokes, which reports.
        await self.consumer.close()
        self.reporter.left()


async def main() -> None:
    await Worker(Consumer, Reporter()).run()


if __name__ == "__main__":
    asyncio.run(main())
