"""The orders of `ottla demo`, the receipts that must result, and the verdict."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PIPELINE: Final = "ottla-demo"
ORDERS: Final = "orders"
RECEIPTS: Final = "receipts"
PARTITIONS: Final = 2


def order(number: int) -> bytes:
    """An order as JSON."""
    fields = {
        "id": number,
        "customer": f"customer-{number % 100}",
        "cups": 1 + number % 4,
        "price": 2.5,
    }
    return json.dumps(fields).encode()


def receipt(number: int) -> dict[str, object]:
    """The receipt that an order has to become."""
    return {
        "id": number,
        "customer": f"customer-{number % 100}",
        "total": (1 + number % 4) * 2.5,
    }


@dataclass(frozen=True)
class ReceiptReport:
    """The result of reading everything back."""

    records_in: int
    records_out: int
    lost: int
    duplicated: int
    wrong: int

    @property
    def is_good(self) -> bool:
        """Whether each order has become exactly one receipt."""
        return self.records_in == self.records_out and not (
            self.lost or self.duplicated or self.wrong
        )


def judge(count: int, values: Iterable[bytes | None]) -> ReceiptReport:
    """Compares receipts with the orders 0 to `count`."""
    times: Counter[int] = Counter()
    found = wrong = 0
    for value in values:
        found += 1
        read = json.loads(value or b"null")
        number = read.get("id") if isinstance(read, dict) else None
        if type(number) is int and 0 <= number < count and read == receipt(number):
            times[number] += 1
        else:
            wrong += 1
    return ReceiptReport(count, found, count - len(times), sum(times.values()) - len(times), wrong)
