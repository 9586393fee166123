"""`app.transaction(session)` in an app that runs: handlers, controllers, threads, the relay."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from tests.app.outbox.conftest import Shop, postgres_shop, sqlite_shop
from tests.app.outbox.drivers import sqlalchemy_url

from ottla.app import App, Depends, Key, Retry, To
from ottla.app.letters import dead_letter_topic
from ottla.app.outbox import Tables
from ottla.app.outbox.relay_position import RelayPosition, position_topic
from ottla.errors import ConfigError, IllegalStateError
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return sqlite_shop(tmp_path)


def app_with(shop: Shop, name: str = "billing", **options: Any) -> App:
    app = App(name)
    app.outbox.use(lambda: sqlite3.connect(shop.url, timeout=30), **options)
    return app


def test_handlers_with_a_session_of_sqlalchemy(postgres: str) -> None:
    """The example of the guide, on PostgreSQL: a dependency makes the session."""
    shop = postgres_shop(postgres)
    engine = create_async_engine(sqlalchemy_url(postgres, "asyncpg"))
    app = App("billing")
    app.outbox.use(engine)

    async def get_session() -> Any:
        async with AsyncSession(engine) as session:
            yield session

    @app.listener("orders")
    async def bill(
        order: bytes, key: Key[str], session: Annotated[AsyncSession, Depends(get_session)]
    ) -> None:
        async with app.transaction(session):
            await session.execute(text("INSERT INTO effects VALUES (:it)"), {"it": order.decode()})
            sent = await app.send("invoices", order, key=key)
            assert sent.offset == -1, "it has no place yet"

    @app.listener("invoices")
    async def archive(invoice: bytes) -> None:
        async with AsyncSession(engine) as session, app.transaction(session):
            await session.execute(text("INSERT INTO effects VALUES ('archived')"))

    async def main() -> None:
        async with app.test() as t:
            for order in (b"one", b"two"):
                await t.send("orders", order, key="t4")
            await t.settled()
            assert t.sent("invoices", bytes) == [b"one", b"two"]
        await engine.dispose()

    asyncio.run(main())
    assert shop.effects == ["archived", "archived", "one", "two"]
    assert shop.outbox == []


def test_a_plain_function_uses_with_and_the_blocking_template(shop: Shop, broker: Broker) -> None:
    app = app_with(shop)

    @app.listener("plain-orders")
    def bill(order: bytes) -> None:
        with (
            closing(sqlite3.connect(shop.url, timeout=30)) as connection,
            app.blocking.transaction(connection),
        ):
            connection.execute("INSERT INTO effects VALUES (?)", (order.decode(),))
            app.blocking.send("plain-invoices", order)

    with app.test(broker) as t:
        t.blocking.send("plain-orders", b"one")
        t.blocking.settled()
        assert t.sent("plain-invoices", bytes) == [b"one"]
    assert shop.effects == ["one"]


def test_outside_a_handler_it_is_the_outbox_alone(shop: Shop, broker: Broker) -> None:
    app = app_with(shop)
    app.topic("posted", partitions=1)

    async def main() -> None:
        async with app.test(broker) as t:
            with closing(sqlite3.connect(shop.url, timeout=30)) as connection:
                async with app.transaction(connection):
                    connection.execute("INSERT INTO effects VALUES ('posted')")
                    for number in range(5):
                        await app.send("posted", b"%d" % number, headers={"h": b"\xff"})
                with suppress(LookupError):
                    async with app.transaction(connection):
                        await app.send("posted", b"never")
                        raise LookupError
            await t.settled()
            records = t.records("posted")
            assert [record.value for record in records] == [b"0", b"1", b"2", b"3", b"4"]
            assert records[0].headers == (("h", b"\xff"),)

    asyncio.run(main())
    assert shop.next_offset is None


def test_retries_through_topics_apply_each_record_once(shop: Shop, broker: Broker) -> None:
    app = app_with(shop)
    failures = {b"two": 2, b"four": 99}

    @app.listener("retried-orders", group="g", retry=Retry("10ms", "20ms"), dead_letters=True)
    async def bill(order: bytes) -> None:
        with closing(sqlite3.connect(shop.url, timeout=30)) as connection:
            async with app.transaction(connection):
                connection.execute("INSERT INTO effects VALUES (?)", (order.decode(),))
                await app.send("retried-invoices", order)
                if failures.get(order, 0) > 0:
                    failures[order] -= 1
                    raise LookupError("not yet")
        if order == b"three" and failures.pop(order, 1):
            failures[order] = 0
            raise LookupError("after the block")

    async def main() -> None:
        async with app.test(broker) as t:
            for order in (b"one", b"two", b"three", b"four"):
                await t.send("retried-orders", order)
            await t.settled()
            sent = sorted(t.sent("retried-invoices", bytes))
            assert sent == [b"one", b"three", b"two"]
            (letter,) = t.records(dead_letter_topic("retried-orders", "g"))
            assert letter.value == b"four"

    asyncio.run(main())
    assert shop.effects == ["one", "three", "two"]


def test_a_listener_starts_where_the_database_is(shop: Shop, broker: Broker) -> None:
    """The group has committed nothing, and the database knows that two records are done."""
    runs: list[bytes] = []

    def an_app(group: str) -> App:
        app = app_with(shop)

        @app.listener("started-orders", group=group)
        async def bill(order: bytes) -> None:
            runs.append(order)
            with closing(sqlite3.connect(shop.url, timeout=30)) as connection:
                async with app.transaction(connection):
                    connection.execute("INSERT INTO effects VALUES (?)", (order.decode(),))

        return app

    async def main() -> None:
        async with an_app("first").test(broker) as t:
            for order in (b"one", b"two"):
                await t.send("started-orders", order)
            await t.settled()
        # What a restored group looks like: Kafka knows nothing of it.
        shop.run("UPDATE ottla_offsets SET consumer_group = 'second'")
        async with an_app("second").test(broker) as t:
            await t.send("started-orders", b"three")
            await t.settled()

    asyncio.run(main())
    assert runs == [b"one", b"two", b"three"]
    assert shop.effects == ["one", "three", "two"]


def refused(use: Callable[[App, Shop], Awaitable[None]], shop: Shop, broker: Broker) -> str:
    app = app_with(shop)
    app.topic("refused", partitions=1)

    async def main() -> str:
        async with app.test(broker):
            with pytest.raises(IllegalStateError) as raised:
                await use(app, shop)
            return str(raised.value)

    return asyncio.run(main())


def test_what_contradicts_a_transaction_is_refused(shop: Shop, broker: Broker) -> None:
    async def request(app: App, shop: Shop) -> None:
        with closing(sqlite3.connect(shop.url)) as connection:
            async with app.transaction(connection):
                await app.request("refused", b"?")

    assert "cannot wait for a reply" in refused(request, shop, broker)

    async def kafka_inside(app: App, shop: Shop) -> None:
        with closing(sqlite3.connect(shop.url)) as connection:
            async with app.transaction(connection), app.transaction():
                pytest.fail("it was entered")

    assert "part of the session's already" in refused(kafka_inside, shop, broker)

    async def inside_kafka(app: App, shop: Shop) -> None:
        with closing(sqlite3.connect(shop.url)) as connection:
            async with app.transaction(), app.transaction(connection):
                pytest.fail("it was entered")

    assert "cannot be nested" in refused(inside_kafka, shop, broker)

    async def no_database(app: App, shop: Shop) -> None:
        with closing(sqlite3.connect(shop.url)) as connection:
            App("other").transaction(connection)

    assert "app.outbox.use(engine)" in refused(no_database, shop, broker)


def test_results_that_would_not_be_part_of_the_transaction_are_refused(
    shop: Shop, broker: Broker
) -> None:
    app = app_with(shop)

    @app.listener("result-orders")
    async def bill(order: bytes) -> Annotated[bytes, To("result-invoices")]:
        with closing(sqlite3.connect(shop.url)) as connection:
            async with app.transaction(connection):
                connection.execute("INSERT INTO effects VALUES ('never')")
        return order

    async def main() -> None:
        async with app.test(broker) as t:
            await t.send("result-orders", b"one")
            with pytest.raises(IllegalStateError, match="send them inside the block"):
                await t.settled()
            t.failures.clear()

    asyncio.run(main())
    assert shop.effects == []


def test_retries_that_outlast_the_inbox_are_refused(shop: Shop, broker: Broker) -> None:
    app = app_with(shop, inbox_retention="1h")

    @app.listener("slow-orders", retry=Retry("2h"))
    async def bill(order: bytes) -> None:
        """Never called."""

    async def main() -> None:
        with pytest.raises(ConfigError, match="a longer inbox_retention"):
            async with app.test(broker):
                pytest.fail("it started")

    asyncio.run(main())


def test_tables_have_other_names_and_can_be_created_by_the_app(tmp_path: Path) -> None:
    path = str(tmp_path / "own.db")
    app = App("billing")
    tables = Tables("own_offsets", "own_inbox", "own_outbox", "own_relays")
    app.outbox.use(lambda: sqlite3.connect(path), tables=tables)
    asyncio.run(app.outbox.create_tables())
    asyncio.run(app.outbox.create_tables())
    with closing(sqlite3.connect(path)) as connection:
        found = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        with app.transaction(connection):
            pass
    assert {"own_offsets", "own_inbox", "own_outbox", "own_relays"} <= found
    assert "BYTEA" in app.outbox.ddl("postgresql")
    with pytest.raises(ConfigError, match=r"postgresql.*sqlite"):
        app.outbox.ddl("mysql")
    with pytest.raises(ConfigError, match="not the name of a table"):
        Tables(outbox="x; DROP TABLE y")
    with pytest.raises(ConfigError, match="SQLAlchemy engine"):
        app.outbox.use("sqlite:///own.db")


# The relay


def test_of_two_relays_one_sends_and_the_other_takes_over(shop: Shop, broker: Broker) -> None:
    async def main() -> None:
        first, second = app_with(shop, "two-relays"), app_with(shop, "two-relays")
        first.topic("relayed", partitions=1)

        async def post(value: bytes) -> None:
            with closing(sqlite3.connect(shop.url, timeout=30)) as connection:
                async with second.transaction(connection):
                    await second.send("relayed", value)

        async with second.test(broker) as t:
            async with first.test(broker):
                for number in range(20):
                    await post(b"%02d" % number)
                await t.settled()
            await post(b"99")
            await t.settled()
            values = t.sent("relayed", bytes)
            assert values == [*(b"%02d" % number for number in range(20)), b"99"]

    asyncio.run(main())


def test_a_relay_that_waits_for_its_turn_stops_at_once(shop: Shop, broker: Broker) -> None:
    async def main() -> None:
        async with app_with(shop, "waiting-relay").test(broker):
            for _ in range(5):
                async with asyncio.timeout(10), app_with(shop, "waiting-relay").test(broker):
                    await asyncio.sleep(0.01)

    asyncio.run(main())


def test_rows_that_were_sent_before_a_crash_are_not_sent_again(shop: Shop, broker: Broker) -> None:
    """The relay died after its Kafka transaction and before its delete; and a restored database reuses ids."""

    async def main() -> None:
        app = app_with(shop, "crashed-relay")
        app.topic("after-crash", partitions=1)
        async with app.test(broker) as t:
            with closing(sqlite3.connect(shop.url, timeout=30)) as connection:
                async with app.transaction(connection):
                    await app.send("after-crash", b"one")
                    await app.send("after-crash", b"two")
            rows = shop.rows("SELECT * FROM ottla_outbox")
            await t.settled()
        for row in rows:
            with closing(sqlite3.connect(shop.url)) as connection:
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO ottla_outbox VALUES ({marks})", row)
                connection.commit()
        async with app.test(broker) as t:
            await t.settled()
            assert t.sent("after-crash", bytes) == [b"one", b"two"]
        for id, _, *rest in rows:
            with closing(sqlite3.connect(shop.url)) as connection:
                marks = ", ".join("?" * (len(rest) + 2))
                connection.execute(f"INSERT INTO ottla_outbox VALUES ({marks})", (id, 5, *rest))
                connection.commit()
        async with app.test(broker) as t:
            await t.settled()
            assert t.sent("after-crash", bytes) == [b"one", b"two"] * 2, (
                "other rows with the same ids"
            )

    asyncio.run(main())


def test_a_relay_that_cannot_send_says_why_and_goes_on_later(
    shop: Shop, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        app = app_with(shop, "stuck-relay")
        app.topic("stuck", partitions=1)
        async with app.test(broker) as t:
            with closing(sqlite3.connect(shop.url, timeout=30)) as connection:
                async with app.transaction(connection):
                    await app.send("stuck", bytes(2_000_000))
                while app.outbox.problem is None:
                    await asyncio.sleep(0.02)
                connection.execute("UPDATE ottla_outbox SET record_value = ?", (b"one",))
                connection.commit()
            await t.settled()
            assert t.sent("stuck", bytes) == [b"one"]
            assert app.outbox.problem is None

    asyncio.run(asyncio.wait_for(main(), 60))
    assert "cannot send its outbox" in caplog.text


def test_positions_survive_their_encoding() -> None:
    position = RelayPosition.of({1: 5, 2: 6, 9: 7})
    assert RelayPosition.decode(position.encode()) == position
    assert RelayPosition.of({1: 5, 2: 6, 9: 8}) != position
    with pytest.raises(ValueError, match="version 1"):
        RelayPosition.decode(b"[]")
    assert position_topic("billing") == "billing.outbox"
    assert position_topic("a b") != position_topic("a/b")
    assert len(position_topic("x" * 300)) <= 249


def test_asyncpg_pools_give_connections(postgres: str, broker: Broker) -> None:
    shop = postgres_shop(postgres)

    async def main() -> None:
        app = App("pooled")
        app.topic("pooled", partitions=1)
        app.outbox.use(lambda: asyncpg.connect(postgres))
        async with (
            app.test(broker) as t,
            asyncpg.create_pool(postgres, min_size=1, max_size=2) as pool,
        ):
            async with pool.acquire() as connection, app.transaction(connection):
                await app.send("pooled", b"one")
            await t.settled()
            assert t.sent("pooled", bytes) == [b"one"]

    asyncio.run(main())
    assert shop.outbox == []
