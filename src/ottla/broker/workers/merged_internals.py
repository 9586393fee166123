"""What several workers tell of their internals, as one broker would tell it."""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from ottla.broker.internals.collection import MAX_TOPICS
from ottla.broker.internals.event_ring import EventRing
from ottla.broker.internals.process_identity import IDENTITY
from ottla.version import VERSION

MAX_EVENTS: Final = 2_000
MAX_LONG_HOLDS: Final = 200

Json = dict[str, Any]


def merged_internals(
    sections: Mapping[int, Json | None], *, cluster_id: str, restarts: Mapping[int, int]
) -> Json:
    """The sections of the workers that have answered, added up; `workers` has what each says of itself."""
    told = {node_id: found for node_id, found in sections.items() if found is not None}
    # Whoever compares counts with those of before must not compare those of other processes.
    of_whom = [
        IDENTITY.instance,
        *(f"{node_id}:{found['instance']}" for node_id, found in told.items()),
    ]
    return {
        "version": VERSION,
        "instance": hashlib.sha256(" ".join(of_whom).encode()).hexdigest()[:16],
        "cluster_id": cluster_id,
        "started_at_ms": IDENTITY.started_ms,
        "at_ms": round(time.time() * 1000),
        "loop": _merged_loops([found["loop"] for found in told.values()]),
        "storage": _merged_storage([found["storage"] for found in told.values()]),
        "nodes": [node for found in told.values() for node in found["nodes"]],
        "workers": [
            _worker(node_id, found, restarts[node_id]) for node_id, found in sections.items()
        ],
    }


def _worker(node_id: int, found: Json | None, restarts: int) -> Json:
    return {
        "node_id": node_id,
        "answers": found is not None,
        "restarts": restarts,
        "started_at_ms": None if found is None else found["started_at_ms"],
        "worst_held_ms": None if found is None else found["loop"]["worst_held_ms"],
        "storage": None
        if found is None
        else {
            name: found["storage"][name]
            for name in ("folder", "topic_count", "partition_count", "size_bytes")
        },
    }


def _merged_loops(loops: list[Json]) -> Json:
    """The worst of all loops at each time."""
    interval_ms = loops[0]["interval_ms"] if loops else 1
    worst: dict[int, Json] = {}
    for hold in (hold for loop in loops for hold in loop["intervals"]):
        at = hold["at_ms"] // interval_ms
        if at not in worst or worst[at]["held_ms"] < hold["held_ms"]:
            worst[at] = hold
    long_holds = sorted(
        (hold for loop in loops for hold in loop["long_holds"]), key=lambda hold: hold["at_ms"]
    )
    return {
        "worst_held_ms": max((loop["worst_held_ms"] for loop in loops), default=0.0),
        "interval_ms": interval_ms,
        "intervals": sorted(worst.values(), key=lambda hold: hold["at_ms"]),
        "long_hold_ms": loops[0]["long_hold_ms"] if loops else 0,
        "long_holds": long_holds[-MAX_LONG_HOLDS:],
    }


def _merged_storage(storages: list[Json]) -> Json:
    topics: dict[str, Json] = {}
    for topic in (topic for storage in storages for topic in storage["topics"]):
        known = topics.get(topic["name"])
        topics[topic["name"]] = topic if known is None else _sum(known, topic, but=("name",))
    largest = sorted(topics.values(), key=lambda topic: -int(topic["size_bytes"]))[:MAX_TOPICS]
    return {
        "folder": storages[0]["folder"] if storages else None,
        "disk": storages[0]["disk"] if storages else None,
        # A topic may have partitions at all workers.
        "topic_count": max((storage["topic_count"] for storage in storages), default=0),
        "partition_count": sum(storage["partition_count"] for storage in storages),
        "size_bytes": sum(storage["size_bytes"] for storage in storages),
        "topics": largest,
        "syncs": _merged_histograms([storage["syncs"] for storage in storages]),
    }


def _sum(one: Json, other: Json, but: tuple[str, ...]) -> Json:
    return {name: one[name] if name in but else one[name] + other[name] for name in one}


def _merged_histograms(histograms: list[Json]) -> Json:
    if not histograms:
        return {"bounds_ms": [], "counts": [0], "total_ms": 0.0}
    return {
        "bounds_ms": histograms[0]["bounds_ms"],
        "counts": [
            sum(counts) for counts in zip(*(each["counts"] for each in histograms), strict=True)
        ],
        "total_ms": sum(each["total_ms"] for each in histograms),
    }


class MergedEvents:
    """The newest events of the supervisor and of all workers, numbered anew in the order in which they were read."""

    def __init__(self, ring: EventRing) -> None:
        self._ring = ring
        self._own_newest = 0
        self._newest_by_node: dict[int, tuple[str, int]] = {}
        self._events: deque[Json] = deque(maxlen=MAX_EVENTS)
        self._newest = 0

    def newest_of(self, node_id: int) -> int:
        """The worker's number of the last event that was read from it."""
        return self._newest_by_node.get(node_id, ("", 0))[1]

    def add(self, node_id: int, page: Json) -> bool:
        """Takes events of a worker; True if it has begun to count anew, and is to be asked from 0."""
        instance, before = self._newest_by_node.get(node_id, (page["instance"], 0))
        if instance != page["instance"]:
            self._newest_by_node[node_id] = (page["instance"], 0)
            return True
        found = [event for event in page["events"] if event["sequence"] > before]
        for event in found:
            fields = {"node": node_id, **event["fields"]}
            self._events.append({**event, "fields": fields})
        newest = max([page["newest"], before, *(event["sequence"] for event in found)])
        self._newest_by_node[node_id] = (instance, newest)
        self._renumber(len(found))
        return False

    def _renumber(self, count: int) -> None:
        """Numbers the last events that were added."""
        for back in range(min(count, len(self._events)), 0, -1):
            self._newest += 1
            self._events[-back]["sequence"] = self._newest

    def page(self, after: int, limit: int) -> bytes:
        """The newest events behind a number, the oldest first."""
        own = self._ring.after(self._own_newest, MAX_EVENTS)
        if own:
            self._own_newest = own[-1].sequence
            self._events.extend(event.as_json() for event in own)
            self._renumber(len(own))
        found = (
            [event for event in self._events if event["sequence"] > after][-limit:] if limit else []
        )
        told = {"instance": IDENTITY.instance, "newest": self._newest, "events": found}
        return f"{json.dumps(told)}\n".encode()
