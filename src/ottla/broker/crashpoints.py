"""Named places at which a test can let the broker die: before and after everything that it writes or sends.

Outside of tests there is no listener, and a place costs one test of a variable. `tests/sim` crashes simulated nodes
here, and `ottla.testing.crash_injection` the real process.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class CrashPoint(Enum):
    """Every place; a campaign fails if it never got to one of them."""

    BEFORE_GROUP_APPEND = "before a group's events are appended"
    AFTER_GROUP_APPEND = "after a group's events were appended, before any response"
    BEFORE_ONGOING_APPEND = (
        "before the beginning of a transaction, or more partitions of it, is appended"
    )
    AFTER_ONGOING_APPEND = "after the beginning of a transaction was appended"
    BEFORE_EMPTY_APPEND = "before a producer's identity is appended"
    AFTER_EMPTY_APPEND = "after a producer's identity was appended"
    BEFORE_PREPARE_APPEND = "before the end of a transaction is prepared"
    AFTER_PREPARE_APPEND = "after the end of a transaction was prepared, before any response"
    BEFORE_MARKERS_SENT = "before markers leave the coordinator"
    AFTER_MARKERS_SENT = "after markers have left the coordinator"
    BEFORE_MARKER_APPEND = "before a marker is appended to a partition"
    AFTER_MARKER_APPEND = "after a marker was appended to a partition, before that is answered"
    AFTER_MARKERS_ANSWERED = "after the coordinator has heard of a marker"
    BEFORE_COMPLETE_APPEND = "before a transaction is noted as complete"
    AFTER_COMPLETE_APPEND = "after a transaction was noted as complete"
    BEFORE_VERIFICATION = "before the coordinator is asked about a partition"
    AFTER_VERIFICATION = "after the coordinator has answered about a partition"
    BEFORE_TRANSACTIONAL_APPEND = "before a client's transactional batch is appended"
    AFTER_TRANSACTIONAL_APPEND = "after a client's transactional batch was appended"


# Called at each place; a test sets it.
listener: Callable[[CrashPoint], None] | None = None


def reach(point: CrashPoint) -> None:
    """The broker is at a place where it may die."""
    if listener is not None:
        listener(point)
