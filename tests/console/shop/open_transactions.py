"""Transactions that hold readers up: one of a producer that hangs, and one that no coordinator knows of any more."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from tests.broker.requests import new_producer_id
from tests.broker.txn_requests import send_request
from tests.console.shop.formats import Formats
from tests.console.shop.names import PAYMENTS, RATINGS, REFUNDS

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import BatchFlag, build_batch
from ottla.records.record import Record
from ottla.wire.messages.produce import ProduceResponse

SECONDS = 20
# As long as brokers allow by default.
TIMEOUT_MS = 15 * 60_000
# Before this version the leader does not ask the coordinator on the producer's behalf (KIP-890).
PRODUCE_V1 = 11
LOST_FOR_MS = 3 * 3_600_000


def hang_open(servers: str, formats: Formats) -> Producer:
    """A producer that began a transaction, wrote, and does nothing more; it lives as long as it is kept."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "client.id": "refunds-7c9d",
            "transactional.id": REFUNDS,
            "transaction.timeout.ms": TIMEOUT_MS,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for n in range(6):
        _, key, value = formats.payment(n)
        producer.produce(PAYMENTS, value, key, headers=[("refund", b"true")], partition=n % 2)
    assert producer.flush(SECONDS) == 0
    return producer


def hang_forever(servers: str, formats: Formats) -> int:
    """A transaction of three hours ago that only an operator can end, as there were before KIP-890; its producer id.

    The broker has to let it through: it has the option transaction.partition.verification.enable=false.
    """
    _, key, value = formats.rating(1)
    with RawConnection(servers.partition(",")[0]) as connection:
        producer_id = new_producer_id(connection)
        data = build_batch(
            [Record(0, int(time.time() * 1000) - LOST_FOR_MS, key, value)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            flags=BatchFlag.TRANSACTIONAL,
        )
        answer = connection.call(send_request("lost", RATINGS, data), ProduceResponse, PRODUCE_V1)
    code = answer.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.NONE, ErrorCode(code)
    return producer_id
