"""A member of a group with Ottla's own client, the blocking one."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.groups.workers.ottla_member import OttlaMember, places
from tests.groups.workers.reporting import POLL_SECONDS, Reporter

from ottla import Consumer
from ottla.errors import KafkaError
from ottla.model import TopicPartition


class Worker(OttlaMember[Consumer]):
    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.commit()
        self.reporter.revoked(places(partitions), self.identity)

    def commit(self) -> None:
        offsets = dict(self.reporter.pending)
        if not offsets:
            return
        who, began = self.identity, time.monotonic()
        try:
            self.consumer.commit(dict(offsets.items()))
        except KafkaError as failure:
            self.reporter.commit_failed(offsets, who, began, failure.name, self.identity)
        else:
            self.reporter.committed(offsets, who, began)

    def run(self) -> None:
        self.consumer.subscribe(self.wanted, self)
        while not self.reporter.is_leaving:
            self.process(self.consumer.poll(POLL_SECONDS))
            time.sleep(self.reporter.commit_delay_seconds)
            self.commit()
        self.commit()
        # Closing revokes, which reports.
        self.consumer.close()
        self.reporter.left()


if __name__ == "__main__":
    Worker(Consumer, Reporter()).run()
