"""An app on the embedded broker: it listens, sends, asks, and tells what is wrong."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

import ottla
from ottla.app import (
    Acknowledgement,
    App,
    BatchItemError,
    DeadLetter,
    Depends,
    Header,
    Key,
    Retry,
    StartError,
    To,
    every,
)
from ottla.errors import ConfigError, IllegalStateError, TimedOutError


@dataclass
class Order:
    table: int
    items: list[str]


@dataclass
class Invoice:
    table: int
    total: float


@pytest.fixture
def app() -> App:
    return App("billing", bootstrap_servers="127.0.0.1:1", linger_ms=0)


def test_a_listener_turns_records_into_others(app: App) -> None:
    @app.listener("orders")
    async def bill(order: Order, key: Key[str]) -> Annotated[Invoice, To("invoices")]:
        return Invoice(order.table, 2.5 * len(order.items))

    async def main() -> None:
        async with app.test() as t:
            sent = await t.send("orders", Order(4, ["tea", "cake"]), key="t4")
            assert (sent.topic, sent.offset) == ("orders", 0)
            await t.settled()
            assert t.sent("invoices") == [Invoice(4, 5.0)]

    asyncio.run(main())


def test_an_app_can_be_tested_without_asyncio_and_again(app: App) -> None:
    seen: list[str] = []

    @app.listener("orders")
    def show(order: str) -> None:
        seen.append(order)

    for text in ("tea", "cake"):
        with app.test() as t:
            t.blocking.send("orders", text)
            t.blocking.settled()
    assert seen == ["tea", "cake"]


def test_a_plain_with_works_inside_asyncio(app: App) -> None:
    seen: list[str] = []

    @app.listener("orders")
    async def show(order: str) -> None:
        seen.append(order)

    async def main() -> None:
        with app.test() as t:
            await t.send("orders", "tea")
            await t.settled()

    asyncio.run(main())
    assert seen == ["tea"]


def test_a_failure_of_a_handler_is_a_failure_of_the_test(app: App) -> None:
    @app.listener("orders")
    async def fail(order: str) -> None:
        raise LookupError("no such table")

    def test() -> None:
        with app.test() as t:
            t.blocking.send("orders", "tea")
            t.blocking.settled()

    with pytest.raises(LookupError, match="no such table"):
        test()


def test_plain_handlers_send_with_the_blocking_template(app: App) -> None:
    @app.listener("orders")
    def forward(order: str) -> None:
        assert app.blocking.send("copies", order).offset >= 0

    with app.test() as t:
        t.blocking.send("orders", "tea")
        t.blocking.settled()
        assert t.sent("copies", str) == ["tea"]


def test_the_blocking_template_does_not_block_the_loop(app: App) -> None:
    async def main() -> None:
        async with app.test():
            with pytest.raises(IllegalStateError, match=r"await app\.send"):
                app.blocking.send("orders", "tea")

    asyncio.run(main())


def test_sends_before_the_start_and_after_the_end_are_refused(app: App) -> None:
    async def main() -> None:
        with pytest.raises(IllegalStateError, match="has not been started"):
            await app.send("orders", "tea")
        async with app.test():
            await app.send("orders", "tea")
        with pytest.raises(IllegalStateError, match="has been stopped"):
            await app.send("orders", "tea")

    asyncio.run(main())
    with pytest.raises(IllegalStateError, match="has been stopped"):
        app.blocking.send("orders", "tea")


def test_a_request_gets_the_reply_of_its_listener(app: App) -> None:
    @app.listener("quotes")
    async def quote(question: Order) -> Invoice:
        return Invoice(question.table, float(len(question.items)))

    async def main() -> None:
        async with app.test() as t:
            asked = [
                app.request("quotes", Order(table, ["tea"] * table), reply=Invoice)
                for table in range(1, 4)
            ]
            assert await asyncio.gather(*asked) == [Invoice(n, float(n)) for n in range(1, 4)]
            plain = await app.request("quotes", Order(1, []), headers={"who": b"me"})
            assert plain == b'{"table":1,"total":0.0}'
            headers = dict(t.records("quotes")[-1].headers)
            assert headers["kafka_replyTopic"] == b"billing.replies"
            assert len(headers["kafka_correlationId"] or b"") == 16

    asyncio.run(main())


def test_a_request_without_a_reply_times_out(app: App) -> None:
    async def main() -> None:
        async with app.test():
            with pytest.raises(
                TimedOutError, match=r"No reply to the request to quotes came within 0\.2 s"
            ):
                await app.request("quotes", "?", timeout="200ms")

    asyncio.run(main())


def test_a_request_that_waits_when_the_app_stops_fails(app: App) -> None:
    asked = threading.Event()

    @app.listener("quotes")
    async def keep_silent(question: str) -> None:
        asked.set()

    async def main() -> None:
        async with app.test():
            waiting = asyncio.ensure_future(app.request("quotes", "?", timeout="30s"))
            while not asked.is_set():
                await asyncio.sleep(0.01)
        with pytest.raises(IllegalStateError, match="stopped before the reply came"):
            await waiting

    asyncio.run(main())


_FORKING = """
import asyncio, os, signal
from ottla.app import App

