"""A broker whose engine has no record in memory: every read is pending for some milliseconds first."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Self, cast

from tests.broker.requests import eventually, on_loop
from tests.storage.late_engine import LateReads, LateReadStore

import ottla
from ottla.broker.coordination.coordinator import Coordinator
from ottla.broker.node import Node
from ottla.broker.partitions import fetch_read
from ottla.broker.partitions.fetch_read import ParkedFetch
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, start_broker
from ottla.core.fetch import FetchLimits, must_wait
from ottla.core.fetch_session import FetchContext
from ottla.ports import LogStore

PATIENT_MS = 5000


class LateBroker(ottla.Broker):
    """A broker over an engine whose reads are late; it starts when its coordinators are loaded."""

    def start(self) -> Self:
        super().start()
        assert eventually(lambda: on_loop(self, _are_coordinators_loaded))
        return self

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        self.reads = LateReads(by_itself=True)
        return start_broker(settings, Instruments(wrap_store=self._wrap))

    def _wrap(self, store: LogStore) -> LogStore:
        return cast(LogStore, LateReadStore(store, self.reads))


def _are_coordinators_loaded(running: RunningBroker) -> bool:
    return all(
        isinstance(found, Coordinator) and found.is_loaded
        for server in running.servers.values()
        for kind in (server.node.groups, server.node.transactions)
        for found in kind.load_all()
    )


# Tests fetch without a wait what they know to be there. Each such fetch would be answered without records, and would
# have to be repeated.

_park = fetch_read.park


def must_wait_for_engine(limits: FetchLimits, size_bytes: int, is_pending: bool = False) -> bool:
    return (is_pending and not size_bytes) or must_wait(limits, size_bytes, is_pending)


def park_for_engine(
    node: Node, context: FetchContext, limits: FetchLimits, missing_bytes: int
) -> ParkedFetch:
    patient = limits._replace(max_wait_ms=limits.max_wait_ms or PATIENT_MS)
    return _park(node, context, patient, missing_bytes)
