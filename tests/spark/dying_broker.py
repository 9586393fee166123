"""Brokers that die where a commit writes, and somebody who starts them again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.processes import BrokerProcess

from ottla.broker.crashpoints import CrashPoint

# Places that a commit of one node passes.
PLACES = [
    CrashPoint.BEFORE_EMPTY_APPEND,
    CrashPoint.AFTER_EMPTY_APPEND,
    CrashPoint.BEFORE_ONGOING_APPEND,
    CrashPoint.AFTER_ONGOING_APPEND,
    CrashPoint.BEFORE_TRANSACTIONAL_APPEND,
    CrashPoint.AFTER_TRANSACTIONAL_APPEND,
    CrashPoint.BEFORE_GROUP_APPEND,
    CrashPoint.AFTER_GROUP_APPEND,
    CrashPoint.BEFORE_PREPARE_APPEND,
    CrashPoint.AFTER_PREPARE_APPEND,
    CrashPoint.BEFORE_MARKERS_SENT,
    CrashPoint.BEFORE_MARKER_APPEND,
    CrashPoint.AFTER_MARKER_APPEND,
    CrashPoint.BEFORE_COMPLETE_APPEND,
    CrashPoint.AFTER_COMPLETE_APPEND,
]


def crash_at(broker: BrokerProcess, place: CrashPoint) -> None:
    """Start the broker so that it dies there; the identity of the pipeline is written once."""
    broker.kill()
    # The first micro-batch begins with a fence, the third is like all that follow.
    broker.crash_at = (place, 1 if "EMPTY" in place.name else 3)
    broker.start()


@contextmanager
def revived(broker: BrokerProcess) -> Iterator[None]:
    """Somebody who starts the broker again when it has died."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.05):
            if broker.has_crashed():
                broker.start()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
