"""Aborting a transaction: the plan, which says exactly what will happen, and doing it if nothing has changed since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from ottla.client.admin_model.transactions import TransactionDescription, TransactionState
from ottla.console.http.errors import ApiError
from ottla.console.transactions.held import GroupPosition, HeldPartition
from ottla.console.transactions.own_records import OwnRecords
from ottla.inspection.transactions import PartitionTransaction


class AbortWay(StrEnum):
    """How a transaction is aborted."""

    FENCE = "fence"
    """InitProducerId with its id: the coordinator fences the producer and aborts all of the transaction."""
    MARKER = "marker"
    """WriteTxnMarkers for one partition (KIP-664): for a transaction that no coordinator knows."""


@dataclass(frozen=True)
class AbortPlan:
    """What an abort does; `steps` are sentences for people."""

    way: AbortWay
    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    started_at_ms: int | None
    steps: tuple[str, ...]
    partitions: tuple[HeldPartition, ...]
    lost: OwnRecords
    """What readers of committed records never see."""
    freed_count: int
    """The offsets that readers of committed records get to see."""
    groups: tuple[str, ...]
    """The groups that wait now and go on."""


def fence_plan(
    transactional_id: str,
    description: TransactionDescription,
    partitions: tuple[HeldPartition, ...],
    lost: OwnRecords,
) -> AbortPlan:
    """The plan for the open transaction of an id; an error if it has none."""
    if description.state is not TransactionState.ONGOING:
        raise _nothing_open(transactional_id, description.state)
    producer_id, epoch = description.producer_id, description.producer_epoch
    count = len(description.partitions)
    steps = [
        f"The console sends InitProducerId for {transactional_id} to its coordinator, broker "
        f"{description.coordinator_id}.",
        f"The producer that runs now (producer id {producer_id}, epoch {epoch}) is fenced: its next request "
        "fails with PRODUCER_FENCED or INVALID_PRODUCER_EPOCH, and it has to be started again.",
        f"The coordinator writes an abort marker to {_counted(count, 'partition')}. Readers of committed "
        f"records never see {_written(lost)} the transaction wrote there.",
    ]
    if any(each.topic == "__consumer_offsets" for each in partitions):
        steps.append("Offsets that the transaction was going to commit for groups are dropped.")
    return AbortPlan(
        way=AbortWay.FENCE,
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        started_at_ms=description.transaction_start_time_ms,
        steps=(*steps, *_consequences(partitions)),
        partitions=partitions,
        lost=lost,
        freed_count=sum(each.freed_count for each in partitions),
        groups=_waiting_groups(partitions),
    )


def marker_plan(hanging: PartitionTransaction, held: HeldPartition, lost: OwnRecords) -> AbortPlan:
    """The plan for a transaction that hangs on a partition."""
    spec = hanging.abort_spec
    steps = [
        f"The console sends WriteTxnMarkers to the leader of {hanging.partition}"
        + ("" if held.leader_id is None else f", broker {held.leader_id}")
        + f": one abort marker for producer id {spec.producer_id}, epoch {spec.producer_epoch}, with "
        f"coordinator epoch {spec.coordinator_epoch}.",
        f"The transaction that is open there since offset {hanging.start_offset} ends as aborted. Readers of "
        f"committed records never see {_written(lost)} it wrote.",
        "No coordinator knows this transaction, so no other partition changes, and no producer is fenced.",
    ]
    return AbortPlan(
        way=AbortWay.MARKER,
        transactional_id=None,
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        started_at_ms=None,
        steps=(*steps, *_consequences((held,))),
        partitions=(held,),
        lost=lost,
        freed_count=held.freed_count,
        groups=_waiting_groups((held,)),
    )


def check_unchanged(plan: AbortPlan, producer_id: int | None, producer_epoch: int | None) -> None:
    """Refuse to abort another transaction than the one that the user has seen."""
    if (producer_id, producer_epoch) != (plan.producer_id, plan.producer_epoch):
        raise ApiError(
            HTTPStatus.CONFLICT,
            f"this is another transaction than before: producer id {plan.producer_id}, epoch "
            f"{plan.producer_epoch}",
            "nothing was done: look at it again",
        )


def check_same_start(plan: AbortPlan, started_at_ms: int | None) -> None:
    """Refuse to abort a transaction that has begun since: before KIP-890 they have the same epoch."""
    if started_at_ms is not None and started_at_ms != plan.started_at_ms:
        raise ApiError(
            HTTPStatus.CONFLICT,
            f"the transaction has ended, and {plan.transactional_id} has begun another one",
            "nothing was done: look at it again",
        )


def _nothing_open(transactional_id: str, state: TransactionState) -> ApiError:
    if state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        advice = "its end is decided: the coordinator is writing the markers"
    else:
        advice = "nothing was done"
    return ApiError(
        HTTPStatus.CONFLICT,
        f"no transaction of {transactional_id} is open: its state is {state}",
        advice,
    )


def _consequences(partitions: Iterable[HeldPartition]) -> list[str]:
    """How the last stable offsets move."""
    steps = []
    for each in partitions:
        name = f"{each.topic}-{each.partition}"
        if not each.is_held:
            continue
        if each.next_producer_id is not None:
            steps.append(
                f"The last stable offset of {name} moves from {each.last_stable_offset} to "
                f"{each.next_stable_offset}, where producer id {each.next_producer_id} has the next open "
                "transaction."
            )
        else:
            steps.append(
                f"The last stable offset of {name} moves from {each.last_stable_offset} to the end of the "
                f"log, at least {each.next_stable_offset}."
            )
    return steps


def _waiting_groups(partitions: Iterable[HeldPartition]) -> tuple[str, ...]:
    names = {
        group.group_id
        for each in partitions
        if each.is_held
        for group in each.groups
        if group.position is GroupPosition.WAITING
    }
    return tuple(sorted(names))


def _written(lost: OwnRecords) -> str:
    """`what`, or `the 6 records that`."""
    if not lost.is_whole:
        return (
            f"what, at least {_counted(lost.record_count, 'record')},"
            if lost.record_count
            else "what"
        )
    return "what" if not lost.record_count else f"the {_counted(lost.record_count, 'record')} that"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
