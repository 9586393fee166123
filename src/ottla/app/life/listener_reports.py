"""Reports of running listeners: what the engine knows, as reasons for people that stay the same while they last."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from time import monotonic
from typing import Final

from ottla.app.declarations.listener_spec import ListenerSpec, Order
from ottla.app.life.listener_report import ListenerReport, Stall
from ottla.app.listening.listener_health import ListenerHealth, ListenerStatus, PartitionHealth
from ottla.app.listening.listener_run import ListenerRun
from ottla.model import TopicPartition

_GROWING: Final = re.compile(r"\d+(?:\.\d+)? (?:s|times)\b")


class ListenerReports:
    """Makes reports; remembers since when partitions have not moved. All calls are on the app's loop."""

    def __init__(self, stall_seconds: float, *, now: Callable[[], float] = monotonic) -> None:
        self._stall_seconds = stall_seconds
        self._now = now
        self._stuck_since: dict[tuple[str, TopicPartition], tuple[int, float]] = {}

    def starting(self, specs: Sequence[ListenerSpec]) -> list[ListenerReport]:
        """The reports of listeners that have not started yet."""
        return [
            ListenerReport(name=spec.name, group=spec.group, status=ListenerStatus.STARTING)
            for spec in specs
        ]

    def of(self, runs: Sequence[ListenerRun]) -> list[ListenerReport]:
        """The reports of running listeners."""
        return [self._report(run.spec, run.health(), run.counters.rebalances) for run in runs]

    def _report(
        self, spec: ListenerSpec, health: ListenerHealth, rebalances: int
    ) -> ListenerReport:
        status, consumer = health.status, health.consumer
        if not rebalances and status in (ListenerStatus.RUNNING, ListenerStatus.STALLED):
            # It has joined no group yet.
            status = ListenerStatus.STARTING
        has_failed = status is ListenerStatus.FAILED
        stalls = [] if has_failed else [_stall(spec, reason) for reason in health.reasons]
        stalls += self._partition_stalls(spec, health.partitions)
        return ListenerReport(
            name=spec.name,
            group=spec.group,
            status=status,
            partitions=len(health.partitions),
            rebalances=rebalances,
            lag={} if consumer is None else consumer.lag,
            stalls=tuple(stalls),
            failure=health.reason if has_failed else None,
            seconds_without_broker=(consumer.seconds_without_broker or 0.0) if consumer else 0.0,
        )

    def _partition_stalls(
        self, spec: ListenerSpec, partitions: Sequence[PartitionHealth]
    ) -> Iterator[Stall]:
        for each in partitions:
            key, first = (spec.name, each.partition), each.first_unfinished
            if first is None:
                self._stuck_since.pop(key, None)
                continue
            known = self._stuck_since.get(key)
            if known is None or known[0] != first:
                known = self._stuck_since[key] = (first, self._now())
            seconds = self._now() - known[1]
            if seconds >= self._stall_seconds and (reason := _reason(spec, each)):
                yield _stall(spec, f"{each.partition} {reason}, since {seconds:.0f} s")


def _reason(spec: ListenerSpec, partition: PartitionHealth) -> str | None:
    """Why a partition does not move; None if other records of it go on, or if its handler runs."""
    first = partition.first_unfinished
    if partition.retry_due_ms is not None and (partition.is_full or spec.order is Order.PARTITION):
        due = datetime.fromtimestamp(partition.retry_due_ms / 1000)
        return f"waits for the retry of offset {first}, which is due at {due:%H:%M:%S}"
    if partition.is_full:
        return f"takes no new records, because offset {first} is not finished"
    return None


def _stall(spec: ListenerSpec, reason: str) -> Stall:
    # The same stall has the same key at every look: what follows its duration or the number of its attempts, such as
    # the addresses that were tried, may come in another order.
    return Stall(f"{spec.name} {_GROWING.split(reason)[0]}", f"listener {spec.name}: {reason}")
