"""A web service that sends orders and bills them: Django in one file, with the app's event loop in a thread.

    BOOTSTRAP_SERVERS=127.0.0.1:9092 python django_shop.py

In a project, the app is a module of its own (`shop/kafka.py`); the module with the WSGI application starts it. Do not
start it in `AppConfig.ready`: management commands call that too, and `runserver` calls it in two processes.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Annotated
from wsgiref.simple_server import make_server

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

from ottla.app import App, To

shop = App(
    "django-shop",
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
    """Bills an order; a plain function runs in a thread, so that it may use the ORM."""
    return Invoice(order.number, round(order.amount * 1.2, 2))


@shop.listener("invoices")
def collect(invoice: Invoice) -> None:
    """Keeps the invoices for GET /invoices."""
    invoices.append(invoice)


def post_order(request: HttpRequest) -> JsonResponse:
    """Send the order, and answer when it is acknowledged."""
    order = Order(**json.loads(request.body))
    sent = shop.blocking.send("orders", order, key=str(order.number))
    return JsonResponse({"partition": sent.partition, "offset": sent.offset}, status=202)


def get_invoices(request: HttpRequest) -> JsonResponse:
    """The invoices so far."""
    return JsonResponse([asdict(each) for each in invoices], safe=False)


urlpatterns = [path("orders", post_order), path("invoices", get_invoices)]

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"], USE_TZ=True)
django.setup()
web = get_wsgi_application()

if __name__ == "__main__":
    with shop.blocking, make_server("127.0.0.1", 8000, web) as server:
        server.serve_forever()
