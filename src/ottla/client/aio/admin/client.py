"""The asyncio admin client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, Unpack

from ottla.client.aio.admin.acls import AclCalls
from ottla.client.aio.admin.configs import ConfigCalls
from ottla.client.aio.admin.group_offsets import GroupOffsetCalls
from ottla.client.aio.admin.groups import GroupCalls
from ottla.client.aio.admin.offsets import OffsetCalls
from ottla.client.aio.admin.partitions import PartitionCalls
from ottla.client.aio.admin.quorum import QuorumCalls
from ottla.client.aio.admin.quotas import QuotaCalls
from ottla.client.aio.admin.requests import AdminRequests
from ottla.client.aio.admin.topics import TopicCalls
from ottla.client.aio.admin.transactions import TransactionCalls
from ottla.client.aio.admin.users import UserCalls
from ottla.client.aio.lifecycle import ClosedByBlock, check_loop
from ottla.client.aio.network.network import Network
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
    GroupOffsetCalls,
    OffsetCalls,
    TransactionCalls,
    QuorumCalls,
    AclCalls,
    UserCalls,
    QuotaCalls,
    ClosedByBlock,
):
    """Administers a cluster: topics, configs, groups, offsets, transactions, records, ACLs, users, quotas.

        async with ottla.aio.Admin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics([ottla.admin.NewTopic("orders", num_partitions=3)])

    A call about several topics, groups … returns a dict with an entry for each. If it fails for some of them, it raises
    PartialFailureError with `results` and `errors` by topic, group …; a call about a single one raises its error. Calls
    are retried until `default.api.timeout.ms` or `timeout` seconds are over.
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
        self._name = f"admin client {settings.client_id}"
        self._closed = False
        self._requests = AdminRequests(Network(settings), settings, self._check_open)

    def metrics(self) -> dict[str, float]:
        """Counts, rates and latencies of the requests of each API, such as `request-total{api=Metadata}`."""
        return self._requests.metrics.snapshot()

    async def close(self) -> None:
        """Close all connections; calls that are under way fail."""
        self._closed = True
        await self._requests.network.close()

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("the admin client is closed")
        check_loop(self._loop, self._name)
