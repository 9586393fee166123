"""Renews the committed progress of an idle pipeline.

Groups without members forget offsets that are not committed again within `offsets.retention.minutes` (seven days), and
with them the marker. Without new records Spark runs no micro-batch, but it keeps asking the source for them. So the
source commits the same offsets and the same marker again, in a transaction of the pipeline. Like a micro-batch it
fences first and reads the progress then, so that it never restores what another instance has replaced.
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
from ottla.spark.sink.commit_session import CLOSE_AT_ONCE_SECONDS
from ottla.spark.sink.progress import Marker, fence_bare_name, marker_group, transactional_id
from ottla.spark.sink.transaction import commit_until_answered

log = logging.getLogger("ottla.spark")

# Well within the seven days after which groups forget offsets.
RENEW_SECONDS: Final = 6 * 3600.0

GroupOffsets = dict[str, dict[TopicPartition, OffsetAndMetadata]]


class Renewal:
    """Renews the offsets and the marker of one pipeline when they have not changed for RENEW_SECONDS."""

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
        self._last_seen: GroupOffsets | None = None
        self._next_at = clock() + RENEW_SECONDS

    def nothing_to_read(self) -> None:
        """Called when Spark has asked for records and there are none."""
        if self._clock() < self._next_at:
            return
        self._next_at = self._clock() + RENEW_SECONDS
        try:
            found = self._read(is_stable=False)
            # Offsets that have changed since are young enough, and an instance that is at work must not be fenced.
            if any(found.values()) and found == self._last_seen:
                self._renew(found)
            self._last_seen = found
        except OttlaError as error:
            log.warning("%s: the progress was not renewed: %s", self._pipeline, error)

    def _renew(self, expected: GroupOffsets) -> None:
        own = {"transactional.id": transactional_id(self._pipeline), "acks": "all"}
        producer = Producer({**self._options, **own})
        try:
            producer.init_transactions()
            group = marker_group(self._pipeline)
            for stored in expected[group].values():
                fence_bare_name(self._admin(), self._pipeline, Marker.from_offset(stored, group))
            if self._read(is_stable=True) != expected:
                return
            producer.begin_transaction()
            for group, offsets in expected.items():
                if offsets:
                    producer.send_offsets_to_transaction(dict(offsets), group)
            commit_until_answered(producer, self._pipeline)
            log.info("%s: the progress was renewed", self._pipeline)
        finally:
            producer.close(CLOSE_AT_ONCE_SECONDS)

    def _read(self, *, is_stable: bool) -> GroupOffsets:
        groups = [self._pipeline, marker_group(self._pipeline)]
        found = self._admin().list_consumer_group_offsets(groups, require_stable=is_stable)
        return {
            group: {each: at for each, at in found[group].items() if at is not None}
            for group in groups
        }
