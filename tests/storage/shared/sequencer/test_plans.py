"""How PostgreSQL executes what is asked often: by indexes, for each partition by itself."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import Any

from tests.storage.shared.sequencer.backends import (
    PostgresBackend,
    broker,
    claim_all,
    new_schema_place,
    part,
    refs,
)
from tests.waiting import in_time

from ottla.storage.shared.sequencer.postgres import queries

PARTITIONS = 500
ROWS = 60

_FILL = f"""
INSERT INTO @.partitions (topic_id, topic, number, epoch, end_offset, tail_start, revision)
    SELECT gen_random_uuid(), 't', n, 1, {2 * ROWS}, {ROWS}, n FROM generate_series(1, {PARTITIONS}) n;
INSERT INTO @.segments SELECT p.id, n, n + 1, NULL, 0, 100, 1, 1, '', '', 'data'
    FROM @.partitions p, generate_series(0, {ROWS - 1}) n;
INSERT INTO @.tail SELECT n % 4, p.id, n, n + 1, 1, gen_random_uuid(), NULL, 0, 100, 1, 1, 'headers', '', 'data'
    FROM @.partitions p, generate_series({ROWS}, {2 * ROWS - 1}) n;
INSERT INTO @.objects (key, session, state) SELECT n::text, gen_random_uuid(), 'live' FROM generate_series(1, 5000) n;
ANALYZE;
"""


def nodes(plan: dict[str, Any]) -> list[tuple[str, str, int]]:
    """(type, table, rows that it looked at) of a plan's nodes."""
    rows = int(plan.get("Actual Rows", 0) + plan.get("Rows Removed by Filter", 0))
    own = (plan["Node Type"], plan.get("Relation Name", ""), rows * plan.get("Actual Loops", 1))
    return [own, *(each for below in plan.get("Plans", []) for each in nodes(below))]


async def explained(
    backend: PostgresBackend, sql: str, *arguments: object
) -> list[tuple[str, str, int]]:
    """Of the generic plan, which prepared statements get."""
    connection = await backend.owner()
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    text = sql.replace("@.", f"{backend.url.quoted_schema}.")
    [row] = await connection.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", *arguments)
    found = nodes(json.loads(row[0])[0]["Plan"])
    scanned = {table for kind, table, rows in found if kind == "Seq Scan" and rows > 1}
    # The rows of partitions are few and small, and a list of them may be joined by reading all.
    assert scanned <= {"partitions"}, found
    return found


def looked_at(found: list[tuple[str, str, int]]) -> int:
    """Rows of logs; none of the looks at a whole log may come from an index either."""
    return sum(rows for _, table, rows in found if table.startswith(("tail", "segments")))


def test_lookups_look_at_few_rows(shared_postgres: str) -> None:
    async def story(backend: PostgresBackend) -> None:
        connection = await backend.owner()
        await connection.execute(_FILL.replace("@.", f"{backend.url.quoted_schema}."))
        partitions = await backend.run("SELECT id, topic_id, number FROM @.partitions LIMIT 100")
        one = partitions[0][0]
        ids, numbers = [row[1] for row in partitions], [row[2] for row in partitions]
        # The first run of each, not all of its runs.
        found = await explained(backend, queries.UNCLAIMED, ids, numbers)
        assert looked_at(found) <= len(partitions) * 5
        found = await explained(backend, queries.READ_RUNS, one, ROWS - 2, 300)
        assert looked_at(found) <= 2 + ROWS
        found = await explained(backend, queries.READ_RUNS, one, 2 * ROWS - 2, 300)
        assert looked_at(found) <= 2
        found = await explained(backend, queries.RUN_HEADERS, one, 2 * ROWS - 4, 2 * ROWS)
        assert looked_at(found) <= 4
        assert looked_at(await explained(backend, queries.SEGMENT_MARKS, one, 3)) == 1
        assert looked_at(await explained(backend, queries.OPEN, one)) <= 2 * ROWS
        await explained(backend, queries.ENDS, [row[0] for row in partitions])
        await explained(backend, queries.HOLDERS, PARTITIONS - 5)
        repetition = (
            "SELECT 1 FROM @.tail WHERE partition_id = $1 AND end_offset = $2 AND flush = $3"
        )
        found = await explained(backend, repetition, one, 2 * ROWS, uuid.uuid4())
        assert looked_at(found) <= 1
        referenced = "SELECT 1 FROM @.tail t JOIN @.partitions p ON p.id = t.partition_id WHERE t.object_id = $1"
        assert looked_at(await explained(backend, referenced, 1)) == 0

    new_schema_place(shared_postgres).play(story)


def test_appends_update_partitions_in_place(shared_postgres: str) -> None:
    """HOT: the new version of the row is on the same page, and no index changes."""

    async def story(backend: PostgresBackend) -> None:
        sequencer = await backend.connect()
        session = (await sequencer.register(broker("a"))).session
        claimed = await claim_all(sequencer, session, refs(20))
        connection = await backend.owner()
        name = f"{backend.url.quoted_schema}.partitions"

        async def updates() -> tuple[int, int]:
            [row] = await connection.fetch(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = $1::text::regclass",
                name,
            )
            return row[0], row[1]

        before = await updates()
        for offset in range(60):
            await sequencer.append(
                session, uuid.uuid4(), [], [part(each, offset) for each in claimed]
            )
        await sequencer.close()  # a backend that ends tells its statistics
        deadline = time.monotonic() + 30
        while (after := await updates())[0] - before[0] < 1200:
            in_time(deadline, "the server's statistics do not come")
            await asyncio.sleep(0.02)
        assert (after[1] - before[1]) / (after[0] - before[0]) > 0.95

    new_schema_place(shared_postgres).play(story)
