"""What the members of a group did, as they reported it, and who owns which partition."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ottla.model import TopicPartition

SHOWN = 60
CHECK_SECONDS = 0.05

# What a worker reports.
ASSIGNED = "assigned"  # the partitions came, in addition to those that it has
REVOKED = "revoked"  # the partitions go, with the group's consent
LOST = "lost"  # the partitions are gone: somebody else may have them already
RECORD = "record"
COMMITTED = "committed"
COMMIT_FAILED = "commit-failed"
LEFT = "left"
DIED = "died"  # its process ended, and nobody asked it to
# What the test did to it.
KILLED = "killed"
PAUSED = "paused"
RESUMED = "resumed"

REPORTED = (ASSIGNED, REVOKED, LOST, RECORD, COMMITTED, COMMIT_FAILED, LEFT)
ENDS_ALL = {LEFT, KILLED, PAUSED}


@dataclass(frozen=True)
class Event:
    """One line; `time` is the system's monotonic clock, which all processes share."""

    time: float
    worker: str
    kind: str
    partitions: tuple[TopicPartition, ...] = ()
    generation: int = -1
    member_id: str = ""
    # Of a static member, whose successor has another member id in the same generation.
    instance_id: str = ""
    # Of a record; of a commit the end offset of each partition, and when it was sent.
    offset: int = -1
    value: str = ""
    offsets: tuple[int, ...] = ()
    began: float = 0.0
    error: str = ""

    @classmethod
    def parse(cls, worker: str, line: str) -> Event:
        fields: dict[str, Any] = json.loads(line)
        partitions = tuple(TopicPartition(*pair) for pair in fields.pop("partitions", ()))
        offsets = tuple(fields.pop("offsets", ()))
        return cls(worker=worker, partitions=partitions, offsets=offsets, **fields)


Owners = dict[str, set[TopicPartition]]


class Ownership:
    """Who owns what, event by event."""

    def __init__(self) -> None:
        # Workers that are alive and take part; one that owns nothing has an empty set.
        self.owned: Owners = {}
        self._away: set[str] = set()

    def apply(self, event: Event) -> None:
        if event.kind == ASSIGNED:
            self._away.discard(event.worker)
            self.owned.setdefault(event.worker, set()).update(event.partitions)
        elif event.kind in (REVOKED, LOST):
            # A paused worker that comes back is told what it lost long ago.
            self.owned.get(event.worker, set()).difference_update(event.partitions)
        elif event.kind in ENDS_ALL:
            self.owned.pop(event.worker, None)
            self._away.add(event.worker)


class History:
    """Events in the order in which they arrived here; threads append, the test waits."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._ownership = Ownership()
        self._changed = threading.Condition()

    def add(self, event: Event) -> None:
        with self._changed:
            self._events.append(event)
            self._ownership.apply(event)
            self._changed.notify_all()

    def note(self, worker: str, kind: str) -> None:
        """Adds what the test did to a worker."""
        self.add(Event(time.monotonic(), worker, kind))

    @property
    def events(self) -> list[Event]:
        with self._changed:
            return list(self._events)

    def of(self, worker: str, *kinds: str) -> list[Event]:
        return [one for one in self.events if one.worker == worker and one.kind in kinds]

    def since(self, moment: float, *kinds: str) -> list[Event]:
        return [one for one in self.events if one.time >= moment and one.kind in kinds]

    @property
    def owners(self) -> Owners:
        with self._changed:
            return {worker: set(owned) for worker, owned in self._ownership.owned.items()}

    def wait(self, what: str, holds: Callable[[], bool], seconds: float) -> None:
        """Returns when it holds; fails with the end of the story when it does not come to hold."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not holds():
                dead = [event.worker for event in self._events if event.kind == DIED]
                assert not dead, f"{dead} died\n{self.tail()}"
                if time.monotonic() > deadline:
                    raise TimeoutError(f"after {seconds} s not {what}\n{self.tail()}")
                self._changed.wait(CHECK_SECONDS)

    def tail(self) -> str:
        """The last events, for a person; records and commits are only counted."""
        lines: list[str] = []
        quiet: dict[str, int] = {}
        for event in self.events:
            if event.kind in (RECORD, COMMITTED):
                key = f"{event.worker} {event.kind} in {event.generation}"
                quiet[key] = quiet.get(key, 0) + 1
                continue
            lines += [f"    {count} x {key}" for key, count in quiet.items()]
            quiet.clear()
            lines.append(_line(event))
        lines += [f"    {count} x {key}" for key, count in quiet.items()]
        owners = {worker: sorted(owned) for worker, owned in self.owners.items()}
        return "\n".join([*lines[-SHOWN:], f"owners: {owners}"])

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)


def _line(event: Event) -> str:
    where = ",".join(f"{topic[-12:]}/{partition}" for topic, partition in event.partitions)
    text = f"{event.time:.3f} {event.worker} {event.kind} in {event.generation}"
    return f"{text} {event.member_id[-8:]} [{where}] {event.error}".rstrip()
