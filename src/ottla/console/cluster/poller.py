"""The one that asks the cluster, however many browsers look."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from ottla.client.admin_model.offsets import IsolationLevel, OffsetSpec
from ottla.client.admin_model.transactions import TransactionState
from ottla.client.aio.admin.client import Admin
from ottla.console.clients import Clients
from ottla.console.cluster.answers import ClusterAnswers
from ottla.console.cluster.history import ClusterHistory
from ottla.console.cluster.snapshot import ClusterSnapshot, Part
from ottla.console.cluster.snapshot_of import snapshot_of
from ottla.console.http.errors import ApiError
from ottla.console.http.live import LiveEvents
from ottla.console.http.routes import ServerEvent
from ottla.errors import OttlaError
from ottla.events import EventLog
from ottla.model import TopicPartition

logger = EventLog(__name__)

WATCHED_SECONDS: Final = 2.0
UNWATCHED_SECONDS: Final = 30.0
# The console uses at most this part of a cluster's time.
MAX_SHARE: Final = 1 / 20


class ClusterPoller:
    """Makes a snapshot of the cluster now and then: often while somebody looks, seldom otherwise."""

    def __init__(self, clients: Clients, live: LiveEvents, history: ClusterHistory) -> None:
        self._clients = clients
        self._history = history
        self._live = live
        self._task: asyncio.Task[None] | None = None
        self._snapshot: ClusterSnapshot | None = None
        self._hurry = asyncio.Event()

    @property
    def snapshot(self) -> ClusterSnapshot | None:
        """The newest; None before the cluster answered for the first time."""
        return self._snapshot

    def current(self) -> ClusterSnapshot:
        """The newest; an error that says so before the cluster answered for the first time."""
        if self._snapshot is None:
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the cluster has not answered yet",
                "the console goes on trying: look again in a moment",
            )
        return self._snapshot

    def poll_soon(self) -> None:
        """Look at the cluster at once, because something was changed."""
        self._hurry.set()

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            began = time.monotonic()
            await self._poll()
            took = time.monotonic() - began
            await self._pause(max(WATCHED_SECONDS, took / MAX_SHARE))

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)
            self._hurry.clear()
            return
        if not self._live.watcher_count:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._live.wait_for_watcher(), UNWATCHED_SECONDS - seconds)

    async def _poll(self) -> None:
        version = 1 if self._snapshot is None else self._snapshot.version + 1
        try:
            answers = await _ask(self._clients.admin())
        except OttlaError as error:
            self._history.add_gap(int(time.time() * 1000))
            self._tell({"state": "unreachable", "reason": str(error)})
            return
        self._snapshot = found = snapshot_of(answers, version, int(time.time() * 1000))
        self._history.add(found)
        self._tell(
            {
                "state": "connected",
                "version": version,
                "at_ms": found.at_ms,
                "problems": found.problems,
            }
        )

    def _tell(self, state: dict[str, object]) -> None:
        self._live.send(ServerEvent("snapshot", state), is_state=True)


async def _ask(admin: Admin) -> ClusterAnswers:
    cluster = await admin.describe_cluster()
    listed = await admin.list_topics(list_internal=True)
    topics = await admin.describe_topics(list(listed))
    partitions = [
        TopicPartition(name, each.partition)
        for name, topic in topics.items()
        for each in topic.partitions
        if each.leader is not None
    ]
    groups = await admin.list_groups()
    committed = await admin.list_consumer_group_offsets(list(groups))
    transactions = await admin.list_transactions(states=[TransactionState.ONGOING])
    return ClusterAnswers(
        cluster,
        topics,
        start_offsets=await _offsets(admin, partitions, OffsetSpec.EARLIEST),
        end_offsets=await _offsets(admin, partitions, OffsetSpec.LATEST),
        stable_offsets=await _offsets(
            admin, partitions, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED
        ),
        log_dirs=await admin.describe_log_dirs(),
        groups=groups,
        committed={
            group: {
                partition: offset.offset
                for partition, offset in offsets.items()
                if offset is not None
            }
            for group, offsets in committed.items()
        },
        transactions=transactions,
        described=await admin.describe_transactions(list(transactions)),
        told_at_ms=dict.fromkeys(Part, int(time.time() * 1000)),
    )


async def _offsets(
    admin: Admin,
    partitions: list[TopicPartition],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(dict.fromkeys(partitions, spec), isolation_level=isolation)
    return {partition: listed.offset for partition, listed in found.items()}