app = App("billing", bootstrap_servers="127.0.0.1:1")

async def main():
    async with app.test():
        if os.fork() == 0:
            signal.alarm(10)
            try:
                app.blocking.send("orders", "tea")
            except BaseException as error:
                print(error, flush=True)
            os._exit(0)
        await asyncio.to_thread(os.wait)

asyncio.run(main())
"""


def test_a_forked_process_cannot_send_with_the_app_of_its_parent() -> None:
    """It would wait for an event loop that does not run in it."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKING],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "this process was forked after the app had started" in ended.stdout


def test_a_transaction_is_seen_whole_or_not_at_all(app: App) -> None:
    async def pay(fails: bool) -> None:
        async with app.transaction():
            await app.send("orders", "a")
            await asyncio.gather(app.send("stock", "b"), app.send("stock", "c"))
            if fails:
                raise LookupError

    async def main() -> None:
        async with app.test() as t:
            with pytest.raises(LookupError):
                await pay(fails=True)
            await asyncio.gather(pay(fails=False), pay(fails=False))
            assert t.sent("orders", str) == ["a", "a"]
            assert t.sent("stock", str) == ["b", "c", "b", "c"]

    asyncio.run(main())


def test_transactions_of_threads(app: App) -> None:
    def fail() -> None:
        with app.blocking.transaction():
            app.blocking.send("orders", "b")
            raise LookupError

    with app.test() as t:
        with app.blocking.transaction():
            app.blocking.send("orders", "a")
        with pytest.raises(LookupError):
            fail()
        assert t.sent("orders", str) == ["a"]


def test_transactions_are_not_nested_and_do_not_wait_for_replies(app: App) -> None:
    async def main() -> None:
        async with app.test(), app.transaction():
            with pytest.raises(IllegalStateError, match="cannot be nested"):
                async with app.transaction():
                    pass
            with pytest.raises(IllegalStateError, match="cannot wait for a reply"):
                await app.request("quotes", "?")

    asyncio.run(main())


def test_a_send_of_a_task_that_outlives_the_transaction_is_refused(app: App) -> None:
    async def main() -> None:
        async with app.test():
            is_over = asyncio.Event()

            async def late() -> None:
                await is_over.wait()
                await app.send("orders", "late")

            async with app.transaction():
                task = asyncio.ensure_future(late())
                await asyncio.sleep(0)
            is_over.set()
            with pytest.raises(IllegalStateError, match="the transaction has ended"):
                await task

    asyncio.run(main())


def test_dead_letters_have_their_own_handler(app: App) -> None:
    letters: list[DeadLetter[Order]] = []

    @app.listener("orders", retry=Retry("1ms", keep_order=True), dead_letters=True)
    async def bill(order: Order) -> None:
        raise LookupError("no such table")

    @bill.dead_letter
    async def dead(letter: DeadLetter[Order]) -> None:
        letters.append(letter)

    with app.test() as t:
        t.blocking.send("orders", Order(4, []), key="t4")
        t.broker.wait_for(lambda: letters, what="the dead letter")
        t.blocking.settled()
    [letter] = letters
    assert (letter.value, letter.key) == (Order(4, []), b"t4")
    assert (letter.history.topic, letter.history.attempts) == ("orders", 2)
    assert letter.history.message == "no such table"


def test_a_batch_goes_on_without_the_record_that_failed(app: App) -> None:
    seen: list[str] = []

    @app.listener("orders", batch=True, dead_letters=True, errors={ValueError: "dead-letter"})
    def load(orders: list[str]) -> None:
        for index, order in enumerate(orders):
            if order == "bad":
                raise BatchItemError(index, ValueError(order))
        seen.extend(orders)

    with app.test() as t:
        for order in ("a", "bad", "b"):
            t.blocking.send("orders", order)
        t.blocking.settled()
    assert seen == ["a", "b"]


