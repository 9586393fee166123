"""What `App` does in exactly-once handlers: sends are collected, requests and transactions refused."""

from __future__ import annotations

import asyncio
from typing import Annotated

import pytest

from ottla.app import App, CollectedRecord, To
from ottla.client.model import RecordMetadata
from ottla.errors import IllegalStateError


@pytest.fixture
def app() -> App:
    return App("billing", linger_ms=0)


def test_sends_and_results_belong_to_the_handlers_transaction(app: App) -> None:
    answers: list[RecordMetadata] = []
    runs: list[str] = []

    @app.listener("orders", delivery="exactly-once", errors={LookupError: "retry"})
    async def bill(order: str) -> Annotated[str, To("invoices")]:
        runs.append(order)
        answers.append(await app.send("log", f"{order} {len(runs)}"))
        if len(runs) == 1:
            raise LookupError
        return f"invoice of {order}"

    @app.listener("orders", group="threads", delivery="exactly-once")
    def copy(order: str) -> None:
        answers.append(app.blocking.send("copies", order))

    with app.test() as t:
        t.blocking.send("orders", "tea")
        t.blocking.settled()
        assert t.sent("invoices", str) == ["invoice of tea"]
        # What the failed attempt has sent is not there, committed or not.
        assert [each.value for each in t.broker.records("log", isolation="read_uncommitted")] == [
            b"tea 2"
        ]
        assert t.sent("copies", str) == ["tea"]
    assert all(isinstance(each, CollectedRecord) and each.offset == -1 for each in answers)


def test_requests_transactions_and_late_sends_are_refused(app: App) -> None:
    errors: list[str] = []
    is_over = asyncio.Event()
    late: list[asyncio.Task[RecordMetadata]] = []

    async def send_late() -> RecordMetadata:
        await is_over.wait()
        return await app.send("log", "late")

    @app.listener("orders", delivery="exactly-once")
    async def bill(order: str) -> None:
        late.append(asyncio.ensure_future(send_late()))
        try:
            await app.request("quotes", "?")
        except IllegalStateError as error:
            errors.append(str(error))
        try:
            async with app.transaction():
                pass
        except IllegalStateError as error:
            errors.append(str(error))

    async def main() -> None:
        async with app.test() as t:
            await t.send("orders", "tea")
            await t.settled()
            is_over.set()
            with pytest.raises(IllegalStateError, match="nothing can be sent any more"):
                await late[0]

    asyncio.run(main())
    assert "cannot wait for a reply" in errors[0]
    assert "needs no app.transaction()" in errors[1]
