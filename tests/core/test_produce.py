"""What a Produce request may append."""

from __future__ import annotations

from itertools import product
from uuid import UUID

import pytest
from tests.core.client_batches import NOW_MS, client_batch, header_of, marker_batch

from ottla.core.catalog import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.core.outcomes import Refused
from ottla.core.partition import Partition
from ottla.core.produce import (
    AskCoordinator,
    Confirmed,
    check_in_sync,
    check_same_topic,
    check_topic,
    check_transactional_id,
    decide_verification,
    missing_verification,
    needed_replicas,
    refusal_for_producer,
    transaction_version,
)
from ottla.core.producer_state import ProducerStates, Verification
from ottla.core.turn import ProducerIdentity
from ottla.errors import ErrorCode
from ottla.records.control import MarkerType

PRODUCER = ProducerIdentity(7, 0)
OTHER = ProducerIdentity(8, 0)
VERSIONS = range(3, 14)


@pytest.mark.parametrize(
    ("topic", "acks", "error"),
    [
        ("orders", -1, None),
        ("orders", 0, None),
        ("orders", 1, None),
        ("orders", 2, ErrorCode.INVALID_REQUIRED_ACKS),
        ("orders", -2, ErrorCode.INVALID_REQUIRED_ACKS),
        (GROUPS_TOPIC, 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TRANSACTIONS_TOPIC, -1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (GROUPS_TOPIC, 2, ErrorCode.INVALID_REQUIRED_ACKS),
        (None, 1, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, 2, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_topics_and_acks_that_are_refused(
    topic: str | None, acks: int, error: ErrorCode | None
) -> None:
    assert check_topic(topic, acks) == (None if error is None else Refused(error))


@pytest.mark.parametrize(
    ("acks", "min_insync_replicas", "in_sync", "is_refused"),
    [
        (acks, wanted, in_sync, acks == -1 and wanted > in_sync)
        for acks, wanted, in_sync in product((-1, 0, 1), (1, 2, 3), (1, 2, 3))
    ],
)
def test_only_acks_of_all_wait_for_replicas(
    acks: int, min_insync_replicas: int, in_sync: int, is_refused: bool
) -> None:
    refused = check_in_sync(needed_replicas(acks, min_insync_replicas), in_sync)
    assert refused == (Refused(ErrorCode.NOT_ENOUGH_REPLICAS) if is_refused else None)


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("transactional_id", [None, "", "orders-1"])
def test_a_transactional_batch_needs_a_transactional_id(
    transactional: bool, transactional_id: str | None
) -> None:
    header = header_of(client_batch(producer_id=7, producer_epoch=0, transactional=transactional))
    refused = Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    is_refused = transactional and transactional_id is None
    assert check_transactional_id(header, transactional_id) == (refused if is_refused else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_was_created_again_is_another_one(version: int) -> None:
    old, new = UUID(int=1), UUID(int=2)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert check_same_topic(old, old, version) is None
    assert check_same_topic(old, new, version) == Refused(unknown)


@pytest.mark.parametrize("version", VERSIONS)
def test_produce_versions_stand_for_transaction_versions(version: int) -> None:
    assert transaction_version(version) == (2 if version >= 12 else 1)


# Verification.


class Log:
    """A partition with one transactional producer."""

    def __init__(self) -> None:
        self.partition = Partition(0, 0, 0, ProducerStates())

    def batch(self, sequence: int, epoch: int = 0, transactional: bool = True) -> bytes:
        return client_batch(
            producer_id=7,
            producer_epoch=epoch,
            first_sequence=sequence,
            transactional=transactional,
        )

    def apply(self, data: bytes) -> None:
        self.partition.apply(header_of(data), self.partition.end_offset, data, NOW_MS)

    def missing(self, data: bytes, version: int = 12) -> Verification | None:
        return missing_verification(self.partition, header_of(data), version)


def test_the_first_batch_of_a_transaction_lacks_its_verification() -> None:
    log = Log()
    missing = log.missing(log.batch(0))
    assert isinstance(missing, Verification)
    assert missing.version == 2
    assert log.missing(log.batch(1)) is missing, "batches of one transaction share it"


def test_the_version_of_the_request_decides_how_it_is_verified() -> None:
    log = Log()
    missing = log.missing(log.batch(0), version=11)
    assert missing is not None
    assert missing.version == 1


def test_batches_that_lack_no_verification() -> None:
    log = Log()
    assert log.missing(log.batch(0, transactional=False)) is None, "not transactional"
    log.apply(log.batch(0))
    assert log.missing(log.batch(1)) is None, "the transaction is open"
    assert log.missing(log.batch(0)) is None, "a repetition"
    assert log.missing(log.batch(5)) is None, "out of order in an open transaction"
    log.apply(marker_batch(7, 1, MarkerType.COMMIT))
    assert log.missing(log.batch(0, epoch=0)) is None, "an old epoch"


def test_a_batch_out_of_order_is_verified_first() -> None:
    """As in Kafka: the coordinator's error comes before that of the sequence number."""
    log = Log()
    log.apply(log.batch(0))
    log.apply(marker_batch(7, 0, MarkerType.COMMIT))
    assert log.missing(log.batch(5)) is not None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_enabled", [False, True])
def test_who_has_to_ask_the_coordinator(version: int, is_enabled: bool) -> None:
    decision = decide_verification([PRODUCER, PRODUCER], version, is_enabled)
    if version < 12 and not is_enabled:
        assert isinstance(decision, Confirmed)
    else:
        assert decision == AskCoordinator(PRODUCER)


def test_a_request_has_transactions_of_one_producer() -> None:
    refused = Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert decide_verification([PRODUCER, OTHER], 12, True) == refused
    assert decide_verification([PRODUCER, OTHER], 11, True) == refused
    assert isinstance(decide_verification([PRODUCER, OTHER], 11, False), Confirmed)


RETRIED = ErrorCode.NOT_ENOUGH_REPLICAS
TRANSLATED = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CONCURRENT_TRANSACTIONS: RETRIED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: RETRIED,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: RETRIED,
    ErrorCode.NOT_COORDINATOR: RETRIED,
    ErrorCode.NETWORK_EXCEPTION: RETRIED,
    ErrorCode.UNKNOWN_SERVER_ERROR: RETRIED,
}


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_of_the_coordinator_become_those_of_produce(version: int) -> None:
    for error in ErrorCode:
        expected = TRANSLATED.get(error, error)
        if error is ErrorCode.TRANSACTION_ABORTABLE and version < 11:
            expected = ErrorCode.INVALID_TXN_STATE
        assert refusal_for_producer(Refused(error), version) == Refused(expected)