def test_a_filter_takes_what_the_handler_takes(app: App) -> None:
    seen: list[int] = []

    @app.listener("orders", filter=lambda order: order.table > 1)
    async def bill(order: Order) -> None:
        seen.append(order.table)

    with app.test() as t:
        for table in (1, 2):
            t.blocking.send("orders", Order(table, []))
        t.blocking.settled()
    assert seen == [2]


def limit() -> int:
    return 1


def is_above_limit(order: Order, least: Annotated[int, Depends(limit)]) -> bool:
    return order.table > least


def test_a_filter_with_a_dependency_is_refused_where_it_is_declared(app: App) -> None:
    with pytest.raises(
        ConfigError, match="bill: the filter takes only parts of the record: remove"
    ):

        @app.listener("orders", filter=is_above_limit)
        async def bill(order: Order) -> None:
            pass


def test_manual_acknowledgement(app: App) -> None:
    @app.listener("orders", ack="manual")
    def bill(order: str, done: Acknowledgement) -> None:
        threading.Thread(target=done.ack).start()

    with app.test() as t:
        t.blocking.send("orders", "tea")
        t.broker.wait_lag_zero("billing")


def test_pause_and_resume(app: App) -> None:
    seen: list[str] = []

    @app.listener("orders", paused=True)
    async def bill(order: str) -> None:
        seen.append(order)

    async def main() -> None:
        async with app.test() as t:
            assert bill.is_paused
            await t.send("orders", "tea")
            bill.resume()
            await t.settled()
            assert seen == ["tea"]
            await asyncio.to_thread(bill.pause)
            assert bill.is_paused

    asyncio.run(main())
    with pytest.raises(IllegalStateError, match="is not running"):
        bill.pause()


def test_declared_topics_are_created_and_differences_are_told(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    orders = app.topic("orders", partitions=3, config={"retention_ms": 1000})
    other = App("other")
    other.topic("orders", partitions=6, config={"retention.ms": 2000})

    with app.test() as t, other.test(t.broker):
        assert t.blocking.send(orders, "tea", partition=2).partition == 2
    assert "topic orders has 3 partitions, declared are 6; it stays as it is" in caplog.text
    assert "topic orders has retention.ms=1000, declared is 2000" in caplog.text


def test_hooks_run_around_the_listeners(app: App) -> None:
    events: list[str] = []

    @app.on_startup
    async def connect() -> None:
        await app.send("log", "started")
        events.append("connect")

    @app.on_shutdown
    def disconnect() -> None:
        events.append("disconnect")

    with app.test():
        events.append("running")
    assert events == ["connect", "running", "disconnect"]


def test_what_the_hooks_opened_is_closed_if_the_start_fails(app: App) -> None:
    events: list[str] = []
    app.on_startup(lambda: events.append("connect"))
    app.on_shutdown(lambda: events.append("disconnect"))

    @app.on_startup
    async def fail() -> None:
        raise LookupError("no database")

    async def main() -> None:
        async with app.test():
            events.append("running")

    with pytest.raises(LookupError, match="no database"):
        asyncio.run(main())
    assert events == ["connect", "disconnect"]
    assert not app.is_running


RUNNING = """
import os, signal, sys, threading
from ottla.app import App

app = App("billing", bootstrap_servers=sys.argv[1], missing_topics="create", auto_offset_reset="earliest")

@app.listener("orders")
def bill(order: str) -> None:
    print("begun", order, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(0.3)
    print("done", order, flush=True)

@app.on_startup
async def send() -> None:
    await app.send("orders", "tea")

app.run()
print("stopped", flush=True)
"""


def test_run_finishes_what_is_in_hand_after_sigterm() -> None:
    with ottla.Broker() as broker:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", RUNNING, broker.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split("\n") == ["begun tea", "done tea", "stopped", ""]
        with ottla.Consumer(
            bootstrap_servers=broker.bootstrap_servers, group_id="billing", enable_auto_commit=False
        ) as consumer:
            committed = consumer.committed([("orders", 0)])
        assert [each and each.offset for each in committed.values()] == [1]


def test_run_raises_why_a_listener_has_stopped() -> None:
    with ottla.Broker() as broker:
        app = App("billing", bootstrap_servers=broker.bootstrap_servers, missing_topics="create")

        @app.listener(
            "orders", errors={LookupError: "stop"}, options={"auto_offset_reset": "earliest"}
        )
        async def bill(order: str) -> None:
            raise LookupError("no such table")

        @app.on_startup
        async def send() -> None:
            await app.send("orders", "tea")

        async def main() -> BaseException:
            async with app:
                return await asyncio.wait_for(app.failure(), 10)

        assert isinstance(asyncio.run(main()), LookupError)


# What cannot start


def test_an_app_without_a_broker_says_so() -> None:
    app = App("billing", bootstrap_servers="127.0.0.1:1", start_timeout="200ms")
    with pytest.raises(StartError, match=r"no broker answers at 127\.0\.0\.1:1 within 0\.2 s"):
        asyncio.run(app.start())
    assert not app.is_running


def test_an_app_without_servers_says_so() -> None:
    with pytest.raises(ConfigError, match=r"billing has no bootstrap\.servers"):
        asyncio.run(App("billing").start())


def test_a_missing_topic_is_told_or_created() -> None:
    with ottla.Broker() as broker:
        for missing in ("fail", "create"):
            app = App("billing", bootstrap_servers=broker.bootstrap_servers, missing_topics=missing)

            @app.listener("orders")
            async def bill(order: str) -> None: ...

            if missing == "fail":
                with pytest.raises(
                    StartError, match=r'there is no topic orders: .*app\.topic\("orders"\)'
                ):
                    app.blocking.start()
            else:
                with app.blocking:
                    app.blocking.send("orders", "tea")


def test_a_listener_cannot_be_added_while_the_app_runs(app: App) -> None:
    with app.test(), pytest.raises(IllegalStateError, match="before it starts"):

        @app.listener("orders")
        async def bill(order: str) -> None: ...


WITHOUT_EXTRAS = """
import sys
for name in ("fastavro", "google.protobuf", "httpx", "jsonschema", "opentelemetry", "pyarrow", "pydantic",
             "sqlalchemy", "starlette", "uvicorn"):
    sys.modules[name] = None
from ottla.app import *
from ottla.app import App

app = App("billing")
seen = []

@app.listener("orders")
async def bill(order: dict[str, int]) -> None:
    seen.append(order)

with app.test() as t:
    t.blocking.send("orders", {"table": 4})
    t.blocking.settled()
assert seen == [{"table": 4}]
"""


def test_an_app_needs_no_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_EXTRAS], capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")


