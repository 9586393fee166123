"""What must hold of the story of a group; each function answers with what does not, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from tests.groups.history import (
    ASSIGNED,
    COMMITTED,
    ENDS_ALL,
    LEFT,
    LOST,
    RECORD,
    RESUMED,
    REVOKED,
    Event,
    Owners,
)

from ottla.model import TopicPartition

# Partition → the values that were acknowledged, by offset.
Produced = Mapping[TopicPartition, Mapping[int, str]]
SHOWN = 5


def _some(found: list[str]) -> list[str]:
    more = len(found) - SHOWN
    return found if more <= 0 else [*found[:SHOWN], f"… and {more} more like the last"]


def _records(events: Iterable[Event]) -> list[tuple[TopicPartition, Event]]:
    return [(event.partitions[0], event) for event in events if event.kind == RECORD]


def lost_records(events: Iterable[Event], produced: Produced) -> list[str]:
    """Records that nobody processed."""
    seen = {(partition, event.offset) for partition, event in _records(events)}
    return _some(
        [
            f"lost: {partition} offset {offset}"
            for partition, values in produced.items()
            for offset in values
            if (partition, offset) not in seen
        ]
    )


def invented_records(events: Iterable[Event], produced: Produced) -> list[str]:
    """Records that were not sent, or are not what was sent."""
    return _some(
        [
            f"invented: {partition} offset {event.offset} {event.value!r} by {event.worker}"
            for partition, event in _records(events)
            if produced.get(partition, {}).get(event.offset) != event.value
        ]
    )


def repeated_records(events: Iterable[Event]) -> list[str]:
    """Records that were processed more than once: wrong where everybody commits before it gives up."""
    workers: dict[tuple[TopicPartition, int], list[str]] = defaultdict(list)
    for partition, event in _records(events):
        workers[partition, event.offset].append(f"{event.worker} in {event.generation}")
    return _some(
        [
            f"repeated: {partition} offset {offset} by {', '.join(names)}"
            for (partition, offset), names in workers.items()
            if len(names) > 1
        ]
    )


def shared_generations(events: Iterable[Event]) -> list[str]:
    """Partitions of which two members processed records in one generation."""
    members: dict[tuple[TopicPartition, int], dict[str, str]] = defaultdict(dict)
    for partition, event in _records(events):
        # A client that lost its membership and does not know it yet may have no generation.
        if event.generation >= 0:
            member = event.instance_id or event.member_id
            members[partition, event.generation][member] = event.worker
    return _some(
        [
            f"shared: {partition} in generation {generation} by {', '.join(names.values())}"
            for (partition, generation), names in members.items()
            if len(names) > 1
        ]
    )


class _Stint(NamedTuple):
    worker: str
    began: float
    ended: float


def _stints(events: Iterable[Event]) -> dict[TopicPartition, list[_Stint]]:
    """When each partition was whose; pausing and killing a worker ends what it had."""
    running: dict[tuple[str, TopicPartition], float] = {}
    stints: dict[TopicPartition, list[_Stint]] = defaultdict(list)
    for event in events:
        if event.kind == ASSIGNED:
            for partition in event.partitions:
                running[event.worker, partition] = event.time
            continue
        if event.kind in (REVOKED, LOST):
            ended = [(event.worker, partition) for partition in event.partitions]
        elif event.kind in ENDS_ALL:
            ended = [key for key in running if key[0] == event.worker]
        else:
            continue
        for key in ended:
            if key in running:
                stints[key[1]].append(_Stint(key[0], running.pop(key), event.time))
    for (worker, partition), began in running.items():
        stints[partition].append(_Stint(worker, began, float("inf")))
    return stints


def overlapping_stints(events: Iterable[Event]) -> list[str]:
    """Partitions that two workers held at the same time, none of them killed or paused."""
    found = []
    for partition, stints in _stints(events).items():
        ordered = sorted(stints, key=lambda stint: stint.began)
        for one, other in pairwise(ordered):
            if other.began < one.ended:
                held = "ever" if one.ended == float("inf") else f"{one.ended:.3f}"
                found.append(
                    f"overlap: {partition} went to {other.worker} at {other.began:.3f},"
                    f" {one.worker} held it until {held}"
                )
    return _some(found)


def unowned_records(events: Iterable[Event]) -> list[str]:
    """Records that a worker processed although the partition was not its own, by its own report."""
    owned: dict[str, set[TopicPartition]] = defaultdict(set)
    found = []
    for event in events:
        if event.kind == ASSIGNED:
            owned[event.worker].update(event.partitions)
        elif event.kind in (REVOKED, LOST):
            owned[event.worker].difference_update(event.partitions)
        elif event.kind == RECORD and event.partitions[0] not in owned[event.worker]:
            found.append(f"unowned: {event.partitions[0]} offset {event.offset} by {event.worker}")
    return _some(found)


def skipped_records(events: Iterable[Event]) -> list[str]:
    """Places where one worker went on in a partition, and not with the next record."""
    expected: dict[tuple[str, TopicPartition], int] = {}
    found = []
    for event in events:
        if event.kind in (ASSIGNED, REVOKED, LOST):
            for partition in event.partitions:
                expected.pop((event.worker, partition), None)
        elif event.kind == RECORD:
            partition = event.partitions[0]
            want = expected.get((event.worker, partition), event.offset)
            if event.offset != want:
                found.append(f"skipped: {partition} {want} to {event.offset} by {event.worker}")
            expected[event.worker, partition] = event.offset + 1
    return _some(found)


def stale_commits(events: Iterable[Event]) -> list[str]:
    """Commits that were taken from a member after its partition had gone to a newer generation."""
    events = list(events)
    granted: dict[TopicPartition, list[Event]] = defaultdict(list)
    for event in events:
        if event.kind == ASSIGNED:
            for partition in event.partitions:
                granted[partition].append(event)
    found = []
    for event in events:
        if event.kind != COMMITTED or event.generation < 0:
            continue
        for partition in event.partitions:
            newer = [
                grant
                for grant in granted[partition]
                if grant.worker != event.worker
                and grant.generation > event.generation
                and grant.time < event.began
            ]
            if newer:
                found.append(
                    f"stale: {event.worker} committed {partition} in {event.generation}"
                    f" after {newer[0].worker} got it in {newer[0].generation}"
                )
    return _some(found)


def incomplete_assignment(owners: Owners, partitions: Iterable[TopicPartition]) -> list[str]:
    """Partitions that nobody or several own, and members that idle where there is work for all."""
    partitions = set(partitions)
    found = []
    for partition in sorted(partitions):
        holders = [worker for worker, owned in owners.items() if partition in owned]
        if len(holders) != 1:
            found.append(f"assignment: {partition} is owned by {holders or 'nobody'}")
    for worker, owned in owners.items():
        if owned - partitions:
            found.append(f"assignment: {worker} owns {sorted(owned - partitions)}")
        if not owned and len(owners) <= len(partitions):
            found.append(f"assignment: {worker} owns nothing")
    return _some(found)


def problems(events: Iterable[Event], produced: Produced) -> list[str]:
    """What never may be, whatever happened to the members."""
    events = list(events)
    return [
        *lost_records(events, produced),
        *invented_records(events, produced),
        *shared_generations(events),
        *overlapping_stints(events),
        *unowned_records(events),
        *skipped_records(events),
        *stale_commits(events),
    ]


def faults(events: Iterable[Event]) -> list[str]:
    """Signs that a worker was killed, paused or thrown out.

    A cooperative member that is closed while the group rebalances, because another one left a moment before, calls
    what it owns lost, as Java's does: that is a fault only if it has no generation any more or goes on afterwards.
    """
    found = []
    leaving: set[str] = set()
    for event in reversed(list(events)):
        if event.kind == RESUMED or (
            event.kind == LOST and (event.worker not in leaving or event.generation < 0)
        ):
            found.append(f"fault: {event.worker} {event.kind} at {event.time:.3f}")
        if event.kind == LEFT:
            leaving.add(event.worker)
        else:
            leaving.discard(event.worker)
    return found[::-1]


def problems_without_faults(events: Iterable[Event], produced: Produced) -> list[str]:
    """As above, where nobody was killed or paused: then each record is processed exactly once."""
    events = list(events)
    return [
        *problems(events, produced),
        *repeated_records(events),
        *faults(events),
    ]
