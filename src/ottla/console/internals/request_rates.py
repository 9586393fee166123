"""How much a broker does: the differences of the counts of two reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.console.internals.report import ApiCounts, BrokerReport, Durations

# Fetches of consumers wait for records as long as they like: their time says nothing of the broker.
WAITING_APIS: Final = frozenset({"Fetch", "ShareFetch", "JoinGroup", "SyncGroup"})


@dataclass(frozen=True)
class ApiRates:
    """One API on all nodes: since the report before, but for `received` and `errors`, which are since the start."""

    api: str
    received: int
    waiting: int
    per_second: float
    errors_per_second: float
    errors: Mapping[str, int]
    median_ms: float | None
    p99_ms: float | None
    mean_ms: float | None


@dataclass(frozen=True)
class BrokerRates:
    """What the broker did between two reports; latencies leave out the APIs that wait for records or members."""

    at_ms: int
    seconds: float
    requests_per_second: float
    errors_per_second: float
    received_bytes_per_second: float
    sent_bytes_per_second: float
    connections: int
    median_ms: float | None
    p99_ms: float | None
    held_ms: float
    """The worst hold of the loop in the stretch of time that is not over."""
    apis: tuple[ApiRates, ...]
    """The busiest first."""


def rates_between(before: BrokerReport | None, now: BrokerReport) -> BrokerRates | None:
    """The rates; None if the broker has been started since, so that there is nothing to compare with."""
    if before is None or before.instance != now.instance or now.at_ms <= before.at_ms:
        return None
    seconds = (now.at_ms - before.at_ms) / 1000
    old, new = _by_api(before), _by_api(now)
    apis = [_rates_of(counts, old.get(api), seconds) for api, counts in new.items()]
    spans = [
        counts.durations.since(old[api].durations if api in old else None)
        for api, counts in new.items()
        if api not in WAITING_APIS
    ]
    durations = _joined(spans)
    return BrokerRates(
        at_ms=now.at_ms,
        seconds=seconds,
        requests_per_second=sum(each.per_second for each in apis),
        errors_per_second=sum(each.errors_per_second for each in apis),
        received_bytes_per_second=_grown(before, now, "received_bytes") / seconds,
        sent_bytes_per_second=_grown(before, now, "sent_bytes") / seconds,
        connections=sum(node.connections for node in now.nodes),
        median_ms=None if durations is None else durations.quantile_ms(0.5),
        p99_ms=None if durations is None else durations.quantile_ms(0.99),
        held_ms=now.loop.intervals[-1].held_ms if now.loop.intervals else 0.0,
        apis=tuple(sorted(apis, key=lambda each: (-each.per_second, -each.received, each.api))),
    )


def _by_api(report: BrokerReport) -> dict[str, ApiCounts]:
    """The counts of all nodes together."""
    found: dict[str, ApiCounts] = {}
    for node in report.nodes:
        for counts in node.requests:
            known = found.get(counts.api)
            found[counts.api] = counts if known is None else _sum(known, counts)
    return found


def _sum(one: ApiCounts, other: ApiCounts) -> ApiCounts:
    durations = _joined([one.durations, other.durations])
    assert durations is not None
    return ApiCounts(
        one.api,
        one.received + other.received,
        one.waiting + other.waiting,
        one.without_response + other.without_response,
        Counter(one.errors) + Counter(other.errors),
        durations,
    )


def _joined(some: list[Durations]) -> Durations | None:
    if not some:
        return None
    counts = [sum(column) for column in zip(*(each.counts for each in some), strict=True)]
    return Durations(some[0].bounds_ms, counts, sum(each.total_ms for each in some))


def _rates_of(now: ApiCounts, before: ApiCounts | None, seconds: float) -> ApiRates:
    span = now.durations.since(None if before is None else before.durations)
    received = now.received - (0 if before is None else before.received)
    failed = sum(now.errors.values()) - (0 if before is None else sum(before.errors.values()))
    return ApiRates(
        api=now.api,
        received=now.received,
        waiting=now.waiting,
        per_second=max(0, received) / seconds,
        errors_per_second=max(0, failed) / seconds,
        errors=now.errors,
        median_ms=span.quantile_ms(0.5),
        p99_ms=span.quantile_ms(0.99),
        mean_ms=span.total_ms / span.count if span.count else None,
    )


def _grown(before: BrokerReport, now: BrokerReport, name: str) -> int:
    old = {node.node_id: getattr(node, name) for node in before.nodes}
    return sum(
        max(0, getattr(node, name) - old.get(node.node_id, 0))
        for node in now.nodes
        if node.node_id in old
    )
