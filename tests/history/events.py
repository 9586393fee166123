"""What happened in a run, as every process of it noted it: one JSON object per line.

Every event has `at` (seconds of the machine's monotonic clock, the same for all processes), `worker` and `what`:

    begin      txn, id          a transaction begins; `txn` counts in its worker, `id` is the transactional id
    send       txn, value, topic, partition      noted before the client is called
    ack        txn, value, offset                the broker has confirmed it
    nack       txn, value, error                 the client reports an error: it may have been written nonetheless
    offsets    txn, group, offsets               [[topic, partition, offset], ...], noted before the client is called
    commit     txn                               noted before the client is called; without an end it is unknown
    committed  txn
    abort      txn
    aborted    txn
    failed     txn, call, error                  what a call inside of a transaction ended with
    seek       topic, partition, offset          a reader goes on from here
    poll       isolation, records                [[topic, partition, offset, value], ...]
    position   group, began, offsets             committed offsets as the group coordinator told them
    copying    group, source, target             set-up: this group copies a topic
    final_records     isolation, topic, partition, records      [[offset, value], ...]
    final_offsets     topic, partition, high_watermark, last_stable_offset
    final_committed   group, offsets
    final_transactions  states                   transactional id: state

Others (faults, errors, the proxy's deeds) are there to be read by people.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"


class Recorder:
    """Notes the events of one process; a kill -9 loses none that were noted."""

    def __init__(self, folder: Path, worker: str) -> None:
        self.worker = worker
        self._file = os.open(
            folder / f"{worker}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )

    def note(self, what: str, **fields: object) -> None:
        event = {"at": round(time.monotonic(), 6), "worker": self.worker, "what": what, **fields}
        os.write(self._file, json.dumps(event).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def load(folder: Path) -> list[Event]:
    """The history of a run, in the order of time."""
    events: list[Event] = []
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").split("\n")
        events += [json.loads(line) for line in lines[:-1]]  # a killed writer may leave half a line
    return in_order(events)


def in_order(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: float(event["at"]))
