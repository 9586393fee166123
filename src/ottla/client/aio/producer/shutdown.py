"""The shutdown of a producer: sends what is left, aborts an open transaction, logs what was lost."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla.client.aio.producer.sender import Sender
from ottla.client.aio.producer.transactor import Transactor
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.transactions import Transactions
from ottla.config.producer import ProducerConfig
from ottla.errors import IllegalStateError, KafkaError

log = logging.getLogger("ottla.client")

# With acks=0: how often close looks whether the operating system has taken all bytes.
_UNSENT_PAUSE_SECONDS: Final = 0.001


def limit_seconds(config: ProducerConfig) -> float:
    """How long a close without a timeout takes at most: every record has ended by then, and one more request."""
    return (config.delivery_timeout_ms + config.request_timeout_ms) / 1000


async def send_rest(sender: Sender) -> None:
    """Wait until every batch has ended."""
    sender.wake()
    await sender.idle()
    while sender.dispatcher.has_unsent_bytes:
        await asyncio.sleep(_UNSENT_PAUSE_SECONDS)


async def abort_open(
    transactions: Transactions, transactor: Transactor, config: ProducerConfig
) -> None:
    """Abort the open transaction, if there is one; a failure is only logged."""
    if not transactions.has_open:
        return
    log.info("%s: aborting the open transaction", config.client_id)
    try:
        # After this time the coordinator aborts it: there is no need to wait longer for one that does not answer.
        async with asyncio.timeout(config.transaction_timeout_ms / 1000):
            if transactions.is_ending:
                await transactor.finished()
            else:
                operation, is_new = transactions.begin_abort()
                if is_new:
                    transactor.start(operation)
                await operation.wait_async()
                if operation.error is not None:
                    log.warning("%s: the abort failed: %s", config.client_id, operation.error)
    except (KafkaError, IllegalStateError) as error:
        log.warning("%s: the abort failed: %s", config.client_id, error)
    except TimeoutError:
        pass  # log_unended_transaction reports it


def log_lost_records(accumulator: Accumulator, config: ProducerConfig) -> None:
    """Log which records were not acknowledged, except those whose outcome the program has asked for."""
    parts, count = [], 0
    failed = accumulator.failed_records.by_topic() if accumulator.failed_records is not None else {}
    for topic, (failed_count, error) in failed.items():
        parts.append(f"{failed_count} for {topic} ({error})")
        count += failed_count
    for topic, unsent_count in accumulator.close_incomplete().items():
        parts.append(f"{unsent_count} for {topic} (the producer was closed before)")
        count += unsent_count
    if not parts:
        return
    advice = (
        "; result() of the future that send() returns, or on_delivery, reports each of them"
        if failed
        else ""
    )
    log.warning(
        "%s lost %d records that were not acknowledged: %s%s",
        config.client_id,
        count,
        ", ".join(parts),
        advice,
    )


def log_unended_transaction(
    transactions: Transactions, transactor: Transactor, config: ProducerConfig
) -> None:
    """Log a transaction that has not been ended, and what the coordinator will do with it."""
    if not transactions.has_open:
        return
    what = "was not aborted"
    if transactions.is_committing:
        what = "is committed only if the coordinator was reached: there was no answer"
    last_error = transactor.last_error
    reason = "" if last_error is None else f" The last error: {last_error}"
    log.warning(
        "%s: the transaction of %s %s; if it is open, the coordinator aborts it after "
        "transaction.timeout.ms = %d.%s",
        config.client_id,
        config.transactional_id,
        what,
        config.transaction_timeout_ms,
        reason,
    )
