"""Renews what a pipeline has committed while it has nothing to do.

Groups without members forget offsets that are not committed again for `offsets.retention.minutes` (seven days), and
with them the marker. Spark runs no micro-batch without new records, but it asks the source for them, and between
micro-batches nothing of this query commits. So the source commits once more what is there, as it is, in a transaction
of the pipeline: fenced first and looked at then, like a micro-batch, so that it never puts back what somebody else has
replaced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.producer import Producer
from ottla.client.model import OffsetAndMetadata
from ottla.errors import OttlaError
from ottla.model import TopicPartition
from ottla.spark.sink.micro_batch_commit import (
    RENEW_SECONDS,
    commit_until_answered,
    fence_bare_name,
)
from ottla.spark.sink.progress import Marker, marker_group, transactional_id

log = logging.getLogger("ottla.spark")

_DROP_SECONDS: Final = 0.0

Kept = dict[str, dict[TopicPartition, OffsetAndMetadata]]


class Renewal:
    """Renews the offsets and the marker of one pipeline, when nothing has changed them for a while."""

    def __init__(
        self,
        pipeline: str,
        options: Mapping[str, str],
        admin: Callable[[], Admin],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._options = options
        self._admin = admin
        self._clock = clock
        self._seen: Kept | None = None
        self._next_at = clock() + RENEW_SECONDS

    def nothing_to_read(self) -> None:
        """Spark has asked, and there is nothing new."""
        if self._clock() < self._next_at:
            return
        self._next_at = self._clock() + RENEW_SECONDS
        try:
            found = self._kept(is_stable=False)
            # What has changed since the last look is young; and whoever is at work is not fenced.
            if any(found.values()) and found == self._seen:
                self._renew(found)
            self._seen = found
        except OttlaError as error:
            log.warning("%s: its progress was not renewed: %s", self._pipeline, error)

    def _renew(self, expected: Kept) -> None:
        own = {"transactional.id": transactional_id(self._pipeline), "acks": "all"}
        producer = Producer({**self._options, **own})
        try:
            producer.init_transactions()
            group = marker_group(self._pipeline)
            for kept in expected[group].values():
                fence_bare_name(self._admin(), self._pipeline, Marker.from_offset(kept, group))
            if self._kept(is_stable=True) != expected:
                return
            producer.begin_transaction()
            for group, offsets in expected.items():
                if offsets:
                    producer.send_offsets_to_transaction(dict(offsets), group)
            commit_until_answered(producer, self._pipeline)
            log.info("%s: its progress was renewed", self._pipeline)
        finally:
            producer.close(_DROP_SECONDS)

    def _kept(self, *, is_stable: bool) -> Kept:
        groups = [self._pipeline, marker_group(self._pipeline)]
        found = self._admin().list_consumer_group_offsets(groups, require_stable=is_stable)
        return {
            group: {each: at for each, at in found[group].items() if at is not None}
            for group in groups
        }
