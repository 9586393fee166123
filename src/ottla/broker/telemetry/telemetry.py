"""Client telemetry of a node: answers to the two APIs of KIP-714, and the series for the metrics page."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Generator
from typing import Final

from ottla.broker.cluster import Cluster
from ottla.broker.options import NodeOptions
from ottla.broker.telemetry.client_instances import (
    RESERVED_IDS,
    Client,
    ClientInstance,
    ClientInstances,
    Push,
)
from ottla.broker.telemetry.client_series import ClientSeries
from ottla.broker.telemetry.otlp import (
    DecodedMetrics,
    MalformedMetricsError,
    TooManyPointsError,
    decode_metrics,
)
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.model import Endpoint
from ottla.ports import monotonic_ms
from ottla.records.compression import Codec, decompress
from ottla.records.errors import CorruptRecordsError
from ottla.wire.types import ZERO_UUID

# Pushes that wait to be decoded may take this much memory; then clients are told to come later.
MAX_WAITING_BYTES: Final = 16 << 20


class Telemetry:
    """The clients that push metrics to this node. Pushes are decoded one at a time, in slices of the loop's time."""

    def __init__(self, node_id: int, cluster: Cluster, options: NodeOptions) -> None:
        self._cluster = cluster
        self._options = options
        self.instances = ClientInstances(cluster.catalog, cluster.ids.member_id)
        self.series = ClientSeries(node_id)
        self._decoding = asyncio.Lock()
        self._waiting_bytes = 0

    @property
    def max_bytes(self) -> int:
        return self._options.config.telemetry_max_bytes

    def _now_ms(self) -> int:
        return monotonic_ms(self._cluster.clock)

    def get(
        self, instance_id: uuid.UUID, client: Client
    ) -> Generator[None, None, ClientInstance | Refused]:
        """The instance of a client that asks what to push; its id is made here if it has none."""
        if instance_id == ZERO_UUID:
            instance_id = self.instances.new_instance_id()
        now_ms = self._now_ms()
        instance = yield from self.instances.find(instance_id, client, now_ms)
        return instance.get(now_ms) or instance

    def check_push(
        self, instance_id: uuid.UUID, client: Client, push: Push
    ) -> Generator[None, None, ClientInstance | Refused]:
        """The instance of a client that may push now."""
        if instance_id in RESERVED_IDS:
            return Refused(ErrorCode.INVALID_REQUEST, "the client instance id is reserved")
        now_ms = self._now_ms()
        instance = yield from self.instances.find(instance_id, client, now_ms)
        return instance.push(push, self.max_bytes, now_ms) or instance

    async def receive(self, instance: ClientInstance, push: Push, data: bytes) -> Refused | None:
        """Decodes a push that was accepted, and takes its metrics over."""
        refused: Refused | None
        if self._waiting_bytes + len(data) > MAX_WAITING_BYTES:
            refused = Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many clients push at once")
        else:
            self._waiting_bytes += len(data)
            try:
                async with self._decoding:
                    refused = await self._decode(instance, push, data)
            finally:
                self._waiting_bytes -= len(data)
        if refused is not None:
            instance.last_error = refused.error
        return refused

    async def _decode(self, instance: ClientInstance, push: Push, data: bytes) -> Refused | None:
        share = self._cluster.share
        codec = Codec(push.compression_type)
        try:
            plain: bytes | memoryview = data
            if codec is not Codec.NONE:
                # Not on the thread of large batches, which would wait for it.
                plain = await asyncio.to_thread(decompress, codec, data, self.max_bytes)
            decoded: DecodedMetrics = await share.run(decode_metrics(plain))
        except (CorruptRecordsError, MalformedMetricsError) as error:
            return Refused(ErrorCode.INVALID_RECORD, str(error))
        except TooManyPointsError as error:
            return Refused(ErrorCode.TELEMETRY_TOO_LARGE, str(error))
        await share.run(self.series.add(instance, decoded, push.terminating, self._now_ms()))
        return None

    def end_of(self, connection: Endpoint) -> None:
        """A connection was closed."""
        self.instances.end_of(connection)
        self.series.end_of(connection)

    def tick(self) -> None:
        """Forgets clients that are silent."""
        now_ms = self._now_ms()
        self.instances.expire(now_ms)
        self.series.expire(now_ms)
