"""Bugs made on purpose in the functions of the schema, which the forced interleavings and the contract have to find."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

# Runs a statement in the schema, whose name stands for @.
Run = Callable[[str], Awaitable[Any]]


class Change(NamedTuple):
    """A text of a function, and what is there instead."""

    function: str
    correct: str
    wrong: str


_LOCK: Final = (
    "PERFORM 1 FROM partitions WHERE id = ANY (p_partitions) ORDER BY id FOR NO KEY UPDATE;"
)
SQL_BUGS: Final[dict[str, tuple[Change, ...]]] = {
    # An append is accepted under whichever epoch.
    "append_without_check_of_the_epoch": (
        Change("append", "p.epoch = u.epoch", "true"),
        Change("judge_parts", "v_part.current_epoch IS DISTINCT FROM v_part.epoch", "false"),
    ),
    # What was compared may have changed when the lock is got at last.
    "append_that_checks_before_it_locks": (
        Change("append", _LOCK, ""),
        Change("append", "IF v_all_fit THEN", f"{_LOCK} IF v_all_fit THEN"),
    ),
    # An append refers to objects that are about to be deleted.
    "collection_without_reservation": (
        Change("lock_usable_objects", "AND state IN ('reserved', 'live')", ""),
    ),
    # A snapshot is stored that covers what is not in the log yet, and perhaps never will be.
    "snapshot_at_the_end": (Change("save_snapshot", "AND end_offset >= p_offset", ""),),
    # Whoever led a partition before may still store what it knew of it.
    "snapshot_without_check_of_the_epoch": (Change("save_snapshot", "AND epoch = p_epoch", ""),),
    # A live broker's partitions can be taken.
    "claim_that_does_not_look_at_the_lease": (
        Change("claim", "AND NOT ended AND expires_at <= v_now", "AND NOT ended"),
    ),
    # A broker that knows of no deletion makes the topic's partitions anew.
    "claim_by_an_old_catalog": (
        Change("claim", "IF v_revision <> p_catalog_revision THEN", "IF false THEN"),
    ),
}


async def put_bug(run: Run, name: str) -> None:
    """Replaces functions of a schema by wrong ones."""
    for change in SQL_BUGS[name]:
        [row] = await run(
            "SELECT pg_get_functiondef(p.oid) FROM pg_proc p"
            f" WHERE p.proname = '{change.function}' AND p.pronamespace = '@'::regnamespace"
        )
        text: str = row[0]
        assert text.count(change.correct) == 1, f"{change.function} does not have {change.correct}"
        await run(text.replace(change.correct, change.wrong))
