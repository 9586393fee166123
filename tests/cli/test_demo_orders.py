"""The demo's verdict: it has to see every kind of failure."""

from __future__ import annotations

import json

import pytest

from ottla.cli.demo.orders import ReceiptReport, judge, order, receipt


def receipts(*numbers: int) -> list[bytes | None]:
    return [json.dumps(receipt(number)).encode() for number in numbers]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (receipts(2, 0, 1), ReceiptReport(3, 3, 0, 0, 0)),
        (receipts(0, 2), ReceiptReport(3, 2, 1, 0, 0)),
        (receipts(0, 1, 1, 2), ReceiptReport(3, 4, 0, 1, 0)),
        (receipts(0, 1, 1), ReceiptReport(3, 3, 1, 1, 0)),
        (receipts(0, 1, 2, 3), ReceiptReport(3, 4, 0, 0, 1)),
        ([*receipts(0, 1), b'{"id": 2, "total": 1}'], ReceiptReport(3, 3, 1, 0, 1)),
        ([*receipts(0, 1, 2), None], ReceiptReport(3, 4, 0, 0, 1)),
        ([], ReceiptReport(3, 0, 3, 0, 0)),
    ],
)
def test_the_verdict_counts_losses_duplicates_and_wrong_receipts(
    values: list[bytes | None], verdict: ReceiptReport
) -> None:
    assert judge(3, values) == verdict
    assert verdict.is_good == (values == receipts(2, 0, 1))


def test_an_order_has_what_its_receipt_needs() -> None:
    ordered = json.loads(order(7))
    assert ordered["cups"] * ordered["price"] == receipt(7)["total"]