# Wrong declarations


def declare(function: Any, /, *topics: Any, **arguments: Any) -> None:
    App("billing").listener(*(topics or ("orders",)), **arguments)(function)


async def plain(value: bytes) -> None: ...


async def two_values(order: dict[str, Any], other: dict[str, Any]) -> None: ...


async def variadic(*values: bytes) -> None: ...


async def complex_value(value: complex) -> None: ...


async def wrong_offset(value: bytes, offset: str) -> None: ...


async def not_a_list(orders: Order) -> None: ...


async def only_where(value: bytes) -> To("invoices"): ...  # type: ignore[valid-type]


async def bare_header(value: bytes, trace: Header("trace")) -> None: ...  # type: ignore[valid-type]


async def acknowledging(value: bytes, done: Acknowledgement) -> None: ...


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (
            only_where,
            {},
            r'only_where: -> To\("invoices"\) .* write -> Annotated\[Invoice, To\("in',
        ),
        (bare_header, {}, r"parameter 'trace' has no type: write Annotated\[str, Header\("),
        (acknowledging, {}, 'acknowledging: it takes an Acknowledgement: add ack="manual"'),
        (plain, {"ack": "manual"}, "plain: ack=.manual. .* add a parameter done: Acknowledgement"),
        (two_values, {}, "two_values: parameter 'other' is not known: the value has a parameter"),
        (variadic, {}, "variadic: parameter 'values' cannot be filled"),
        (complex_value, {}, "complex_value: parameter 'value' complex cannot be made of JSON"),
        (wrong_offset, {}, "wrong_offset: parameter 'offset' is str: the offset is int"),
        (not_a_list, {"batch": True}, "parameter 'orders' is Order: a batch listener gets lists"),
        (plain, {"order": "keys"}, "plain: order='keys': write one of 'partition', 'key', 'none'"),
        (plain, {"delivery": "once"}, "plain: delivery='once'"),
        (plain, {"workers": 0}, "plain: workers=0: write a number from 1 on"),
        (plain, {"ack": "every"}, 'plain: ack="every" needs numbers'),
        (plain, {"ack": "never"}, "plain: ack='never'"),
        (plain, {"errors": {ValueError: "dead-letter"}}, "add dead_letters=True"),
        (plain, {"errors": {ValueError: "skip"}}, "plain: errors.ValueError.='skip'"),
        (plain, {"errors": {"ValueError": "stop"}}, "'ValueError' is no class of exceptions"),
        (plain, {"retry": "1s"}, "write retry=Retry"),
        (plain, {"max_batch": 5}, "add batch=True"),
        (plain, {"on_idle": print}, "on_idle needs idle_after"),
        (plain, {"handler_timeout": "soon"}, "'soon' is no duration"),
        (plain, {"seek": -1}, "seek=-1"),
        (plain, {"ack": "manual", "delivery": "exactly-once"}, "exclude each other"),
        (plain, {"options": {"group_id": "g"}}, "group.id is not set here"),
        (plain, {"options": {"fetch_max_byte": 5}}, "did you mean fetch.max.bytes"),
        (Order, {}, "stands above a function"),
        (lambda value: None, {}, "has no name"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(
    function: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        declare(function, **arguments)


def test_a_decorator_without_a_topic_is_refused(app: App) -> None:
    with pytest.raises(ConfigError, match=r'write @app\.listener\("topic"\)'):
        app.listener(plain)  # type: ignore[arg-type]


def test_an_annotation_that_exists_for_type_checkers_only_is_told(app: App) -> None:
    async def hidden(order: Hidden) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match="hidden: an annotation names Hidden, which cannot be"):
        app.listener("orders")(hidden)


def test_wrong_topics() -> None:
    with pytest.raises(ConfigError, match="needs a topic"):
        App("billing").listener()(plain)
    with pytest.raises(ConfigError, match="a pattern stands alone"):
        declare(plain, "^a", "b")
    with pytest.raises(ConfigError, match="is no name of a topic"):
        declare(plain, "")
    with pytest.raises(ConfigError, match=r'write @app\.listener\("a", "b"\)'):
        declare(plain, ["orders", "payments"])


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("worker", "did you mean workers?"),
        (
            "auto_offset_reset",
            'it is an option of consumers: write options={"auto_offset_reset": …}',
        ),
        ("group_id", "use group=, ack=, or the app's options"),
        ("middlewares", "remove it or check its spelling"),
    ],
)
def test_an_unknown_argument_of_a_listener_is_told_with_what_to_write(
    name: str, advice: str
) -> None:
    with pytest.raises(TypeError) as refused:
        declare(plain, **{name: 1})
    assert str(refused.value) == f"@app.listener has no argument {name}: {advice}"


