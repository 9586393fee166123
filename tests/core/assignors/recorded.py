"""Groups that each show one rule of the sticky algorithm, and what Kafka answers to them."""

from __future__ import annotations

from typing import NamedTuple

from tests.core.assignors.notation import claims, cluster, wants

from ottla.core.assignors.model import Cluster, PartitionInfo, Subscription


class Recorded(NamedTuple):
    rule: str
    topics: Cluster
    group: dict[str, Subscription]
    shares: dict[str, str]


RECORDED = [
    Recorded(
        "what is near to the fewest members is dealt first",
        {"t": [PartitionInfo(0, ("b", "c")), PartitionInfo(1, ("c",))]},
        {"c0": wants("t", rack="c"), "c1": wants("t", rack="b")},
        {"c0": "t-1", "c1": "t-0"},
    ),
    Recorded(
        "a partition goes rather to who had it in an older generation",
        cluster(t0=1, t1=1),
        {
            "c0": claims("sticky", "t1", "t0-0", 1),
            "c1": claims("sticky", "t1", "t1-0", 1),
            "c2": claims("sticky", "t0 t1", "t0-0 t1-0", 2),
        },
        {"c0": "", "c1": "t1-0", "c2": "t0-0"},
    ),
    Recorded(
        "what nobody owned moves before what somebody owned",
        cluster(t0=2, t1=5),
        {
            "c0": claims("sticky", "t1", "", 1),
            "c1": claims("sticky", "t0 t1", "t0-0 t0-1 t1-1 t1-2 t1-3 t1-4", 2),
            "c2": claims("sticky", "t0 t1", "t1-3", 1),
            "c3": claims("sticky", "t0", "t0-1 t1-1 t1-4", 2),
        },
        {"c0": "t1-0 t1-1", "c1": "t1-2 t1-3", "c2": "t1-4 t0-0", "c3": "t0-1"},
    ),
    Recorded(
        "unless something is taken from a member anyway",
        cluster(t0=2, t1=3, t2=2),
        {
            "c0": claims("sticky", "t0 t2", "t0-0 t0-1 t1-0 t1-1 t2-0", 1),
            "c1": claims("sticky", "t1 t2", "", 2),
            "c2": claims("sticky", "t0 t1", "t1-2 t2-1", 2),
        },
        {"c0": "t0-1 t2-0", "c1": "t1-0 t1-1 t2-1", "c2": "t1-2 t0-0"},
    ),
    # When c0 gets one of t0 back from c2 it is one of its own, t0-2, and not t0-0.
    Recorded(
        "two members do not exchange partitions of one topic",
        cluster(t0=5, t1=3),
        {
            "c0": claims("sticky", "t0 t1", "t0-1 t0-2 t0-4 t1-0 t1-1 t1-2"),
            "c1": claims("sticky", "t1", "t0-0 t0-3"),
            "c2": claims("sticky", "t0", ""),
        },
        {"c0": "t0-4 t1-2 t0-2", "c1": "t1-0 t1-1", "c2": "t0-0 t0-3 t0-1"},
    ),
]
