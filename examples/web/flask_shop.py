"""A web service that sends orders and bills them: Flask, with the app's event loop in a thread.

    BOOTSTRAP_SERVERS=127.0.0.1:9092 python flask_shop.py

A server that forks workers, such as gunicorn, calls `shop.blocking.start()` in its post_fork hook and
`shop.blocking.stop()` in worker_exit, instead of the `with` below.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Annotated
from wsgiref.simple_server import make_server

from flask import Flask, jsonify, request
from flask.typing import ResponseReturnValue

from ottla.app import App, To

shop = App(
    "flask-shop",
    bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    auto_offset_reset="earliest",
)
shop.topic("orders", partitions=3)
shop.topic("invoices", partitions=3)


@dataclass
class Order:
    number: int
    amount: float


@dataclass
class Invoice:
    order: int
    total: float


invoices: list[Invoice] = []


@shop.listener("orders")
def bill(order: Order) -> Annotated[Invoice, To("invoices")]:
    """Bills an order; a plain function runs in a thread, so that it may use blocking libraries."""
    return Invoice(order.number, round(order.amount * 1.2, 2))


@shop.listener("invoices")
def collect(invoice: Invoice) -> None:
    """Keeps the invoices for GET /invoices."""
    invoices.append(invoice)


web = Flask(__name__)


@web.post("/orders")
def post_order() -> ResponseReturnValue:
    """Send the order, and answer when it is acknowledged."""
    order = Order(**request.get_json())
    sent = shop.blocking.send("orders", order, key=str(order.number))
    return jsonify(partition=sent.partition, offset=sent.offset), 202


@web.get("/invoices")
def get_invoices() -> ResponseReturnValue:
    """The invoices so far."""
    return jsonify([asdict(each) for each in invoices])


if __name__ == "__main__":
    with shop.blocking, make_server("127.0.0.1", 8000, web) as server:
        server.serve_forever()
