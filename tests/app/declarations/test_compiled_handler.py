"""Handlers: arguments are read, dependencies resolved and cleaned up, results collected."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import pyarrow
import pytest
from pydantic import BaseModel
from tests.app.declarations.raw_records import new_unit, raw_record
from typing_extensions import TypeAliasType

from ottla.app import (
    App,
    Arrow,
    Depends,
    Header,
    Headers,
    Key,
    Offset,
    Partition,
    Record,
    ResultError,
    Timestamp,
    To,
    Topic,
    UnreadableRecordError,
    Value,
)
from ottla.app.declarations.compiled_handler import SimpleHandler
from ottla.app.declarations.listener_spec import RawRecord
from ottla.app.delivery.unit import OutgoingRecord


@dataclass
class Order:
    table: int


@dataclass
class Invoice:
    table: int
    total: float


class Guest(BaseModel):
    name: str


@pytest.fixture
def app() -> App:
    return App("billing")


def run(listener: Any, *records: RawRecord) -> list[OutgoingRecord]:
    """What a handler sends for records."""
    unit = new_unit()
    asyncio.run(listener.spec.handler(records, unit))
    return unit.outgoing


def test_parameters_by_annotation(app: App) -> None:
    seen: list[object] = []

    @app.listener("orders")
    async def handle(
        order: Order,
        table: Key[str],
        trace: Annotated[str, Header("trace")],
        absent: Annotated[int | None, Header("absent")],
        where: Topic,
        part: Partition,
        at: Offset,
        when: Timestamp,
        moment: Annotated[datetime, Timestamp.__metadata__[0]],
        everything: Headers,
        whole: Record,
    ) -> None:
        seen.extend([order, table, trace, absent, where, part, at, when, moment])
        seen.extend([everything, whole])

    record = raw_record(b'{"table": 4}', b"t4", headers=(("trace", b"a"), ("trace", b"b")))
    run(handle, record)
    at = datetime.fromtimestamp(1_700_000_000, UTC)
    assert seen[:9] == [Order(4), "t4", "b", None, "orders", 3, 7, 1_700_000_000_000, at]
    assert seen[9:] == [record.headers, record]


def test_parameters_by_name(app: App) -> None:
    seen: list[object] = []

    @app.listener("orders")
    async def handle(
        value: bytes,
        key: bytes | None,
        headers: dict[str, bytes | None],
        topic: str,
        partition: int,
        offset: int,
        timestamp: datetime,
        record: Record[str | None, str],
    ) -> None:
        seen.extend([value, key, headers, topic, partition, offset, timestamp.year])
        seen.append(record.value)

    run(handle, raw_record(b"tea", headers=(("a", b"1"),)))
    assert seen == [b"tea", None, {"a": b"1"}, "orders", 3, 7, 2023, "tea"]


def test_values_of_many_types(app: App) -> None:
    seen: list[object] = []

    @app.listener("a")
    async def text(value: str) -> None:
        seen.append(value)

    @app.listener("a")
    async def number(value: int) -> None:
        seen.append(value)

    @app.listener("a")
    async def model(guest: Guest) -> None:
        seen.append(guest)

    @app.listener("a")
    async def plain(value: dict[str, list[int]]) -> None:
        seen.append(value)

    @app.listener("a")
    async def anything(value) -> None:  # type: ignore[no-untyped-def]
        seen.append(value)

    @app.listener("a")
    async def nothing() -> None:
        seen.append(None)

    @app.listener("a")
    async def maybe(order: Order | None) -> None:
        seen.append(order)

    run(text, raw_record("ü".encode()))
    run(number, raw_record(b"42"))
    run(model, raw_record(b'{"name": "Ada"}'))
    run(plain, raw_record(b'{"a": [1]}'))
    run(anything, raw_record(b"x"))
    run(nothing, raw_record(b"x"))
    run(maybe, raw_record(None))
    assert seen == ["ü", 42, Guest(name="Ada"), {"a": [1]}, b"x", None, None]


class Size(Enum):
    SMALL = "small"


def test_what_has_one_text_has_no_quotes(app: App) -> None:
    seen: list[object] = []
    uuid = UUID(int=5)

    @app.listener("a")
    async def handle(day: date, key: Key[UUID], size: Annotated[Size, Header("size")]) -> To:
        seen.append((day, key, size))
        return To("out", day, key=key)

    headers = (("size", b"small"),)
    plain = run(handle, raw_record(b"2026-01-31", str(uuid).encode(), headers=headers))
    run(handle, raw_record(b'"2026-01-31"', f'"{uuid}"'.encode(), headers=headers))
    assert seen == [(date(2026, 1, 31), uuid, Size.SMALL)] * 2
    assert plain == [OutgoingRecord("out", b"2026-01-31", str(uuid).encode())]
    with pytest.raises(UnreadableRecordError, match="must be a UUID, not 'x'"):
        run(handle, raw_record(b"2026-01-31", b"x", headers=headers))


def test_aliases_of_types(app: App) -> None:
    alias = TypeAliasType("alias", Key[str])
    seen: list[str] = []

    async def handle(value: bytes, who: Any) -> None:
        seen.append(who)

    handle.__annotations__["who"] = alias
    run(app.listener("a")(handle), raw_record(b"", b"ada"))
    assert seen == ["ada"]


def test_deserializers_of_the_options() -> None:
    seen: list[object] = []
    app = App("billing", key_deserializer="int", value_deserializer="string")

    @app.listener("a")
    async def whole(record: Record) -> None:
        seen.extend([record.key, record.value])

    @app.listener("a")
    async def plain(value, key) -> None:  # type: ignore[no-untyped-def]
        seen.extend([value, key])

    @app.listener("a")
    async def wrong(value: bytes, key: Key[str]) -> None: ...

    @app.listener("a")
    async def converted(order: Order, key: int) -> None:
        seen.extend([order, key])

    key = (5).to_bytes(4, "big")
    run(whole, raw_record(b"tea", key))
    run(plain, raw_record(b"tea", key))
    run(converted, raw_record(b'{"table": 4}', key))
    assert seen == [5, "tea", "tea", 5, Order(4), 5]
    with pytest.raises(UnreadableRecordError, match=r"key\.deserializer made int, and .* str"):
        run(wrong, raw_record(b"tea", key))
    with pytest.raises(
        UnreadableRecordError, match="the key cannot be read: 3 bytes where a number has 4"
    ):
        run(whole, raw_record(b"tea", b"abc"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b'{"table": "4"}', "the value is no Order: field 'table' must be a whole number"),
        (b"{}", "field 'table' is missing"),
        (b"{", "the value is no Order: not JSON"),
        (b"\xff", "the value is no Order: not JSON"),
        (None, r"has no value: write Order \| None"),
    ],
)
def test_an_unreadable_record_says_where_it_is_and_what_is_wrong(
    app: App, value: bytes | None, message: str
) -> None:
    @app.listener("orders")
    async def handle(order: Order) -> None: ...

    with pytest.raises(UnreadableRecordError, match=message) as raised:
        run(handle, raw_record(value))
    assert str(raised.value).startswith("orders-3 at offset 7: ")


def test_a_plain_function_runs_in_a_thread_with_the_callers_context(app: App) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")
    seen: list[object] = []

    @app.listener("orders")
    def handle(value: bytes) -> Annotated[str, To("out")]:
        seen.extend([threading.current_thread() is threading.main_thread(), variable.get()])
        return "done"

    variable.set("carried")
    assert run(handle, raw_record()) == [OutgoingRecord("out", b"done")]
    assert seen == [False, "carried"]


def test_defaults_stand_in_for_what_is_missing_or_not_known(app: App) -> None:
    seen: list[object] = []

    @app.listener("orders")
    async def handle(
        record: Record,
        key: Key[str] = "nobody",
        trace: Annotated[int, Header("trace")] = 7,
        verbose: bool = True,
        *,
        order: Value[str] = "nothing",
    ) -> None:
        seen.append((key, trace, verbose, order))

    run(handle, raw_record(None))
    run(handle, raw_record(b"tea", b"ada", headers=(("trace", b"8"),)))
    assert seen == [("nobody", 7, True, "nothing"), ("ada", 8, True, "tea")]


def test_methods_partials_and_callable_objects(app: App) -> None:
    seen: list[object] = []

    class Kitchen:
        async def cook(self, order: Order) -> None:
            seen.append(order)

        async def __call__(self, order: Order, key: Key[str]) -> None:
            seen.append((order, key))

    async def named(name: str, order: Any) -> None:
        seen.append((name, order))

    kitchen = Kitchen()
    cook = app.listener("orders")(kitchen.cook)
    called = app.listener("orders", name="called")(kitchen)
    partial = app.listener("orders", name="partial")(functools.partial(named, "Ada"))
    around = app.listener("orders", name="around")(lambda order: named("Bob", order))
    for listener in (cook, called, partial, around):
        run(listener, raw_record(b'{"table": 4}', b"k"))
    assert seen[:3] == [Order(4), (Order(4), "k"), ("Ada", b'{"table": 4}')]
    # A plain function that returns a coroutine is not done before the coroutine is.
    assert seen[3] == ("Bob", b'{"table": 4}')


def test_a_listener_is_still_the_plain_function(app: App) -> None:
    @app.listener("orders")
    async def handle(order: Order, key: Key[str] = "none") -> str:
        """Says it."""
        return f"{order.table} {key}"

    assert asyncio.run(handle(Order(4), key="k")) == "4 k"
    assert (handle.__name__, handle.__doc__) == ("handle", "Says it.")


def test_a_simple_async_handler_has_the_short_path(app: App) -> None:
    @app.listener("orders")
    async def handle(value: bytes, key: bytes | None) -> None: ...

    assert type(handle.spec.handler) is SimpleHandler


# Dependencies


def test_dependencies_are_made_once_and_cleaned_up_in_reverse_order(app: App) -> None:
    events: list[str] = []

    def settings() -> str:
        events.append("settings")
        return "s"

    async def connection(name: Annotated[str, Depends(settings)]) -> AsyncIterator[str]:
        events.append("connect")
        yield f"c{name}"
        events.append("disconnect")

    def session(
        key: Key[str], connection: Annotated[str, Depends(connection)], limit: int = 5
    ) -> Iterator[str]:
        events.append("begin")
        yield f"{connection}/{key}/{limit}"
        events.append("end")

    @app.listener("orders")
    async def handle(
        value: bytes,
        session: Annotated[str, Depends(session)],
        settings: str = Depends(settings),  # type: ignore[assignment]
    ) -> None:
        events.append(f"{session} {settings}")

    run(handle, raw_record(key=b"k"))
    assert events == ["settings", "connect", "begin", "cs/k/5 s", "end", "disconnect"]


def test_a_failing_handler_is_seen_by_its_dependencies_and_stays_a_failure(app: App) -> None:
    events: list[str] = []

    async def swallowing() -> AsyncIterator[int]:
        try:
            yield 1
        except ValueError:
            events.append("rollback")

    @app.listener("orders")
    async def handle(value: bytes, number: Annotated[int, Depends(swallowing)]) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(handle, raw_record())
    assert events == ["rollback"]


def test_a_failing_cleanup_is_a_failure_of_the_handler(app: App) -> None:
    async def session() -> AsyncIterator[int]:
        yield 1
        raise RuntimeError("commit failed")

    @app.listener("orders")
    async def handle(value: bytes, number: Annotated[int, Depends(session)]) -> None: ...

    with pytest.raises(RuntimeError, match="commit failed"):
        run(handle, raw_record())


def test_dependencies_can_be_replaced_for_tests(app: App) -> None:
    seen: list[str] = []

    def database() -> str:
        raise AssertionError("must not be called")

    @app.listener("orders")
    async def handle(value: bytes, db: Annotated[str, Depends(database)]) -> None:
        seen.append(db)

    app.dependency_overrides[database] = lambda: "fake"
    run(handle, raw_record())
    assert seen == ["fake"]


def test_an_unreadable_record_costs_no_dependency(app: App) -> None:
    made: list[int] = []

    @app.listener("orders")
    async def handle(
        order: Order, number: Annotated[int, Depends(lambda: made.append(1))]
    ) -> None: ...

    with pytest.raises(UnreadableRecordError):
        run(handle, raw_record(b"{"))
    assert made == []


# Results


def test_results_go_to_the_topic_that_the_annotation_names(app: App) -> None:
    @app.listener("orders")
    async def handle(order: Order) -> Annotated[Invoice, To("invoices")]:
        return Invoice(order.table, 2.5)

    [sent] = run(handle, raw_record(b'{"table": 4}'))
    assert sent == OutgoingRecord("invoices", b'{"table":4,"total":2.5}')


def test_results_with_keys_headers_and_partitions(app: App) -> None:
    @app.listener("orders")
    async def handle(value: bytes) -> list[To]:
        return [
            To("a", Guest(name="Ada"), key="k", headers={"h": b"1"}),
            To("b", None, key=b"raw", partition=2, timestamp_ms=5),
        ]

    assert run(handle, raw_record()) == [
        OutgoingRecord("a", b'{"name":"Ada"}', b"k", None, (("h", b"1"),)),
        OutgoingRecord("b", None, b"raw", 2, (), 5),
    ]


def test_many_results(app: App) -> None:
    def key_of(invoice: Invoice) -> str:
        return f"t{invoice.table}"

    @app.listener("a")
    async def both(value: bytes) -> tuple[Annotated[Invoice, To("x")], Annotated[str, To("y")]]:
        return Invoice(1, 1.0), "text"

    @app.listener("a")
    async def several(value: bytes) -> list[Annotated[Invoice, To("x", key=key_of)]]:
        return [Invoice(1, 1.0), Invoice(2, 2.0)]

    @app.listener("a")
    async def stream(value: bytes) -> AsyncIterator[Annotated[str, To("x")]]:
        yield "a"
        yield "b"

    @app.listener("a")
    def generator(value: bytes) -> Iterator[Annotated[str, To("x")]]:
        yield "a"
        yield "b"

    @app.listener("a")
    async def either(value: str) -> Annotated[Invoice, To("x")] | Annotated[str, To("y")] | None:
        return Invoice(1, 1.0) if value == "i" else "s" if value == "s" else None

    def places(sent: list[OutgoingRecord]) -> list[tuple[str, bytes | None]]:
        return [(each.topic, each.key) for each in sent]

    assert places(run(both, raw_record())) == [("x", None), ("y", None)]
    assert places(run(several, raw_record())) == [("x", b"t1"), ("x", b"t2")]
    assert [each.value for each in run(stream, raw_record())] == [b"a", b"b"]
    assert [each.value for each in run(generator, raw_record())] == [b"a", b"b"]
    assert places(run(either, raw_record(b"i"))) == [("x", None)]
    assert places(run(either, raw_record(b"s"))) == [("y", None)]
    assert run(either, raw_record(b"n")) == []


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("text", "handle returned a str, not Invoice"),
        (None, r"handle returned None, not Invoice; annotate `\| None`"),
        (To("invoices"), r"returned To\('invoices'\) without a value"),
    ],
)
def test_a_result_of_another_type_is_an_error_of_the_handler(
    app: App, returned: Any, message: str
) -> None:
    @app.listener("orders")
    async def handle(value: bytes) -> Annotated[Invoice, To("invoices")]:
        return returned  # type: ignore[no-any-return]

    with pytest.raises(ResultError, match=message):
        run(handle, raw_record())


def test_a_plain_result_is_the_reply_to_a_request(app: App) -> None:
    @app.listener("quotes")
    async def quote(question: str) -> Invoice:
        return Invoice(1, 2.0)

    headers = (("kafka_correlationId", b"c"), ("kafka_replyTopic", b"replies"))
    assert run(quote, raw_record(b"?", headers=headers)) == [
        OutgoingRecord(
            "replies", b'{"table":1,"total":2.0}', headers=(("kafka_correlationId", b"c"),)
        )
    ]
    to_partition = (*headers, ("kafka_replyPartition", b"\x00\x00\x00\x02"))
    assert run(quote, raw_record(b"?", headers=to_partition))[0].partition == 2
    assert run(quote, raw_record(b"?")) == []


# Batches


def test_batches_are_lists(app: App) -> None:
    seen: list[object] = []

    @app.listener("orders", batch=True)
    async def handle(
        orders: list[Order], keys: list[Key[str]], offsets: list[int], records: list[Record]
    ) -> list[Annotated[str, To("out")]]:
        seen.extend([orders, keys, offsets, len(records)])
        return ["a", "b"]

    sent = run(
        handle,
        raw_record(b'{"table": 1}', b"k1", offset=1),
        raw_record(b'{"table": 2}', b"k2", offset=2),
    )
    assert seen == [[Order(1), Order(2)], ["k1", "k2"], [1, 2], 2]
    assert [each.value for each in sent] == [b"a", b"b"]


def test_an_unreadable_record_of_a_batch_has_its_index(app: App) -> None:
    @app.listener("orders", batch=True)
    def handle(orders: list[Order]) -> None: ...

    with pytest.raises(UnreadableRecordError) as raised:
        run(handle, raw_record(b'{"table": 1}'), raw_record(b"{"))
    assert raised.value.index == 1


def test_a_batch_can_be_an_arrow_table(app: App) -> None:
    seen: list[pyarrow.Table] = []

    @app.listener("orders", batch=Arrow)
    def handle(table: pyarrow.Table) -> None:
        seen.append(table)

    run(handle, raw_record(b"a", b"k", headers=(("h", b"1"),)), raw_record(None))
    [table] = seen
    assert table.column("value").to_pylist() == [b"a", None]
    assert table.column("headers").to_pylist() == [[{"key": "h", "value": b"1"}], []]
    assert table.column("timestamp").to_pylist()[0] == datetime.fromtimestamp(1_700_000_000, UTC)
