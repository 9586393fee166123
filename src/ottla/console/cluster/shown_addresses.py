"""The addresses of brokers that the console of their own process reaches: those that others use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ottla import in_process
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.model import Endpoint


def with_addresses(snapshot: ClusterSnapshot, addresses: Mapping[int, Endpoint]) -> ClusterSnapshot:
    """The same, with addresses that mean something to people."""
    if not addresses:
        return snapshot
    brokers = {
        broker_id: each._replace(host=addresses[broker_id].host, port=addresses[broker_id].port)
        if broker_id in addresses and in_process.is_here(each.host)
        else each
        for broker_id, each in snapshot.brokers.items()
    }
    return replace(snapshot, brokers=brokers)
