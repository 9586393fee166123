"""`ottla transactions list`, `describe`, `producers` and `find-hanging`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import UsageError, line_of
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.terminal.output import Output, Row, columns, repeat, say
from ottla.cli.times import current_ms
from ottla.client.admin_model.transactions import TransactionDescription, TransactionState
from ottla.client.existing_topics import describe_existing_topics
from ottla.errors import PartialFailureError
from ottla.inspection.transactions import (
    OPEN_STATES,
    PartitionTransaction,
    describe_existing_transactions,
    open_on_partitions,
    unknown_to_coordinators,
)
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

# Titles as in Kafka's tool.
LISTED = columns(
    transactional_id="TransactionalId",
    coordinator_id="Coordinator",
    producer_id="ProducerId",
    state="TransactionState",
)
DESCRIBED = columns(
    coordinator_id="CoordinatorId",
    transactional_id="TransactionalId",
    producer_id="ProducerId",
    producer_epoch="ProducerEpoch",
    state="TransactionState",
    transaction_timeout_ms="TransactionTimeoutMs",
    transaction_start_time_ms="CurrentTransactionStartTimeMs",
    transaction_duration_ms="TransactionDurationMs",
    partitions="TopicPartitions",
)
PRODUCERS = columns(
    producer_id="ProducerId",
    producer_epoch="ProducerEpoch",
    coordinator_epoch="LatestCoordinatorEpoch",
    last_sequence="LastSequence",
    last_timestamp_ms="LastTimestamp",
    current_transaction_start_offset="CurrentTransactionStartOffset",
)
HANGING = columns(
    topic="Topic",
    partition="Partition",
    producer_id="ProducerId",
    producer_epoch="ProducerEpoch",
    coordinator_epoch="CoordinatorEpoch",
    start_offset="StartOffset",
    last_timestamp_ms="LastTimestamp",
    duration_minutes="Duration(min)",
)
_PARTITIONS_AT_ONCE: Final = 500
_MINUTE_MS: Final = 60_000


def _print_partial(error: PartialFailureError) -> Mapping[Any, Any]:
    """Print the errors of a partial failure; returns the results."""
    for thing, each in error.errors.items():
        say(f"ottla: {thing}: {line_of(each)}")
    return error.results


# list


def list_all(arguments: Arguments) -> int:
    """List the transactional ids."""
    output = Output(arguments.form)
    duration = arguments.duration
    with admin_of(arguments) as admin:

        def show() -> int:
            code = DONE
            try:
                found: Mapping[str, Any] = admin.list_transactions(
                    states=[TransactionState(state) for state in arguments.states],
                    producer_ids=arguments.producer_ids,
                    duration_ms=None if duration is None or duration < 0 else duration,
                    transactional_id_pattern=arguments.pattern,
                )
            except PartialFailureError as error:
                found, code = _print_partial(error), FAILED
            rows = [
                {
                    "transactional_id": listing.transactional_id,
                    "coordinator_id": listing.coordinator_id,
                    "producer_id": listing.producer_id,
                    "state": str(listing.state),
                }
                for _, listing in sorted(found.items())
                # Brokers keep counting after the end of a transaction.
                if duration is None or duration < 0 or listing.state in OPEN_STATES
            ]
            if output.is_table and not rows:
                say("there are no such transactional ids")
            output.rows(LISTED, rows)
            return code

        return repeat(arguments.watch, show)


# describe


def describe(arguments: Arguments) -> int:
    """Show what the coordinators know of transactional ids."""
    names = [*arguments.transactional_ids, *arguments.more_ids]
    if not names:
        raise UsageError(
            "no transactional id is given", "name one; `ottla transactions list` shows them"
        )
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            code = DONE
            try:
                found: Mapping[str, Any] = admin.describe_transactions(names)
            except PartialFailureError as error:
                found, code = _print_partial(error), FAILED
            now_ms = current_ms()
            rows = [_described(name, found[name], now_ms) for name in names if name in found]
            output.rows(DESCRIBED, rows)
            return code

        return repeat(arguments.watch, show)


def _described(name: str, found: TransactionDescription, now_ms: int) -> Row:
    start_ms = found.transaction_start_time_ms
    lasts_ms = None
    if start_ms is not None and found.state in OPEN_STATES:
        lasts_ms = max(0, now_ms - start_ms)
    return {
        "coordinator_id": found.coordinator_id,
        "transactional_id": name,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": str(found.state),
        "transaction_timeout_ms": found.transaction_timeout_ms,
        "transaction_start_time_ms": start_ms,
        "transaction_duration_ms": lasts_ms,
        "partitions": [str(partition) for partition in found.partitions],
    }


# producers


def partition_of(arguments: Arguments) -> TopicPartition | None:
    """The partition, from one argument or two."""
    topics = [arguments.topic, arguments.named_topic]
    partitions = [arguments.partition, arguments.named_partition]
    if None not in topics or None not in partitions:
        raise UsageError("the partition is named twice", "write TOPIC PARTITION")
    topic = next((each for each in topics if each is not None), None)
    partition = next((each for each in partitions if each is not None), None)
    if topic is None and partition is None:
        return None
    if topic is None or partition is None:
        missing = "topic" if topic is None else "partition"
        raise UsageError(f"the {missing} is missing", "write TOPIC PARTITION")
    return TopicPartition(topic, partition)


def producers(arguments: Arguments) -> int:
    """List the producers that a partition remembers."""
    partition = partition_of(arguments)
    if partition is None:
        raise UsageError("no partition is given", "write TOPIC PARTITION")
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            found = admin.describe_producers([partition], broker_id=arguments.broker_id)[partition]
            rows = [
                {
                    "producer_id": producer.producer_id,
                    "producer_epoch": producer.producer_epoch,
                    "coordinator_epoch": producer.coordinator_epoch,
                    "last_sequence": producer.last_sequence,
                    "last_timestamp_ms": producer.last_timestamp_ms,
                    "current_transaction_start_offset": producer.current_transaction_start_offset,
                }
                for producer in sorted(found, key=lambda producer: producer.producer_id)
            ]
            if output.is_table and not rows:
                say(f"{partition} remembers no producers")
            output.rows(PRODUCERS, rows)
            return DONE

        return repeat(arguments.watch, show)


# find-hanging


def find_hanging(arguments: Arguments) -> int:
    """List open transactions that no coordinator will end."""
    if arguments.partition is not None and arguments.topic is None:
        raise UsageError("--partition needs --topic", "add --topic TOPIC")
    output = Output(arguments.form)
    limit_ms = arguments.max_transaction_timeout * _MINUTE_MS
    with admin_of(arguments) as admin:
        partitions = _partitions(admin, arguments)
        candidates, code = _silent_for_longer(admin, partitions, arguments.broker_id, limit_ms)
        hanging = _unknown_to_coordinators(admin, candidates)
    if output.is_table and not hanging:
        say(f"no hanging transactions; checked partitions: {len(partitions)}")
    output.rows(HANGING, [_hanging(each, current_ms()) for each in hanging])
    return code


def _partitions(admin: Admin, arguments: Arguments) -> list[TopicPartition]:
    if arguments.partition is not None:
        return [TopicPartition(arguments.topic, arguments.partition)]
    if arguments.topic is None:
        # Internal topics too: offsets that a transaction commits also wait for its marker.
        described = describe_existing_topics(admin, sorted(admin.list_topics(list_internal=True)))
    else:
        described = admin.describe_topics([arguments.topic])
    broker_id = arguments.broker_id
    return [
        TopicPartition(topic, info.partition)
        for topic, description in described.items()
        for info in description.partitions
        if broker_id is None or any(node.id == broker_id for node in info.replicas)
    ]


def _silent_for_longer(
    admin: Admin, partitions: Iterable[TopicPartition], broker_id: int | None, limit_ms: int
) -> tuple[list[PartitionTransaction], int]:
    """Open transactions whose producer has not written for longer than the limit, and the exit code."""
    found: list[PartitionTransaction] = []
    code = DONE
    rest = iter(partitions)
    while some := list(islice(rest, _PARTITIONS_AT_ONCE)):
        try:
            answer: Mapping[TopicPartition, Any] = admin.describe_producers(
                some, broker_id=broker_id
            )
        except PartialFailureError as error:
            answer, code = _print_partial(error), FAILED
        now_ms = current_ms()
        found += [
            each
            for each in open_on_partitions(answer)
            if now_ms - each.producer.last_timestamp_ms > limit_ms
        ]
    return found, code


def _unknown_to_coordinators(
    admin: Admin, candidates: Sequence[PartitionTransaction]
) -> list[PartitionTransaction]:
    if not candidates:
        return []
    ids = sorted({each.producer.producer_id for each in candidates})
    listed = admin.list_transactions(producer_ids=ids)
    names = {listing.producer_id: name for name, listing in listed.items()}
    descriptions = describe_existing_transactions(admin, names.values())
    return unknown_to_coordinators(candidates, names, descriptions)


def _hanging(each: PartitionTransaction, now_ms: int) -> Row:
    producer = each.producer
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "start_offset": each.start_offset,
        "last_timestamp_ms": producer.last_timestamp_ms,
        "duration_minutes": (now_ms - producer.last_timestamp_ms) // _MINUTE_MS,
    }
