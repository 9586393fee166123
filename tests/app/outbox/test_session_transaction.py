"""`app.transaction(session)` with each library: one transaction, and each record applied once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context
from typing import Any

import pytest
from tests.app.letters.raw_records import as_read, raw_record
from tests.app.outbox.conftest import Shop
from tests.app.outbox.drivers import Driver

from ottla.app.declarations.listener_spec import (
    Delivery,
    ListenerSpec,
    Order,
    RawRecord,
    RetryPlan,
)
from ottla.app.delivery.unit import OutgoingRecord, Unit
from ottla.app.letters import hop
from ottla.app.outbox import CURRENT_OUTBOX, Outbox
from ottla.app.outbox.outbox_listener import OutboxHandler
from ottla.errors import IllegalStateError

RECORD = OutgoingRecord("invoices", b"invoice", b"t4", headers=(("h", b"\x00"), ("n", None)))
Body = Callable[[Sequence[RawRecord]], Awaitable[None]]


class Function:
    """A handler that is a function of the raw records."""

    def __init__(self, body: Body, *, is_batch: bool = False) -> None:
        self._body = body
        self.is_batch = is_batch
        self.calls = 0

    async def __call__(self, records: Sequence[RawRecord], unit: Unit) -> None:
        self.calls += 1
        await self._body(records)


async def no_ids(topics: Sequence[str]) -> dict[str, str]:
    return dict.fromkeys(topics, "id")


def handler_of(body: Body, **options: Any) -> OutboxHandler:
    is_batch = options.pop("is_batch", False)
    function = Function(body, is_batch=is_batch)
    spec = ListenerSpec(
        name="bill", topics=("orders",), group="billing", handler=function, **options
    )
    return OutboxHandler(spec, no_ids)


def a_unit() -> Unit:
    return Unit(max_records=100, max_bytes=10_000)


async def send(record: OutgoingRecord) -> None:
    """What `app.send` does."""
    transaction = CURRENT_OUTBOX.get()
    assert transaction is not None
    await transaction.send(record)


def outbox_of() -> Outbox:
    outbox = Outbox("billing")
    outbox.use(lambda: None)
    return outbox


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_effect_offset_and_sends_are_one_transaction(driver: Driver, shop: Shop) -> None:
    outbox = outbox_of()

    async def main() -> None:
        async with driver.open(shop.url) as session:

            async def bill(records: Sequence[RawRecord]) -> None:
                before = shop.effects
                async with outbox.transaction(session) as same:
                    assert same is session
                    await driver.execute(session, "INSERT INTO effects VALUES ('a')")
                    await send(RECORD)
                    assert shop.effects == before, "nothing is seen before the commit"

            handler = handler_of(bill)
            await handler([raw_record(offset=41)], a_unit())
            assert (shop.effects, shop.outbox, shop.next_offset) == (["a"], [b"invoice"], 42)
            # The same record again, as after a crash before the commit of its offset, or of a zombie.
            await handler([raw_record(offset=41)], a_unit())
            await handler([raw_record(offset=3)], a_unit())
            assert (shop.effects, shop.outbox, shop.next_offset) == (["a"], [b"invoice"], 42)
            await handler([raw_record(offset=50)], a_unit())
            assert (shop.effects, shop.next_offset) == (["a", "a"], 51)

    run(main())
    (row,) = shop.rows(
        "SELECT app, topic, partition_number, record_key, headers FROM ottla_outbox LIMIT 1"
    )
    assert (row[0], row[1], row[2], bytes(row[3])) == ("billing", "invoices", None, b"t4")
    assert row[4] == '[["h", "AA=="], ["n", null]]'


def test_an_exception_rolls_everything_back(driver: Driver, shop: Shop) -> None:
    outbox = outbox_of()

    async def main() -> None:
        async with driver.open(shop.url) as session:

            async def bill(records: Sequence[RawRecord]) -> None:
                async with outbox.transaction(session):
                    await driver.execute(session, "INSERT INTO effects VALUES ('a')")
                    await send(RECORD)
                    raise LookupError("no card")

            with pytest.raises(LookupError):
                await handler_of(bill)([raw_record()], a_unit())
            assert (shop.effects, shop.outbox, shop.next_offset) == ([], [], None)
            assert CURRENT_OUTBOX.get() is None

            async def retried(records: Sequence[RawRecord]) -> None:
                async with outbox.transaction(session):
                    await driver.execute(session, "INSERT INTO effects VALUES ('b')")

            await handler_of(retried)([raw_record()], a_unit())
            assert (shop.effects, shop.next_offset) == (["b"], 42)

    run(main())


def test_what_a_savepoint_rolls_back_is_not_sent(driver: Driver, shop: Shop) -> None:
    outbox = outbox_of()

    async def main() -> None:
        async with driver.open(shop.url) as session, outbox.transaction(session):
            await send(RECORD)
            await driver.execute(session, "SAVEPOINT mine")
            await send(RECORD._replace(value=b"never"))
            await driver.execute(session, "ROLLBACK TO SAVEPOINT mine")
            await send(RECORD._replace(value=b"after"))

    run(main())
    assert shop.outbox == [b"invoice", b"after"]
    assert shop.next_offset is None, "outside a handler there is no record"


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_transaction_that_is_ended_inside_the_block_fails(
    end: str, driver: Driver, shop: Shop
) -> None:
    outbox = outbox_of()

    async def main() -> None:
        async with driver.open(shop.url) as session:

            async def bill(records: Sequence[RawRecord]) -> None:
                async with outbox.transaction(session):
                    await driver.execute(session, "INSERT INTO effects VALUES ('a')")
                    await driver.execute(session, end)
                    await driver.execute(session, "INSERT INTO effects VALUES ('b')")

            with pytest.raises(IllegalStateError, match="committed or rolled back inside"):
                await handler_of(bill)([raw_record()], a_unit())

    run(main())
    assert shop.next_offset is None, "the record is not done"


def test_a_session_in_the_middle_of_a_transaction_is_refused(driver: Driver, shop: Shop) -> None:
    outbox = outbox_of()

    async def main() -> None:
        async with driver.open(shop.url) as session:
            begins = driver.name in ("asyncpg", "sqlite3-autocommit", "psycopg-autocommit")
            if begins:
                await driver.execute(session, "BEGIN")
            await driver.execute(session, "INSERT INTO effects VALUES ('a')")
            with pytest.raises(IllegalStateError, match="has a transaction already"):
                async with outbox.transaction(session):
                    pytest.fail("it was entered")

    run(main())


def test_a_session_that_is_not_awaited_also_works_without_async(driver: Driver, shop: Shop) -> None:
    outbox = outbox_of()

    async def main() -> None:
        async with driver.open(shop.url) as session:
            if driver.is_async:
                with (
                    pytest.raises(IllegalStateError, match="async with"),
                    outbox.transaction(session),
                ):
                    pytest.fail("it was entered")
                return
            with outbox.transaction(session):
                transaction = CURRENT_OUTBOX.get()
                assert transaction is not None
                transaction.send_blocking(RECORD)
            assert shop.outbox == [b"invoice"]

    run(main())


def test_of_two_instances_one_applies_the_record(driver: Driver, shop: Shop) -> None:
    """A zombie has the record in hand while the new owner of the partition applies it."""
    outbox = outbox_of()

    async def main() -> None:
        async with driver.open(shop.url) as mine, driver.open(shop.url) as others:
            is_sqlite = driver.dialect == "sqlite"

            async def other(records: Sequence[RawRecord]) -> None:
                async with outbox.transaction(others):
                    await driver.execute(others, "INSERT INTO effects VALUES ('new owner')")

            async def zombie(records: Sequence[RawRecord]) -> None:
                if is_sqlite:  # which has one writer at a time
                    await handler_of(other)([raw_record()], a_unit())
                async with outbox.transaction(mine):
                    await driver.execute(mine, "INSERT INTO effects VALUES ('zombie')")
                    if not is_sqlite:
                        elsewhere = handler_of(other)([raw_record()], a_unit())
                        await asyncio.create_task(elsewhere, context=Context())

            await handler_of(zombie)([raw_record()], a_unit())

    run(main())
    assert (shop.effects, shop.next_offset) == (["new owner"], 42)


def test_out_of_order_each_record_has_a_row(driver: Driver, shop: Shop) -> None:
    outbox = outbox_of()

    async def main() -> None:
        async with driver.open(shop.url) as session:

            async def bill(records: Sequence[RawRecord]) -> None:
                async with outbox.transaction(session):
                    sql = f"INSERT INTO effects VALUES ('{records[0].offset}')"
                    await driver.execute(session, sql)

            handler = handler_of(bill, order=Order.KEY)
            for offset in (5, 3, 5, 4, 3):
                await handler([raw_record(offset=offset)], a_unit())
            # A retry topic has the same record again: its first place counts.
            hopped = hop(
                raw_record(offset=4),
                ValueError(),
                group="billing",
                listener="bill",
                attempt=1,
                due_ms=0,
                now_ms=0,
            )
            retries = handler_of(bill, retry=RetryPlan((1.0,)))
            await retries([as_read(hopped, offset=77)], a_unit())

    run(main())
    assert shop.effects == ["3", "4", "5"]


def test_a_batch_runs_again_without_what_was_applied(driver: Driver, shop: Shop) -> None:
    outbox = outbox_of()
    seen: list[list[int]] = []

    async def main() -> None:
        async with driver.open(shop.url) as session:

            async def load(records: Sequence[RawRecord]) -> None:
                seen.append([record.offset for record in records])
                async with outbox.transaction(session):
                    for record in records:
                        sql = f"INSERT INTO effects VALUES ('{record.offset}')"
                        await driver.execute(session, sql)

            handler = handler_of(load, is_batch=True)
            await handler([raw_record(offset=each) for each in (1, 2)], a_unit())
            await handler([raw_record(offset=each) for each in (1, 2, 3, 4)], a_unit())
            keyed = handler_of(load, is_batch=True, order=Order.NONE)
            await keyed([raw_record(offset=each) for each in (11, 13)], a_unit())
            await keyed([raw_record(offset=each) for each in (10, 11, 12, 13)], a_unit())

    run(main())
    assert shop.effects == sorted(map(str, (1, 2, 3, 4, 10, 11, 12, 13)))
    assert seen == [[1, 2], [1, 2, 3, 4], [3, 4], [11, 13], [10, 11, 12, 13], [10, 12]]


# What does not depend on the library.


@pytest.fixture
def first_driver() -> Driver:
    from tests.app.outbox.drivers import SQLITE

    return SQLITE[0]


@pytest.fixture
def small_shop(tmp_path: Any) -> Shop:
    from tests.app.outbox.conftest import sqlite_shop

    return sqlite_shop(tmp_path)


def test_a_handler_that_fails_after_the_block_has_applied_its_record_once(
    first_driver: Driver, small_shop: Shop
) -> None:
    outbox = outbox_of()
    fails = [True, False]

    async def main() -> None:
        async with first_driver.open(small_shop.url) as session:

            async def bill(records: Sequence[RawRecord]) -> None:
                async with outbox.transaction(session):
                    session.execute("INSERT INTO effects VALUES ('a')")
                if fails.pop(0):
                    raise LookupError("after the block")

            handler = handler_of(bill)
            with pytest.raises(LookupError):
                await handler([raw_record()], a_unit())
            await handler([raw_record()], a_unit())

    run(main())
    assert small_shop.effects == ["a"]


def test_what_cannot_be_promised_is_refused(first_driver: Driver, small_shop: Shop) -> None:
    outbox = outbox_of()

    async def main() -> None:
        async with first_driver.open(small_shop.url) as session:

            async def twice(records: Sequence[RawRecord]) -> None:
                for _ in range(2):
                    async with outbox.transaction(session):
                        session.execute("INSERT INTO effects VALUES ('a')")

            with pytest.raises(IllegalStateError, match=r"one app\.transaction"):
                await handler_of(twice)([raw_record()], a_unit())

            async def nested(records: Sequence[RawRecord]) -> None:
                async with outbox.transaction(session), outbox.transaction(session):
                    pytest.fail("it was entered")

            with pytest.raises(IllegalStateError, match="already"):
                await handler_of(nested)([raw_record(offset=50)], a_unit())

            async def once(records: Sequence[RawRecord]) -> None:
                async with outbox.transaction(session):
                    pytest.fail("it was entered")

            handler = handler_of(once, delivery=Delivery.EXACTLY_ONCE)
            with pytest.raises(IllegalStateError, match="exactly-once"):
                await handler([raw_record(offset=60)], a_unit())

            leaked: list[Callable[[], Awaitable[None]]] = []

            async def leak(records: Sequence[RawRecord]) -> None:
                async with outbox.transaction(session):
                    transaction = CURRENT_OUTBOX.get()
                    assert transaction is not None
                    leaked.append(lambda: transaction.send(RECORD))

            await handler_of(leak)([raw_record(offset=70)], a_unit())
            with pytest.raises(IllegalStateError, match="has ended"):
                await leaked[0]()
            with pytest.raises(TypeError, match=r"app\.transaction takes SQLAlchemy"):
                outbox.transaction(object())
            with pytest.raises(IllegalStateError, match=r"app\.outbox\.use"):
                Outbox("other").transaction(session)

    run(main())
    assert small_shop.effects == ["a"]


def test_a_transaction_that_a_leaked_task_enters_is_refused(
    first_driver: Driver, small_shop: Shop
) -> None:
    outbox = outbox_of()

    async def main() -> None:
        go = asyncio.Event()
        tasks = []
        async with first_driver.open(small_shop.url) as session:

            async def later() -> None:
                await go.wait()
                async with outbox.transaction(session):
                    pytest.fail("it was entered")

            async def bill(records: Sequence[RawRecord]) -> None:
                tasks.append(asyncio.create_task(later()))

            await handler_of(bill)([raw_record()], a_unit())
            go.set()
            with pytest.raises(IllegalStateError, match="has ended"):
                await tasks[0]

    run(main())


def test_a_topic_that_was_created_again_starts_anew(first_driver: Driver, small_shop: Shop) -> None:
    outbox = outbox_of()
    ids = {"orders": "first"}

    async def main() -> None:
        async with first_driver.open(small_shop.url) as session:

            async def bill(records: Sequence[RawRecord]) -> None:
                async with outbox.transaction(session):
                    session.execute("INSERT INTO effects VALUES ('a')")

            async def current(topics: Sequence[str]) -> dict[str, str]:
                return ids

            spec = ListenerSpec(
                name="bill", topics=("orders",), group="billing", handler=Function(bill)
            )
            handler = OutboxHandler(spec, current)
            await handler([raw_record(offset=9)], a_unit())
            ids["orders"] = "second"
            await handler([raw_record(offset=0)], a_unit())

    run(main())
    assert small_shop.effects == ["a", "a"]
