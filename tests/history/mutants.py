"""Brokers with a bug made on purpose, which the history runs have to find.

python -m tests.history.mutants MUTANT serve ...
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ottla.broker.coordination.verification import (
    Confirmations,
    LaterConfirmations,
    confirm,
)
from ottla.broker.crashpoints import CrashPoint
from ottla.broker.handlers import produce
from ottla.broker.partitions.shard import AlreadyMarked, Marker, MarkerOutcome, Shard
from ottla.core.group.events import OffsetCommitted, OffsetsCommitted
from ottla.core.group.offset_table import OffsetTable
from ottla.core.outcomes import Refused
from ottla.core.partition import Partition
from ottla.core.producer_state import APPEND, AlreadyAppended, ProducerStates
from ottla.core.turn import Turn
from ottla.core.txn import end_checks, machine
from ottla.core.txn.end_checks import EndNow
from ottla.core.txn.events import TransactionSaved
from ottla.core.txn.machine import TransactionMachine
from ottla.core.txn.requests import EndRequest
from ottla.core.txn.states import IN_BETWEEN
from ottla.errors import ErrorCode
from ottla.testing.crash_injection import crash_at

LOST_MARKER = 10


def _change(owner: object, name: str, value: object) -> None:
    """Puts a bug in the place of a method."""
    assert hasattr(owner, name)
    setattr(owner, name, value)


def end_whatever_the_epoch() -> None:
    """An EndTxn ends the transaction that is open, not the one that it was sent for (KAFKA-17754)."""

    def decide(saved: TransactionSaved, request: EndRequest) -> EndNow | Refused:
        if saved.state in IN_BETWEEN:
            return Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        return end_checks._decide_begun(saved, request)

    _change(machine, "decide_end", decide)


def lose_a_marker() -> None:
    """Every tenth marker is acknowledged and not written."""
    append_markers = Shard.append_markers
    count = 0

    def append(self: Shard, markers: Sequence[Marker], now_ms: int) -> list[MarkerOutcome]:
        nonlocal count
        outcomes: list[MarkerOutcome] = []
        for marker in markers:
            count += 1
            outcomes += (
                append_markers(self, [marker], now_ms)
                if count % LOST_MARKER
                else [AlreadyMarked(None)]
            )
        return outcomes

    _change(Shard, "append_markers", append)


def show_open_transactions() -> None:
    """The high watermark is taken for the last stable offset."""
    _change(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def hide_aborted_transactions() -> None:
    """Readers are not told what was aborted."""

    def aborted_in(self: Shard, *arguments: Any) -> Sequence[Any]:
        return ()

    _change(Shard, "aborted_in", aborted_in)


def commit_offsets_at_once() -> None:
    """Offsets in a transaction count before it is committed."""

    def commit_pending(
        self: OffsetTable, commit: OffsetCommitted | OffsetsCommitted, producer_id: int
    ) -> None:
        if isinstance(commit, OffsetsCommitted):
            self.commit_columns(commit)
        else:
            self.commit(commit)

    _change(OffsetTable, "commit_pending", commit_pending)


def append_repetitions() -> None:
    """A batch that is there already is appended once more."""
    decide_by_sequence = ProducerStates._decide_by_sequence

    def decide(self: ProducerStates, batch: Any) -> Any:
        decision = decide_by_sequence(self, batch)
        return APPEND if isinstance(decision, AlreadyAppended) else decision

    _change(ProducerStates, "_decide_by_sequence", decide)


def forget_what_was_prepared() -> None:
    """A coordinator that starts does not go on with what was prepared."""
    start = TransactionMachine.start

    def forgetful(self: TransactionMachine, turn: Turn) -> None:
        saved, self._saved = self._saved, {}
        start(self, turn)
        self._saved = saved

    _change(TransactionMachine, "start", forgetful)


def ignore_verification() -> None:
    """What the coordinator says of a transaction's first batch on a partition is not heeded (KIP-890)."""

    async def after(confirmations: LaterConfirmations) -> Confirmations:
        return dict.fromkeys(await confirmations())

    def careless(*arguments: Any) -> Confirmations | LaterConfirmations:
        confirmations = confirm(*arguments)
        if isinstance(confirmations, dict):
            return dict.fromkeys(confirmations)
        return partial(after, confirmations)

    _change(produce, "confirm", careless)


MUTANTS: dict[str, Callable[[], None]] = {
    mutant.__name__: mutant
    for mutant in (
        end_whatever_the_epoch,
        lose_a_marker,
        show_open_transactions,
        hide_aborted_transactions,
        commit_offsets_at_once,
        append_repetitions,
        forget_what_was_prepared,
        ignore_verification,
    )
}


def main(arguments: list[str]) -> int:
    from ottla.cli.main import main as ottla

    name, *rest = arguments
    MUTANTS[name]()
    if rest[0] in CrashPoint.__members__:
        point, count, *rest = rest
        crash_at(CrashPoint[point], int(count))
    return ottla(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
