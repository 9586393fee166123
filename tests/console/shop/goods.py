"""What the shop's records say: the n-th order, payment or customer is the same in every run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated

import pyarrow as pa

from ottla.schemas import Digits

TEAS = (
    ("TEA-EARL-GREY", "Earl Grey, loose leaf", "7.90"),
    ("TEA-ASSAM", "Assam second flush", "9.40"),
    ("TEA-SENCHA", "Sencha, first harvest", "12.50"),
    ("TEA-ROOIBOS", "Rooibos with orange", "5.20"),
    ("TEA-DARJEELING", "Darjeeling FTGFOP", "14.80"),
    ("POT-CAST-IRON", "Cast iron pot, 0.8 l", "49.00"),
    ("CUP-STONEWARE", "Stoneware cup", "11.00"),
    ("CAKE-POPPY-SEED", "Poppy seed cake", "18.60"),
)
CUSTOMERS = (
    ("Ana Kovač", "ana.kovac@example.com", "Ljubljana"),
    ("Björn Lindqvist", "bjorn@example.org", "Uppsala"),
    ("Chiara Ricci", "chiara.ricci@example.com", "Trieste"),
    ("Dévi Rao", "devi@example.net", "Leeds"),
    ("Émile Fournier", "emile.fournier@example.com", "Lille"),
    ("Fatima Zahra", "fatima@example.org", "Utrecht"),
    ("Grzegorz Nowak", "nowak@example.com", "Kraków"),
    ("渡辺 花", "hana@example.jp", "京都"),
)
PAGES = ("/", "/teas", "/teas/sencha", "/teas/assam", "/pots", "/cart", "/checkout", "/help")
# Their mailboxes are full, so that their mails become dead letters.
UNREACHABLE_CUSTOMERS = 2


class Means(Enum):
    """How an order is paid."""

    CARD = "card"
    TRANSFER = "transfer"
    VOUCHER = "voucher"


@dataclass
class Payment:
    """A payment of an order."""

    order: str
    amount: Annotated[Decimal, Digits(10, 2)]
    means: Means
    currency: str = "EUR"
    voucher: str | None = None


@dataclass
class Parcel:
    """One of the parcels of a shipment."""

    barcode: str
    weight_grams: int


@dataclass
class Shipment:
    """What was handed over to the carrier."""

    order: str
    carrier: str
    parcels: list[Parcel]
    is_express: bool = False


@dataclass
class StockLevel:
    """How many pieces are in a warehouse."""

    sku: str
    warehouse: str
    pieces: int


def json_bytes(value: object) -> bytes:
    """As the shop's programs write JSON."""
    return json.dumps(value, ensure_ascii=False).encode()


def order_number(n: int) -> str:
    return f"O-{100_000 + n}"


def customer_id(n: int) -> str:
    return f"C-{n % 240:04d}"


def order(n: int) -> dict[str, object]:
    """The n-th order."""
    lines = []
    total = Decimal(0)
    for position in range(1 + n % 3):
        sku, name, price = TEAS[(n * 5 + position * 3) % len(TEAS)]
        count = 1 + (n + position) % 4
        lines.append({"sku": sku, "name": name, "count": count, "price": price})
        total += count * Decimal(price)
    return {
        "order": order_number(n),
        "customer": customer_id(n * 7),
        "lines": lines,
        "total": str(total),
        "currency": "EUR",
        "gift": n % 11 == 0,
        "note": "Please ring twice." if n % 17 == 0 else None,
    }


def payment(n: int) -> Payment:
    """The payment of the n-th order."""
    means = (Means.CARD, Means.CARD, Means.TRANSFER, Means.VOUCHER)[n % 4]
    voucher = f"TEA-{n % 900 + 100}" if means is Means.VOUCHER else None
    return Payment(order_number(n), Decimal(str(order(n)["total"])), means, voucher=voucher)


def shipment(n: int) -> Shipment:
    """The shipment of the n-th order."""
    parcels = [Parcel(f"SI{n:07d}{part}", 250 + 90 * (n % 9)) for part in range(1 + n % 2)]
    return Shipment(order_number(n), ("Pošta", "DHL", "GLS")[n % 3], parcels, n % 6 == 0)


def stock_level(n: int) -> StockLevel:
    """A count of a warehouse."""
    return StockLevel(TEAS[n % len(TEAS)][0], ("Ljubljana", "Graz")[n % 2], 40 + n * 13 % 160)


def climate(n: int) -> bytes:
    """What the sensors of a warehouse measured in an hour, as a stream of Arrow's IPC format."""
    minutes = range(0, 60, 5)
    columns = {
        "minute": pa.array(minutes, pa.int8()),
        "celsius": pa.array([16 + (n + each) % 40 / 10 for each in minutes], pa.float32()),
        "humidity": pa.array(
            [None if each == 25 else 45 + (n + each) % 9 for each in minutes], pa.int16()
        ),
        "door": pa.array([(n + each) % 7 == 0 for each in minutes], pa.bool_()),
    }
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def customer(n: int) -> dict[str, object]:
    """A customer, as the compacted topic keeps it."""
    name, mail, town = CUSTOMERS[n % len(CUSTOMERS)]
    return {"customer": customer_id(n), "name": name, "mail": mail, "town": town, "since": 2019}


def page_view(n: int) -> dict[str, object]:
    """Somebody looked at a page of the shop."""
    return {
        "visit": f"v{n // 5:06x}",
        "page": PAGES[n * 3 % len(PAGES)],
        "ms": 12 + n * 7 % 240,
        "country": ("SI", "SE", "IT", "GB", "FR", "NL", "PL", "JP")[n % 8],
    }


def rating(n: int) -> dict[str, object]:
    """A customer's opinion of a tea."""
    words = ("Wonderful.", "A little bitter.", "Arrived in time.", "Would buy again.")[n % 4]
    return {"sku": TEAS[n % 5][0], "stars": 3 + n % 3, "words": words}


def is_reachable(customer: str) -> bool:
    """Whether mails to a customer arrive."""
    return int(customer.removeprefix("C-")) >= UNREACHABLE_CUSTOMERS
