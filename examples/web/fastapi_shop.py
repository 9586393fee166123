"""A web service that sends orders and bills them: FastAPI with an app on the same event loop.

    BOOTSTRAP_SERVERS=127.0.0.1:9092 uvicorn fastapi_shop:web

POST /orders sends an order, GET /invoices has the bills, /kafka/readyz and /kafka/metrics are the app's.
"""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import Depends, FastAPI
from pydantic import BaseModel

from ottla.app import App, To

shop = App(
    "fastapi-shop",
    bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    auto_offset_reset="earliest",
)
shop.topic("orders", partitions=3)
shop.topic("invoices", partitions=3)


class Order(BaseModel):
    number: int
    amount: float


class Invoice(BaseModel):
    order: int
    total: float


class Receipt(BaseModel):
    partition: int
    offset: int


invoices: list[Invoice] = []


@shop.listener("orders")
async def bill(order: Order) -> Annotated[Invoice, To("invoices")]:
    """Bills an order, with the tax."""
    return Invoice(order=order.number, total=round(order.amount * 1.2, 2))


@shop.listener("invoices")
async def collect(invoice: Invoice) -> None:
    """Keeps the invoices for GET /invoices."""
    invoices.append(invoice)


web = FastAPI(lifespan=shop.lifespan)
web.mount("/kafka", shop.asgi())


@web.post("/orders", status_code=202)
async def post_order(order: Order, kafka: Annotated[App, Depends(shop.template)]) -> Receipt:
    """Send the order, and answer when it is acknowledged."""
    sent = await kafka.send("orders", order, key=str(order.number))
    return Receipt(partition=sent.partition, offset=sent.offset)


@web.get("/invoices")
async def get_invoices() -> list[Invoice]:
    """The invoices so far."""
    return invoices
