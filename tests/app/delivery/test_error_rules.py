"""What becomes of a record whose handler failed."""

from __future__ import annotations

import pytest

from ottla.app import App, BatchItemError, Retry
from ottla.app.delivery.error_rules import BuryRecord, Hop, RetryInPlace, backoff_ms, decide
from ottla.schemas.errors import RegistryUnavailableError

GONE = RegistryUnavailableError(503, 50003, "no registry answers")


async def bill(value: bytes) -> None: ...


def of_one_record(error: Exception) -> BatchItemError:
    failed = BatchItemError(3, "it cannot be read")
    failed.__cause__ = error
    return failed


@pytest.mark.parametrize(
    "retry", [None, Retry("1s"), Retry("1s", keep_order=True)], ids=["none", "topics", "in place"]
)
@pytest.mark.parametrize("error", [GONE, of_one_record(GONE)])
def test_an_outage_of_the_registry_makes_no_dead_letters(
    retry: Retry | None, error: Exception
) -> None:
    spec = App("billing").listener("orders", retry=retry, dead_letters=True)(bill).spec
    for count in (1, 2, 50):
        assert decide(spec, error, count) == RetryInPlace(backoff_ms(count), is_planned=False)


def test_the_errors_of_a_listener_count_more_than_the_rule_for_the_registry() -> None:
    app = App("billing")
    at_once = app.listener(
        "orders",
        name="at_once",
        dead_letters=True,
        errors={RegistryUnavailableError: "dead-letter"},
    )(bill)
    later = app.listener(
        "orders", name="later", retry=Retry("1s"), errors={RegistryUnavailableError: "retry"}
    )(bill)

    assert decide(at_once.spec, GONE, 1) == BuryRecord()
    assert decide(later.spec, GONE, 1) == Hop(1000)
