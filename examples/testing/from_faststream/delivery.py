"""A FastStream service on confluent-kafka: what was paid for is delivered, in the order in which it comes."""

from __future__ import annotations

import os
from typing import Annotated

from faststream import AckPolicy, Context, FastStream
from faststream.confluent import KafkaBroker, KafkaRouter
from faststream.confluent.message import KafkaMessage
from pydantic import BaseModel


class Payment(BaseModel):
    order: int
    table: int


class Delivery(BaseModel):
    order: int
    table: int
    key: str


router = KafkaRouter()
deliveries = router.publisher("deliveries")


@deliveries
@router.subscriber(
    "payments", group_id="delivery", auto_offset_reset="earliest", ack_policy=AckPolicy.ACK
)
async def deliver(payment: Payment, message: Annotated[KafkaMessage, Context()]) -> Delivery:
    raw = message.raw_message
    assert not isinstance(raw, tuple)
    return Delivery(order=payment.order, table=payment.table, key=(raw.key() or b"").decode())


def make_broker(servers: str) -> KafkaBroker:
    return KafkaBroker(servers, routers=[router], enable_idempotence=True)


broker = make_broker(os.environ.get("KAFKA_SERVERS", "localhost:9092"))
app = FastStream(broker)
