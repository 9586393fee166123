"""What compaction and retention have done, and what they have before them."""

from __future__ import annotations

import asyncio
from heapq import nlargest
from typing import Final

from ottla.broker.node import Node
from ottla.broker.partitions.compactor import Compactor, cleanable_part
from ottla.broker.partitions.retention import Retention
from ottla.broker.partitions.shard import Shard
from ottla.broker.partitions.work_rounds import WorkRounds
from ottla.ports import PartitionRef, StorageError
from ottla.records.errors import CorruptRecordsError

Json = dict[str, object]

MAX_PARTITIONS: Final = 100
# Compacted partitions that are looked at.
MAX_LOOKED_AT: Final = 2_000


async def cleaner_of(compactor: Compactor, node: Node) -> Json:
    """The cleaner of a node: its last rounds, and the logs that it looks after, the dirtiest first."""
    uncleanable = list(node.partitions.uncleanable)
    cleaning = compactor.cleaning_ref
    return {
        "is_enabled": node.options.config.log_cleaner_enable,
        **_rounds_of(compactor.rounds),
        "cleaning": None if cleaning is None else _named(cleaning),
        "compactions": [
            {
                **_named(each.ref),
                "at_ms": each.at_ms,
                "took_ms": round(each.seconds * 1000, 1),
                "end_offset": each.end_offset,
                "dirty_keys": each.dirty_keys,
                "bytes_before": each.bytes_before,
                "bytes_after": each.bytes_after,
            }
            for each in reversed(compactor.compactions)
        ],
        "partitions": await _partitions_of(compactor, node),
        "uncleanable_count": len(uncleanable),
        "uncleanable": [_named(ref) for ref in uncleanable[:MAX_PARTITIONS]],
    }


def retention_of(retention: Retention, node: Node) -> Json:
    """The rounds of retention."""
    interval_ms = node.options.config.log_retention_check_interval_ms
    return {"interval_ms": interval_ms, **_rounds_of(retention.rounds)}


def _rounds_of(rounds: WorkRounds) -> Json:
    seconds = rounds.last_seconds
    return {
        "rounds": rounds.count,
        "is_at_work": rounds.is_at_work,
        "last_began_at_ms": rounds.last_began_ms,
        "last_took_ms": None if seconds is None else round(seconds * 1000, 1),
    }


async def _partitions_of(compactor: Compactor, node: Node) -> list[Json]:
    found: list[tuple[float, Json]] = []
    looked_at = 0
    for shard in node.partitions.open_shards():
        if not shard.config.compacts:
            continue
        looked_at += 1
        if looked_at > MAX_LOOKED_AT:
            break
        state = _state_of(compactor, node, shard)
        if state is not None:
            found.append(state)
        await asyncio.sleep(0)
    return [each for _, each in nlargest(MAX_PARTITIONS, found, key=lambda pair: pair[0])]


def _state_of(compactor: Compactor, node: Node, shard: Shard) -> tuple[float, Json] | None:
    log = shard.log
    try:
        part = cleanable_part(shard, node.cluster.clock.now_ms())
    except (StorageError, CorruptRecordsError):
        return None
    is_uncleanable = node.partitions.uncleanable.get(log.ref) == log.epoch
    told: Json = {
        **_named(log.ref),
        "size_bytes": log.size_bytes,
        "dirty_bytes": part.dirty_bytes,
        "dirty_ratio": round(part.dirty_ratio, 3),
        "min_dirty_ratio": shard.config.min_cleanable_dirty_ratio,
        "cleaned_offset": log.cleaned_offset,
        "cleanable_to_offset": part.end_offset,
        "end_offset": log.end_offset,
        "state": "uncleanable"
        if is_uncleanable
        else "resting"
        if compactor.is_resting(log.ref)
        else "cleaning"
        if compactor.cleaning_ref == log.ref
        else "well",
    }
    return part.dirty_ratio, told


def _named(ref: PartitionRef) -> Json:
    return {"topic": ref.topic, "partition": ref.partition}
