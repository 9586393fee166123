"""Functions with one rule left out: a forced interleaving finds each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.storage.shared.sequencer import test_interleavings as interleavings
from tests.storage.shared.sequencer.backends import Place, new_schema_place

from ottla.ports import StorageError
from ottla.storage.shared.sequencer.postgres import schema

pytestmark = pytest.mark.campaign

_LOCK_PARTS = (
    "    PERFORM 1 FROM partitions WHERE id = ANY (p_partitions) ORDER BY id FOR NO KEY UPDATE;\n"
)
_EPOCH = "bool_and(p.epoch = u.epoch\n                AND "

MUTANTS: list[tuple[str, str, str, str, Callable[[Place], None]]] = [
    (
        "an append looks without a lock",
        "appends.sql",
        _LOCK_PARTS,
        "",
        interleavings.test_a_repetition_that_waited_for_its_first_try_is_already,
    ),
    (
        "an append does not compare epochs",
        "appends.sql",
        _EPOCH,
        "bool_and(",
        lambda place: interleavings.test_an_append_that_waited_for_a_claim_is_fenced_by_it(
            place, True
        ),
    ),
    (
        "an append does not know earlier tries",
        "appends.sql",
        "AND flush = p_flush",
        "AND false",
        interleavings.test_a_repetition_behind_a_takeover_is_already,
    ),
    (
        "a claim looks without a lock",
        "claims.sql",
        "    PERFORM lock_partitions(v_ids);\n    PERFORM 1 FROM brokers",
        "    PERFORM 1 FROM brokers",
        interleavings.test_a_released_partition_goes_to_one_of_two_claims,
    ),
    (
        "a claim does not lock the catalog",
        "claims.sql",
        "FROM catalog_state FOR SHARE",
        "FROM catalog_state",
        interleavings.test_a_claim_that_waited_for_the_catalog_is_stale,
    ),
    (
        "a claim does not lock brokers",
        "claims.sql",
        "        ORDER BY node_id FOR UPDATE;\n    v_now",
        "        ORDER BY node_id;\n    v_now",
        interleavings.test_a_heartbeat_in_time_keeps_the_partitions,
    ),
    (
        "an append uses dead objects",
        "appends.sql",
        "state IN ('reserved', 'live'))",
        "state IS NOT NULL)",
        interleavings.test_an_append_that_waited_for_the_collection_is_refused,
    ),
    (
        "the collection looks without a lock",
        "collection.sql",
        "    PERFORM 1 FROM objects WHERE id = ANY (v_candidates) ORDER BY id FOR NO KEY UPDATE;\n",
        "",
        interleavings.test_the_collection_sees_a_reference_that_it_waited_for,
    ),
    (
        "a consolidation does not compare epochs",
        "replacements.sql",
        "v_partition.epoch <> p_epochs[i] OR p_starts[i] > v_partition.tail_start",
        "p_starts[i] > v_partition.tail_start",
        interleavings.test_a_consolidation_that_waited_for_a_claim_is_fenced,
    ),
    (
        "the ring empties a table without a look",
        "collection.sql",
        "IF tail_counts(v_next) THEN",
        "IF false THEN",
        interleavings.test_an_append_into_an_old_table_is_moved_before_it_is_emptied,
    ),
]


@pytest.mark.parametrize(
    ("file", "rule", "without", "test"),
    [pytest.param(*mutant[1:], id=mutant[0]) for mutant in MUTANTS],
)
def test_a_rule_that_is_left_out_is_noticed(
    shared_postgres: str,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    rule: str,
    without: str,
    test: Callable[[Place], None],
) -> None:
    text = schema.sql_text("functions", file)
    assert text.count(rule) == 1
    read = schema.sql_text

    def changed(folder: str, name: str) -> str:
        return text.replace(rule, without) if name == file else read(folder, name)

    monkeypatch.setattr(schema, "sql_text", changed)
    # Some are noticed by a unique key of the tables.
    with pytest.raises((AssertionError, StorageError)):
        test(new_schema_place(shared_postgres))
