"""The reads, one statement each: a statement locks the tail's tables before it takes its snapshot, as TRUNCATE needs.

Lookups for many partitions look for each partition by itself (LATERAL … LIMIT): an index probe each.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.core.leader_epochs import EpochStart
from ottla.storage.shared.sequencer.records import (
    BrokerDescription,
    MemberState,
    OpenedPartition,
    StoredRun,
)

MAX_RUNS: Final = 256

LOAD_CATALOG: Final = """
SELECT s.revision, c.key, c.value FROM @.catalog_state s LEFT JOIN @.catalog c ON true
"""

CATALOG_CHANGES: Final = """
SELECT s.forgotten, c.revision, c.changes
FROM @.catalog_state s LEFT JOIN @.catalog_changes c ON c.revision > $1 ORDER BY c.revision
"""

# In one statement: the revisions up to the counter's are exactly those that it sees.
HOLDERS: Final = """
SELECT s.revision, s.forgotten, h.* FROM @.holders_state s LEFT JOIN (
    SELECT true AS exists, topic, number, topic_id, id, node_id, session, epoch, wanted_node, revision AS at
    FROM @.partitions WHERE revision > $1 AND epoch > 0
    UNION ALL
    SELECT false, topic, number, topic_id, 0, 0, NULL, 0, NULL, revision
    FROM @.partition_deletions WHERE revision > $1 AND $1 > 0
) h ON true ORDER BY h.at, h.id
"""

REVISIONS: Final = """
SELECT (SELECT revision FROM @.catalog_state), (SELECT revision FROM @.holders_state),
    (SELECT sum(applied_revision)::bigint FROM @.brokers)
"""

ENDS: Final = "SELECT id, epoch, end_offset FROM @.partitions WHERE id = ANY ($1::bigint[])"

_SEGMENT: Final = """base_offset, end_offset, -1 AS epoch, NULL::uuid AS flush, object_id, position, size_bytes,
    max_timestamp_ms, written_ms, aborted"""
_TAIL: Final = """base_offset, end_offset, epoch, flush, object_id, position, size_bytes,
    max_timestamp_ms, written_ms, aborted"""
# Above every offset where the partition is gone: its rows are still in the tail.
_TAIL_START: Final = (
    "coalesce((SELECT tail_start FROM @.partitions WHERE id = $1), 9223372036854775807)"
)

# A join may read all objects for a few keys.
_KEY: Final = "(SELECT o.key FROM @.objects o WHERE o.id = object_id) AS key"

# Kinds: 0 the partition, 1 epochs, 2 snapshots, 3 segments, 4 the tail.
OPEN: Final = f"""
SELECT r.*, {_KEY} FROM (
    SELECT 0 AS kind, coalesce(cleaned_offset, -1) AS base_offset, end_offset, epoch, NULL::uuid AS flush,
        NULL::bigint AS object_id, 0::bigint AS position, 0::bigint AS size_bytes, 0::bigint AS max_timestamp_ms,
        0::bigint AS written_ms, ''::bytea AS aborted, ''::bytea AS headers, NULL::bytea AS data
    FROM @.partitions WHERE id = $1
    UNION ALL
    SELECT 1, start_offset, 0, epoch, NULL, NULL, 0, 0, 0, 0, '', '', NULL FROM @.epochs WHERE partition_id = $1
    UNION ALL
    SELECT 2, "offset", 0, 0, NULL, NULL, 0, 0, 0, 0, '', '', data FROM @.snapshots WHERE partition_id = $1
    UNION ALL
    SELECT 3, {_SEGMENT}, '', NULL FROM @.segments WHERE partition_id = $1
    UNION ALL
    SELECT 4, {_TAIL}, headers, NULL FROM @.tail WHERE partition_id = $1 AND end_offset > {_TAIL_START}
) r ORDER BY r.kind, r.base_offset, r.epoch
"""

READ_RUNS: Final = f"""
SELECT b.*, {_KEY} FROM (
    SELECT a.*, sum(size_bytes) OVER (ORDER BY end_offset) - size_bytes AS bytes_before FROM (
        (SELECT {_SEGMENT}, ''::bytea AS headers, data FROM @.segments
            WHERE partition_id = $1 AND end_offset > $2 ORDER BY end_offset LIMIT {MAX_RUNS})
        UNION ALL
        (SELECT {_TAIL}, ''::bytea, data FROM @.tail
            WHERE partition_id = $1 AND end_offset > greatest($2, {_TAIL_START})
            ORDER BY end_offset LIMIT {MAX_RUNS})
        ORDER BY end_offset LIMIT {MAX_RUNS}
    ) a
) b
WHERE b.bytes_before < $3 OR b.bytes_before = 0 ORDER BY b.end_offset
"""

RUN_HEADERS: Final = f"""
SELECT a.*, {_KEY} FROM (
    (SELECT {_SEGMENT}, ''::bytea AS headers, NULL::bytea AS data FROM @.segments
        WHERE partition_id = $1 AND end_offset > $2 AND base_offset < $3 ORDER BY end_offset LIMIT {MAX_RUNS})
    UNION ALL
    (SELECT {_TAIL}, headers, NULL FROM @.tail
        WHERE partition_id = $1 AND end_offset > greatest($2, {_TAIL_START}) AND base_offset < $3
        ORDER BY end_offset LIMIT {MAX_RUNS})
    ORDER BY end_offset LIMIT {MAX_RUNS}
) a ORDER BY a.end_offset
"""

SEGMENT_MARKS: Final = """
SELECT marks FROM (
    SELECT base_offset, marks FROM @.segments WHERE partition_id = $1 AND end_offset > $2 ORDER BY end_offset LIMIT 1
) s WHERE base_offset = $2
"""

UNCLAIMED: Final = """
SELECT u.place, p.size_bytes, p.start_offset, p.end_offset,
    coalesce(s.max_timestamp_ms, t.max_timestamp_ms, -1) AS max_timestamp_ms
FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS u (topic_id, number, place)
JOIN @.partitions p ON p.topic_id = u.topic_id AND p.number = u.number
LEFT JOIN LATERAL (
    SELECT max_timestamp_ms FROM @.segments WHERE partition_id = p.id ORDER BY end_offset LIMIT 1
) s ON true
LEFT JOIN LATERAL (
    SELECT max_timestamp_ms FROM @.tail WHERE partition_id = p.id AND end_offset > p.tail_start
    ORDER BY end_offset LIMIT 1
) t ON true
"""

OBJECTS: Final = """
SELECT id, key, size_bytes, state FROM @.objects WHERE id > $1 ORDER BY id LIMIT $2
"""


def description_text(broker: BrokerDescription) -> str:
    return json.dumps(
        {
            "endpoints": dict(broker.endpoints),
            "advertised": dict(broker.advertised),
            "peer": broker.peer,
            "rack": broker.rack,
            "certificate": broker.certificate,
        }
    )


def members_of(text: str) -> Sequence[MemberState]:
    """The members in the answer to a heartbeat."""
    return [_member(entry) for entry in json.loads(text)]


def _member(entry: Mapping[str, Any]) -> MemberState:
    description = json.loads(entry["description"])
    return MemberState(
        node_id=entry["node_id"],
        name=entry["name"],
        session=uuid.UUID(entry["session"]),
        endpoints=description["endpoints"],
        advertised=description["advertised"],
        peer=description["peer"],
        rack=description["rack"],
        is_live=entry["is_live"],
        applied_revision=entry["applied_revision"],
        certificate=description["certificate"],
    )


def run_of(row: Any) -> StoredRun:
    return StoredRun(
        base_offset=row["base_offset"],
        end_offset=row["end_offset"],
        epoch=row["epoch"],
        flush=row["flush"],
        object_id=row["object_id"],
        object_key=row["key"],
        position=row["position"],
        size_bytes=row["size_bytes"],
        max_timestamp_ms=row["max_timestamp_ms"],
        headers=row["headers"],
        aborted=row["aborted"],
        data=row["data"],
        written_ms=row["written_ms"],
    )


class FoundPartition(NamedTuple):
    """The rows of OPEN: the epoch of the current claim, and what is kept."""

    epoch: int
    opened: OpenedPartition


def opened_of(rows: Sequence[Any]) -> FoundPartition | None:
    """None if the partition does not exist."""
    kinds: dict[int, list[Any]] = {kind: [] for kind in range(5)}
    for row in rows:
        kinds[row["kind"]].append(row)
    if not kinds[0]:
        return None
    partition = kinds[0][0]
    snapshots = [(row["base_offset"], row["data"]) for row in reversed(kinds[2])]
    opened = OpenedPartition(
        epochs=[EpochStart(row["epoch"], row["base_offset"]) for row in kinds[1]],
        snapshots=snapshots,
        cleaned_offset=None if partition["base_offset"] < 0 else partition["base_offset"],
        segments=[run_of(row) for row in kinds[3]],
        tail=[run_of(row) for row in kinds[4]],
    )
    return FoundPartition(partition["epoch"], opened)
