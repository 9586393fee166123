"""The interface of custom assignors, and the assignors that are built in.

`partition.assignment.strategy` takes an `Assignor`, or the name of one of `ASSIGNORS`.
"""

from ottla.core.assignors.model import (
    Assignment,
    Assignor,
    Cluster,
    PartitionInfo,
    RebalanceProtocol,
    Subscription,
)
from ottla.core.assignors.registry import ASSIGNORS

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "Cluster",
    "PartitionInfo",
    "RebalanceProtocol",
    "Subscription",
]
