"""The asyncio admin client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, Unpack

from ottla.client.aio.admin.configs import ConfigCalls
from ottla.client.aio.admin.groups import GroupCalls
from ottla.client.aio.admin.offsets import OffsetCalls
from ottla.client.aio.admin.partitions import PartitionCalls
from ottla.client.aio.admin.producers import ProducerCalls
from ottla.client.aio.admin.records import RecordCalls
from ottla.client.aio.admin.topics import TopicCalls
from ottla.client.aio.admin.transactions import TransactionCalls
from ottla.client.aio.lifecycle import ClosedByBlock, check_loop
from ottla.client.aio.network.brokers import Network
from ottla.config.admin import AdminConfig
from ottla.config.client import read_client_config
from ottla.errors import IllegalStateError

if TYPE_CHECKING:
    from ottla.config.option_types import AdminOptions


class Admin(
    TopicCalls,
    PartitionCalls,
    ConfigCalls,
    GroupCalls,
    OffsetCalls,
    TransactionCalls,
    ProducerCalls,
    RecordCalls,
    ClosedByBlock,
):
    """Looks after a cluster: topics, configs, groups, offsets, transactions, records.

        async with ottla.aio.Admin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics([ottla.admin.NewTopic("orders", num_partitions=3)])

    Calls about several things give a dict, one entry each. If any of them fails, the call raises
    PartialFailureError, which has the `results` and the `errors` by thing; if there is just one thing, it raises
    that thing's own error. Calls are repeated until `default.api.timeout.ms`, or `timeout` seconds are over.
    """

    def __init__(
        self,
        config: Mapping[str, object] | AdminConfig | None = None,
        /,
        **options: Unpack[AdminOptions],
    ) -> None:
        settings = read_client_config(AdminConfig, config, options)
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise IllegalStateError(
                "ottla.aio.Admin is made inside a running event loop; ottla.Admin needs none"
            ) from None
        super().__init__(Network(settings), settings)

    def _check_open(self) -> None:
        super()._check_open()
        check_loop(self._loop, f"admin client {self._config.client_id}")

    async def close(self) -> None:
        """Closes all connections; calls that are under way fail."""
        self._closed = True
        await self._network.close()

    async def __aenter__(self) -> Self:
        self._check_open()
        return self
