"""A kill at any step of a cleaning of transactions: readers find every committed record, and no aborted one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.broker.compacted import CompactedLog, Producer
from tests.storage.batches import SteppingClock
from tests.storage.conftest import crash_copy, is_about

from ottla.records.batch import BatchFlag
from ottla.records.control import MarkerType
from ottla.storage.local import open_local_store

STEPS = ("rename", "fsync", "unlink")
FIRST = Producer(7, 0, 0, BatchFlag.TRANSACTIONAL)
SECOND = Producer(8, 0, 0, BatchFlag.TRANSACTIONAL)


def write_history(log: CompactedLog) -> dict[bytes, bytes]:
    """Committed and aborted transactions over six segments; answers the last committed values."""
    log.append(*((b"k%d" % key, b"first") for key in range(20)))
    log.roll()
    log.append((b"k1", b"second"), (b"t1", b"one"), producer=FIRST)
    log.append((b"k2", b"never"), (b"t2", b"never"), producer=SECOND)
    log.roll()
    log.append((b"k3", b"second"))
    log.end_transaction(SECOND, MarkerType.ABORT)
    log.roll()
    log.append((b"t1", b"two"), (b"k4", b"second"), producer=FIRST._replace(sequence=2))
    log.end_transaction(FIRST, MarkerType.COMMIT)
    log.roll()
    log.append((b"k5", b"never"), producer=SECOND._replace(sequence=2))
    log.roll()
    log.end_transaction(SECOND, MarkerType.ABORT)
    log.append((b"k6", b"second"), (b"k0", None))
    log.roll()
    changed = {b"k%d" % key: b"second" for key in (1, 3, 4, 6)}
    return {b"k%d" % key: b"first" for key in range(1, 20)} | changed | {b"t1": b"two"}


def values_of(log: CompactedLog) -> dict[bytes, bytes]:
    latest = {record.key: record.value for record in log.committed() if record.key is not None}
    return {key: value for key, value in latest.items() if value is not None}


def test_every_step_of_a_cleaning_may_be_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppingClock()
    store = open_local_store(tmp_path / "data", clock=clock)
    # Two segments fit into one: the cleaning consists of several replacements.
    log = CompactedLog(store, clock, {"segment.bytes": "900"})
    expected = write_history(log)
    copies: list[Path] = []

    def spying(real: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if is_about(tmp_path / "data", arguments[0]):
                copies.append(crash_copy(tmp_path / "data", tmp_path / f"crash-{len(copies)}"))
            return real(*arguments, **keywords)

        return call

    with monkeypatch.context() as patched:
        for name in STEPS:
            patched.setattr(os, name, spying(getattr(os, name)))
        assert log.clean()
    cleaned_count = len(log.records())
    state = {producer.producer_id: producer.last_sequence for producer in log.replayed().producers}
    store.close()
    assert len(copies) > 40
    for number, folder in enumerate(copies):
        with_clock = open_local_store(folder, clock=clock)
        again = CompactedLog(with_clock, clock)
        assert values_of(again) == expected, number
        assert again.replayed().producers.first_open_offset is None, number
        again.clean_all()
        assert values_of(again) == expected, number
        assert len(again.records()) == cleaned_count, number
        assert {
            producer.producer_id: producer.last_sequence for producer in again.replayed().producers
        } == state, number
        with_clock.close()
