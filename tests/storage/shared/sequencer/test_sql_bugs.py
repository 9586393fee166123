"""The tests of the sequencer find bugs: each is put into the functions of a schema, and a test has to fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.storage.shared.postgres_server import new_schema_url
from tests.storage.shared.sequencer import test_contract_logs as logs
from tests.storage.shared.sequencer import test_interleavings as interleavings
from tests.storage.shared.sequencer.backends import Place, PostgresBackend
from tests.storage.shared.sequencer.sql_bugs import SQL_BUGS, put_bug

from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url

append_behind_claim = partial(
    interleavings.test_an_append_that_waited_for_a_claim_is_fenced_by_it, commits=True
)
FOUND_BY: dict[str, Callable[[Place], None]] = {
    "append_without_check_of_the_epoch": append_behind_claim,
    "append_that_checks_before_it_locks": append_behind_claim,
    "collection_without_reservation": (
        interleavings.test_an_append_that_waited_for_the_collection_is_refused
    ),
    "snapshot_at_the_end": logs.test_the_newest_two_snapshots_are_kept,
    "snapshot_without_check_of_the_epoch": logs.test_the_newest_two_snapshots_are_kept,
    "claim_that_does_not_look_at_the_lease": (
        interleavings.test_a_heartbeat_in_time_keeps_the_partitions
    ),
    "claim_by_an_old_catalog": interleavings.test_a_claim_that_waited_for_the_catalog_is_stale,
}


@pytest.mark.parametrize("name", SQL_BUGS)
def test_a_bug_in_sql_is_found(shared_postgres: str, name: str) -> None:
    async def make() -> PostgresBackend:
        backend = PostgresBackend(parse_database_url(new_schema_url(shared_postgres)))
        await backend.prepare()
        schema = backend.url.schema

        async def run(sql: str) -> object:
            return await backend.run(sql.replace("'@'", f"'{schema}'"))

        await put_bug(run, name)
        return backend

    # The name of a variable says what the test was about when it failed; here any assertion of it will do.
    with pytest.raises(AssertionError):
        FOUND_BY[name](Place(make))
