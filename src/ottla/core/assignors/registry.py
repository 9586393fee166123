"""Kafka's assignors by their names."""

from __future__ import annotations

from collections.abc import Callable

from ottla.core.assignors.model import Assignor
from ottla.core.assignors.ranges import RangeAssignor
from ottla.core.assignors.round_robin import RoundRobinAssignor
from ottla.core.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

ASSIGNORS: dict[str, Callable[[], Assignor]] = {
    RangeAssignor.name: RangeAssignor,
    RoundRobinAssignor.name: RoundRobinAssignor,
    StickyAssignor.name: StickyAssignor,
    CooperativeStickyAssignor.name: CooperativeStickyAssignor,
}
