"""What a broker tells about itself as JSON, but for its events; every list has a limit."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final

from ottla.broker.cluster import Cluster
from ottla.broker.internals.cleaning import cleaner_of, retention_of
from ottla.broker.internals.process_identity import IDENTITY
from ottla.broker.loop.loop_monitor import INTERVAL_SECONDS, KEPT_HOLD_SECONDS, Hold, LoopMonitor
from ottla.broker.metrics.request_counts import ApiCounts
from ottla.broker.metrics.topic_extents import TopicExtent, topic_extents
from ottla.broker.network.server import Server
from ottla.core.catalog import Topic
from ottla.errors import ErrorCode
from ottla.histogram import Histogram
from ottla.version import VERSION

Json = dict[str, object]

MAX_TOPICS: Final = 100
MAX_PARTITIONS: Final = 100
# The partitions whose segments are counted.
MAX_COUNTED_PARTITIONS: Final = 1_000


@dataclass(frozen=True)
class BrokerParts:
    """What is asked; `data_dir` is the folder of the data, if there is one, and `labels` are those of all metrics."""

    cluster: Cluster
    servers: Mapping[int, Server]
    loop_monitor: LoopMonitor
    data_dir: str | None
    labels: Mapping[str, str] = field(default_factory=dict)


async def collect(parts: BrokerParts) -> Json:
    """All sections; the loop serves requests in between."""
    sections: Json = {
        "version": VERSION,
        "instance": IDENTITY.instance,
        "cluster_id": parts.cluster.cluster_id,
        "started_at_ms": IDENTITY.started_ms,
        "at_ms": round(time.time() * 1000),
        "loop": _loop_of(parts.loop_monitor),
        "storage": await _storage_of(parts),
    }
    nodes = []
    for server in list(parts.servers.values()):
        await asyncio.sleep(0)
        nodes.append(await _node_of(server))
    return {**sections, "nodes": nodes}


def _loop_of(monitor: LoopMonitor) -> Json:
    now, wall = time.monotonic(), time.time()

    def told(hold: Hold) -> Json:
        at_ms = round((wall - (now - hold.at)) * 1000)
        return {"at_ms": at_ms, "held_ms": round(hold.seconds * 1000, 2)}

    return {
        "worst_held_ms": round(monitor.held_seconds_max * 1000, 2),
        "interval_ms": round(INTERVAL_SECONDS * 1000),
        "intervals": [told(hold) for hold in monitor.holds.intervals(now)],
        "long_hold_ms": round(KEPT_HOLD_SECONDS * 1000),
        "long_holds": [told(hold) for hold in monitor.holds.long_ones],
    }


async def _storage_of(parts: BrokerParts) -> Json:
    found: list[tuple[Topic, TopicExtent]] = []
    total = TopicExtent(0, 0, 0, 0)
    async for topic, extent in topic_extents(parts.cluster):
        found.append((topic, extent))
        total = total.plus(extent)
    largest = nlargest(MAX_TOPICS, found, key=lambda each: each[1].size_bytes)
    disk = None if parts.data_dir is None else await asyncio.to_thread(_disk_of, parts.data_dir)
    return {
        "folder": parts.data_dir,
        "disk": disk,
        "topic_count": len(found),
        "partition_count": total.partitions,
        "size_bytes": total.size_bytes,
        "topics": await _topics_of(parts.cluster, largest),
        "syncs": histogram_of(parts.cluster.store.syncs),
    }


def _disk_of(path: str) -> Json | None:
    try:
        disk = os.statvfs(path)
    except OSError:
        return None
    return {
        "total_bytes": disk.f_blocks * disk.f_frsize,
        "free_bytes": disk.f_bavail * disk.f_frsize,
    }


async def _topics_of(cluster: Cluster, topics: Iterable[tuple[Topic, TopicExtent]]) -> list[Json]:
    told: list[Json] = []
    left = MAX_COUNTED_PARTITIONS
    for topic, extent in topics:
        open_count = segments = 0
        for partition in range(topic.partition_count):
            node = cluster.members.here.get(cluster.leader_of(topic, partition))
            shard = None if node is None else node.partitions.open_shard(topic.name, partition)
            if shard is None or left <= 0:
                continue
            left -= 1
            open_count += 1
            segments += len(shard.log.segments())
            await asyncio.sleep(0)
        told.append(
            {
                "name": topic.name,
                "partitions": extent.partitions,
                "size_bytes": extent.size_bytes,
                # Of the partitions that are in use: the others' files were not looked at.
                "open_partitions": open_count,
                "segments": segments,
            }
        )
    return told


async def _node_of(server: Server) -> Json:
    node, traffic = server.node, server.traffic
    offline = sorted(node.partitions.offline_partitions())
    return {
        "node_id": node.node_id,
        "led_partitions": led_count(node.cluster, node.node_id),
        "open_partitions": len(node.partitions.open_shards()),
        "offline_count": len(offline),
        "offline": [
            {"topic": topic, "partition": partition}
            for topic, partition in offline[:MAX_PARTITIONS]
        ],
        "connections": server.connection_count,
        "connections_by_listener": server.connections_by_listener(),
        "connections_accepted": traffic.accepted,
        "connections_refused": traffic.refused,
        "connections_faulted": traffic.faulted,
        "received_bytes": traffic.received_bytes,
        "sent_bytes": traffic.sent_bytes,
        "requests": [_requests_of(counts) for counts in server.api_counts if counts.received],
        "cleaner": await cleaner_of(server.compactor, node),
        "retention": retention_of(server.retention, node),
    }


def led_count(cluster: Cluster, node_id: int) -> int:
    """How many partitions a node leads."""
    topics = cluster.catalog.topics.values()
    if cluster.leads_everything:
        return sum(topic.partition_count for topic in topics)
    return sum(
        cluster.leader_of(topic, partition) == node_id
        for topic in topics
        for partition in range(topic.partition_count)
    )


def _requests_of(counts: ApiCounts) -> Json:
    return {
        "api": counts.name,
        "received": counts.received,
        "waiting": counts.waiting,
        "without_response": counts.failed,
        "errors": {ErrorCode(code).name: count for code, count in sorted(counts.errors.items())},
        "durations": histogram_of(counts.seconds),
    }


def histogram_of(histogram: Histogram) -> Json:
    """Counts of durations; `bounds_ms` has one bound fewer, since the last count is of what is longer."""
    return {
        "bounds_ms": [round(bound * 1000, 3) for bound in histogram.bounds],
        "counts": list(histogram.counts),
        "total_ms": round(histogram.total * 1000, 3),
    }