@pytest.mark.parametrize("other", ["orders", "^ord.*"])
def test_two_listeners_of_one_group_do_not_share_a_topic(other: str) -> None:
    app = App("billing", bootstrap_servers="127.0.0.1:1")
    app.listener("payments", "orders", name="first")(plain)
    app.listener("orders", name="archive", group="archive")(plain)
    app.listener(other, name="second")(plain)
    with pytest.raises(
        ConfigError, match="first and second both read orders in group billing, so that each would"
    ):
        asyncio.run(app.start())


def test_an_unawaited_send_of_a_plain_handler_is_refused(app: App) -> None:
    @app.listener("orders")
    def bill(order: str) -> None:
        app.send("invoices", order)  # type: ignore[unused-coroutine]

    def run() -> None:
        with app.test() as t:
            t.blocking.send("orders", "tea")
            t.blocking.settled()

    with pytest.raises(IllegalStateError, match=r"a plain function: write app\.blocking\.send"):
        run()


def test_two_listeners_of_one_name_are_refused(app: App) -> None:
    app.listener("a")(plain)
    with pytest.raises(ConfigError, match="there is a listener 'plain' already"):
        app.listener("b")(plain)
    app.listener("b", name="other")(plain)


def test_groups_and_acks_follow_the_options() -> None:
    app = App("billing", enable_auto_commit=True, auto_commit_interval_ms=1000)
    listener = app.listener("orders")(plain)
    assert listener.spec.group == "billing"
    assert listener.spec.ack == every(interval=1)
    named = App("billing", {"group.id": "accounts"})
    assert named.listener("orders")(plain).spec.group == "accounts"
    assert named.listener("orders", name="b", group="own")(plain).spec.group == "own"
