"""A FastStream service on aiokafka: every order becomes an invoice."""

from __future__ import annotations

import logging
import os

from faststream import AckPolicy, ExceptionMiddleware, FastStream
from faststream.kafka import KafkaBroker, KafkaRouter
from pydantic import BaseModel, ValidationError


class Order(BaseModel):
    id: int
    drink: str
    cents: int


class Invoice(BaseModel):
    order: int
    cents: int


class Till:
    """Knows the tax, while it is open."""

    is_open = True

    def with_tax(self, cents: int) -> int:
        if not self.is_open:
            raise ConnectionError("the till is closed")
        return cents * 119 // 100


rejecting = ExceptionMiddleware()
router = KafkaRouter(middlewares=(rejecting,))
invoices = router.publisher("invoices")
till = Till()


@rejecting.add_handler(ValidationError)
def reject(error: ValidationError) -> None:
    """What is no order will be none at the next attempt either."""
    logging.getLogger("billing").error("rejected: %s", error)


@invoices
@router.subscriber(
    "orders",
    group_id="billing",
    auto_offset_reset="earliest",
    ack_policy=AckPolicy.NACK_ON_ERROR,
)
async def bill(order: Order) -> Invoice:
    return Invoice(order=order.id, cents=till.with_tax(order.cents))


def make_broker(servers: str) -> KafkaBroker:
    return KafkaBroker(servers, routers=[router], enable_idempotence=True)


broker = make_broker(os.environ.get("KAFKA_SERVERS", "localhost:9092"))
app = FastStream(broker)
