"""One Kafka transaction of the sink: committed until there is a definite answer, or aborted."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.client.blocking.producer import Producer
from ottla.errors import FatalError, KafkaError, OttlaError, TimedOutError

log = logging.getLogger("ottla.spark")


@contextmanager
def one_transaction(producer: Producer, name: str) -> Iterator[None]:
    """Commit what is sent within, or abort it, so that readers need not wait for transaction.timeout.ms."""
    producer.begin_transaction()
    try:
        yield
    except FatalError:
        raise
    except BaseException:
        # No commit was requested, whatever the error is.
        _abort(producer, name)
        raise
    try:
        commit_until_answered(producer, name)
    except FatalError:
        raise
    except KafkaError:
        _abort(producer, name)
        raise


def commit_until_answered(producer: Producer, name: str) -> None:
    """Commit, and ask again until there is a definite answer: a commit that timed out may have happened."""
    while True:
        try:
            producer.commit_transaction()
        except TimedOutError as error:
            log.warning("%s: the commit is not answered yet, asking again: %s", name, error)
        else:
            return


def _abort(producer: Producer, name: str) -> None:
    """Abort a transaction whose commit was not requested, or was refused.

    The abort has the producer's epoch: if another instance has taken over, the coordinator refuses it as fenced, and
    the other instance's transaction goes on.
    """
    try:
        producer.abort_transaction()
    except FatalError:
        raise
    except OttlaError as error:
        log.warning("%s: the abort failed: %s", name, error)
