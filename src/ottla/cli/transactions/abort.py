"""`ottla transactions abort`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, UsageError
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import Output
from ottla.cli.transactions.overview import partition_of
from ottla.client.admin_model.transactions import AbortTransactionSpec, TransactionState
from ottla.errors import ErrorCode, KafkaError
from ottla.inspection.transactions import (
    describe_existing_transactions,
    open_on_partitions,
    owner_on_partition,
)

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin
    from ottla.model import TopicPartition


def abort(arguments: Arguments) -> int:
    """Abort a transaction on its partition, or by its transactional id."""
    partition = partition_of(arguments)
    by_producer = (arguments.producer_id, arguments.producer_epoch, arguments.coordinator_epoch)
    by_offset = arguments.start_offset is not None
    if arguments.transactional_id is not None:
        is_more = by_offset or arguments.force or any(each is not None for each in by_producer)
        if partition is not None or is_more:
            raise UsageError("--transactional-id goes alone", "leave out the rest")
        return _fence(arguments)
    if partition is None:
        raise UsageError(
            "no transaction is given",
            "write TOPIC PARTITION --start-offset N, or --transactional-id ID",
        )
    if not by_offset and any(each is None for each in by_producer):
        raise UsageError(
            "the transaction is not named",
            "give --start-offset, which `ottla transactions producers` shows, or all of --producer-id, "
            "--producer-epoch and --coordinator-epoch",
        )
    with admin_of(arguments) as admin:
        if by_offset:
            spec = _spec_at(admin, partition, arguments.start_offset)
        else:
            producer_id, producer_epoch, epoch = by_producer
            # The first transaction of a producer has coordinator epoch -1; 0 is below that of any leader.
            spec = AbortTransactionSpec(partition, producer_id, producer_epoch, max(0, epoch))
        if not arguments.force:
            _refuse_half(admin, spec)
        admin.abort_transaction(spec)
    Output("table").lines(
        [
            f"transaction aborted on {partition}: "
            f"producer id {spec.producer_id}, producer epoch {spec.producer_epoch}"
        ]
    )
    return DONE


def _spec_at(admin: Admin, partition: TopicPartition, offset: int) -> AbortTransactionSpec:
    for each in open_on_partitions(admin.describe_producers([partition])):
        if each.start_offset == offset:
            return each.abort_spec
    raise CommandError(
        f"no transaction that starts at offset {offset} is open on {partition}",
        "`ottla transactions producers` shows which are",
    )


def _refuse_half(admin: Admin, spec: AbortTransactionSpec) -> None:
    """Refuse to abort on one partition a transaction that its coordinator can end."""
    try:
        listed = admin.list_transactions(producer_ids=[spec.producer_id])
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return  # Kafka before 3.0 has no such API
    owner = owner_on_partition(spec.topic_partition, describe_existing_transactions(admin, listed))
    if owner is not None:
        name, description = owner
        raise CommandError(
            f"the transaction on {spec.topic_partition} is {name}'s, which its coordinator knows as "
            f"{description.state}: the rest of it could still be committed",
            f"`ottla transactions abort --transactional-id {name}` aborts all of it; --force "
            "aborts this partition alone",
        )


def _fence(arguments: Arguments) -> int:
    name = arguments.transactional_id
    with admin_of(arguments) as admin:
        # InitProducerId with an unknown id would create it.
        state = admin.describe_transactions([name])[name].state
        if state is not TransactionState.ONGOING:
            raise CommandError(
                f"no transaction of {name} is open: its state is {state}", "nothing was done"
            )
        fenced = admin.fence_producers([name])[name]
    Output("table").lines(
        [
            f"transaction of {name} aborted: "
            f"producer id {fenced.producer_id} goes on with epoch {fenced.producer_epoch}"
        ]
    )
    return DONE
