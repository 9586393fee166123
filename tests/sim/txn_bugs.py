"""Deliberate bugs in transactions: the simulator has to find each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.crashes import POINTS

from ottla.broker.coordination import coordinator, machine_log, transactional_commit
from ottla.broker.coordination.coordinator import Coordinator
from ottla.broker.coordination.transaction_markers import MarkerSender
from ottla.broker.crashpoints import CrashPoint
from ottla.broker.partitions.replay import Replay
from ottla.broker.partitions.shard import Shard
from ottla.core.group.machine import GroupMachine
from ottla.core.outcomes import Refused
from ottla.core.partition import Partition
from ottla.core.producer_state import APPEND, NO_OFFSET, VERIFICATION_NOT_NEEDED, ProducerStates
from ottla.core.turn import ProducerIdentity, Turn
from ottla.core.txn import end_checks, machine
from ottla.core.txn.end_checks import END_NOW
from ottla.core.txn.events import TransactionSaved
from ottla.core.txn.machine import TransactionMachine
from ottla.core.txn.states import TxnState
from ottla.errors import ErrorCode

Bug = Callable[[pytest.MonkeyPatch], None]


def late_requests_are_accepted(patch: pytest.MonkeyPatch) -> None:
    """The check of the epoch is off by one."""

    def is_epoch_of(saved: TransactionSaved, producer: ProducerIdentity) -> bool:
        return 0 <= saved.producer_epoch - producer.producer_epoch <= 1

    for module in (machine, end_checks):
        patch.setattr(module, "is_epoch_of", is_epoch_of)


def late_ends_are_accepted(patch: pytest.MonkeyPatch) -> None:
    """An EndTxn that is a transaction late ends the one that is open."""
    original = end_checks.decide_end

    def decide_end(saved: Any, request: Any) -> Any:
        decision = original(saved, request)
        is_late = request.producer == (saved.producer_id, saved.producer_epoch - 1)
        return END_NOW if is_late and saved.state is TxnState.ONGOING else decision

    patch.setattr(machine, "decide_end", decide_end)


def verification_is_skipped(patch: pytest.MonkeyPatch) -> None:
    def verify(found: Any, transactional_id: str, producer: Any, partitions: Any) -> Any:
        return [None] * len(partitions)

    patch.setattr(TransactionMachine, "verify", verify)


def first_appends_need_no_verification(patch: pytest.MonkeyPatch) -> None:
    original = ProducerStates._check_transaction

    def check(states: Any, batch: Any, verification: Any) -> Refused | None:
        refused = original(states, batch, verification)
        return None if verification is None else refused

    patch.setattr(ProducerStates, "_check_transaction", check)
    patch.setattr(
        ProducerStates, "verification_for", lambda states, batch, version: VERIFICATION_NOT_NEEDED
    )


def verifications_outlive_markers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "end_verifications", lambda states, *marker: None)


def offsets_are_not_verified(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactional_commit, "_must_ask", lambda node, version: False)


def answered_before_durable(patch: pytest.MonkeyPatch) -> None:
    original = Coordinator._release_later

    def release_later(found: Any, settled: Any, answers: Any, effects: Any) -> None:
        found._release(answers, [])
        original(found, settled, [], effects)

    patch.setattr(Coordinator, "_release_later", release_later)


def markers_sent_before_durable(patch: pytest.MonkeyPatch) -> None:
    original = Coordinator._release_later

    def release_later(found: Any, settled: Any, answers: Any, effects: Any) -> None:
        found._release([], effects)
        original(found, settled, answers, [])

    patch.setattr(Coordinator, "_release_later", release_later)


def what_is_prepared_is_not_resumed(patch: pytest.MonkeyPatch) -> None:
    original = TransactionMachine.start

    def start(found: Any, turn: Turn) -> None:
        original(found, turn)
        turn.effects.clear()

    patch.setattr(TransactionMachine, "start", start)


def a_partition_gets_no_marker(patch: pytest.MonkeyPatch) -> None:
    original = TransactionMachine._send_markers

    def send(found: Any, turn: Turn, prepared: Any) -> None:
        count = len(prepared.partitions)
        original(
            found, turn, prepared._replace(partitions=prepared.partitions[: max(count - 1, 1)])
        )

    patch.setattr(TransactionMachine, "_send_markers", send)


def markers_are_not_sent_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MarkerSender, "_retry", lambda sender, errands: None)


def markers_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    original = TransactionMachine._send_markers

    def send(found: Any, turn: Turn, prepared: Any) -> None:
        original(found, turn, prepared)
        if prepared.partitions:
            found._complete(turn, prepared)

    patch.setattr(TransactionMachine, "_send_markers", send)


def late_markers_are_accepted(patch: pytest.MonkeyPatch) -> None:
    """A marker of the transaction before ends the next one, which has that epoch."""
    original = ProducerStates.decide_marker

    def decide(states: Any, producer_id: int, *args: Any) -> Any:
        decision = original(states, producer_id, *args)
        known = states.get(producer_id)
        is_late = decision == Refused(ErrorCode.INVALID_PRODUCER_EPOCH) and known.epoch == args[0]
        return APPEND if is_late else decision

    patch.setattr(ProducerStates, "decide_marker", decide)


def old_coordinators_write_markers(patch: pytest.MonkeyPatch) -> None:
    original = ProducerStates.decide_marker

    def decide(states: Any, producer_id: int, epoch: int, _: int, version: int) -> Any:
        return original(states, producer_id, epoch, 1 << 30, version)

    patch.setattr(ProducerStates, "decide_marker", decide)


def pending_offsets_count_after_an_abort(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "apply_abort_marker", GroupMachine.apply_commit_marker)


def pending_offsets_are_lost_by_a_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "apply_commit_marker", GroupMachine.apply_abort_marker)


def coordinators_miss_markers(patch: pytest.MonkeyPatch) -> None:
    """What is pending is ended in the log, and not in memory."""

    def apply(machine: Any, marker_type: Any, producer_id: int) -> None:
        pass

    patch.setattr(coordinator, "apply_marker", apply)
    patch.setattr(machine_log, "apply_marker", apply)


def unstable_offsets_are_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupMachine, "fetch_stable", GroupMachine.fetch)


def fencing_leaves_the_epoch(patch: pytest.MonkeyPatch) -> None:
    original = TransactionMachine._fence

    def fence(found: Any, turn: Turn, saved: Any) -> None:
        original(found, turn, saved._replace(producer_epoch=saved.producer_epoch - 1))

    patch.setattr(TransactionMachine, "_fence", fence)


def a_new_producer_leaves_the_epoch(patch: pytest.MonkeyPatch) -> None:
    def bump(found: Any, turn: Turn, saved: Any, request: Any) -> ProducerIdentity | Refused:
        found._begin_anew(turn, saved, request, saved)
        return ProducerIdentity(saved.producer_id, saved.producer_epoch)

    patch.setattr(TransactionMachine, "_bump", bump)


def transactions_never_time_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionMachine, "abort_timed_out", lambda found, turn: None)


def epochs_run_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionMachine, "_rotates", lambda found, saved, expected: False)


def used_up_ids_begin_again(patch: pytest.MonkeyPatch) -> None:
    def rotate(
        found: Any, turn: Turn, saved: Any, request: Any, producer_id: int
    ) -> ProducerIdentity | Refused:
        renewed = saved._replace(producer_epoch=0, previous_producer_id=saved.producer_id)
        found._begin_anew(turn, renewed, request, saved)
        return ProducerIdentity(saved.producer_id, 0)

    patch.setattr(TransactionMachine, "_rotate", rotate)


def nobody_is_told_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shard, "aborted_in", lambda shard, records, offset, end_offset: ())


def readers_see_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Partition, "last_stable_offset", property(lambda partition: partition.high_watermark)
    )


def replays_forget_what_is_open(patch: pytest.MonkeyPatch) -> None:
    original = Replay._finish

    def finish(replay: Replay) -> None:
        original(replay)
        replay.partition.producers._open.clear()
        for producer in replay.partition.producers:
            producer.transaction_first_offset = NO_OFFSET

    patch.setattr(Replay, "_finish", finish)


def deleted_topics_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    original = MarkerSender._leaders

    def leaders(sender: Any, errand: Any, known: Any) -> Any:
        topics = sender._cluster.catalog.topics
        there = tuple(one for one in errand.partitions if one.topic in topics)
        return original(sender, errand._replace(partitions=there), known)

    patch.setattr(MarkerSender, "_leaders", leaders)


def refused_commits_are_taken_for_done(patch: pytest.MonkeyPatch) -> None:
    original = TransactionMachine.end

    def end(found: Any, turn: Turn, request: Any) -> ProducerIdentity | Refused:
        outcome = original(found, turn, request)
        if outcome == Refused(ErrorCode.PRODUCER_FENCED):
            return ProducerIdentity(*request.producer)
        return outcome

    patch.setattr(TransactionMachine, "end", end)


def seeds_for(bug: Bug) -> list[int]:
    """Where a bug has to be found; some show only in worlds that are about one place.

    Where a rare one was seen last comes first: with that seed it shows until something else changes.
    """
    place = SHOWS_AT.get(bug)
    begin, end, step = (
        (0, SEEDS, 1) if place is None else (POINTS.index(place), WORLDS_ABOUT, len(POINTS))
    )
    return [*SEEN_LAST.get(bug, ()), *range(begin, end, step)]


SEEDS = 400
WORLDS_ABOUT = 400 * len(POINTS)
SHOWS_AT: dict[Bug, CrashPoint] = {
    markers_sent_before_durable: CrashPoint.AFTER_MARKERS_SENT,
    old_coordinators_write_markers: CrashPoint.AFTER_MARKERS_SENT,
    verifications_outlive_markers: CrashPoint.BEFORE_VERIFICATION,
}
SEEN_LAST: dict[Bug, tuple[int, ...]] = {
    late_markers_are_accepted: (78,),
    markers_sent_before_durable: (294,),
    old_coordinators_write_markers: (3296,),
    verification_is_skipped: (120,),
}
BUGS: tuple[Bug, ...] = (
    late_requests_are_accepted,
    late_ends_are_accepted,
    verification_is_skipped,
    first_appends_need_no_verification,
    verifications_outlive_markers,
    offsets_are_not_verified,
    answered_before_durable,
    markers_sent_before_durable,
    what_is_prepared_is_not_resumed,
    a_partition_gets_no_marker,
    markers_are_not_sent_again,
    markers_are_not_waited_for,
    late_markers_are_accepted,
    old_coordinators_write_markers,
    pending_offsets_count_after_an_abort,
    pending_offsets_are_lost_by_a_commit,
    coordinators_miss_markers,
    unstable_offsets_are_told,
    fencing_leaves_the_epoch,
    a_new_producer_leaves_the_epoch,
    transactions_never_time_out,
    epochs_run_over,
    used_up_ids_begin_again,
    nobody_is_told_what_was_aborted,
    readers_see_open_transactions,
    replays_forget_what_is_open,
    deleted_topics_are_waited_for,
    refused_commits_are_taken_for_done,
)
