"""A producer that has failed, or whose transaction has: every later call says why."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from tests.client.producer.meddler import Meddler, produce_error
from tests.client.producer.transactional import QUICK, make, max_block_ms

import ottla
import ottla.aio
from ottla.errors import ErrorCode, FatalError, IllegalStateError, TimedOutError
from ottla.wire.messages.end_txn import EndTxnResponse

__all__ = ["make"]  # a fixture


def test_every_call_of_a_fenced_producer_names_the_fence(
    make: Callable[..., ottla.Producer], topic: str
) -> None:
    old = make()
    old.init_transactions()
    old.begin_transaction()
    old.send(topic, b"old", partition=0).result(10)
    make().init_transactions()
    with pytest.raises(FatalError, match="PRODUCER_FENCED"):
        old.commit_transaction()
    calls: list[Callable[[], Any]] = [
        old.flush,
        lambda: old.partitions_for(topic),
        lambda: old.send_offsets_to_transaction({(topic, 0): 1}, "group"),
        lambda: old.send_offsets_to_transaction({}, "group"),
        lambda: old.send(topic, b"x"),
        lambda: old.send_many(topic, [b"x"]),
        old.init_transactions,
        old.begin_transaction,
    ]
    for call in calls:
        with pytest.raises(FatalError, match="A newer producer uses the same transactional id"):
            call()


def test_fatal_error_comes_before_a_call_that_timed_out(
    make: Callable[..., ottla.Producer], meddler: Meddler, topic: str
) -> None:
    old = make()
    old.init_transactions()
    old.begin_transaction()
    old.send(topic, b"old", partition=0).result(10)
    hold = threading.Event()
    meddler.on("EndTxn", hold=hold, answer=_fenced)
    with max_block_ms(old, 300), pytest.raises(TimedOutError):
        old.commit_transaction()
    hold.set()
    with pytest.raises(FatalError, match="PRODUCER_FENCED"):
        old.commit_transaction()
    with pytest.raises(FatalError, match="PRODUCER_FENCED"):
        old.begin_transaction()


def test_unseen_end_of_a_commit_does_not_hide_the_fatal_error(
    make: Callable[..., ottla.Producer], meddler: Meddler, topic: str
) -> None:
    old = make()
    old.init_transactions()
    old.begin_transaction()
    old.send(topic, b"old", partition=0).result(10)
    hold = threading.Event()
    meddler.on("EndTxn", hold=hold, answer=_fenced)
    with max_block_ms(old, 300), pytest.raises(TimedOutError):
        old.commit_transaction()
    hold.set()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            old.flush()
        except FatalError:
            break
    with pytest.raises(FatalError, match="PRODUCER_FENCED"):
        old.abort_transaction()


def _fenced(request: Any) -> Any:
    return EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)


def test_flush_does_not_raise_for_single_records_but_after_a_fatal_error(
    meddler: Meddler, servers: str, topic: str
) -> None:
    with ottla.Producer(bootstrap_servers=servers, **QUICK) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("Produce", answer=produce_error(ErrorCode.INVALID_RECORD))
        future = producer.send(topic, b"bad", partition=0)
        producer.flush()
        assert future.exception(0) is not None
        meddler.on("Produce", answer=produce_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        producer.send(topic, b"refused", partition=0)
        for _ in range(2):
            with pytest.raises(FatalError, match="CLUSTER_AUTHORIZATION_FAILED"):
                producer.flush()
        with pytest.raises(FatalError, match="CLUSTER_AUTHORIZATION_FAILED"):
            producer.partitions_for(topic)


def test_begin_that_is_refused_changes_nothing_for_other_threads(
    servers: str, topic: str, ottla_topic_name: Callable[[], str]
) -> None:
    """Whoever has the lock meanwhile, to add a record, must not see a transaction that does not begin."""

    async def main() -> None:
        options = {"transactional_id": ottla_topic_name(), **QUICK}
        async with ottla.aio.Producer(bootstrap_servers=servers, **options) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            accumulator = producer._parts.accumulator
            current, seen, lock = accumulator.transaction, [], accumulator.lock

            class Watched:
                def __enter__(self) -> None:
                    lock.acquire()
                    seen.append(accumulator.transaction)

                def __exit__(self, *_: object) -> None:
                    seen.append(accumulator.transaction)
                    lock.release()

            watched: Any = Watched()
            assert producer._parts.transactions is not None
            accumulator.lock = producer._parts.transactions._lock = watched
            with pytest.raises(IllegalStateError, match="has an open transaction"):
                producer.begin_transaction()
            assert seen
            assert all(each is current for each in seen)
            await producer.abort_transaction()
            seen.clear()
            producer.begin_transaction()
            assert len(seen) == 2, "one section"

    asyncio.run(main())


@pytest.mark.parametrize("is_sync", [True, False])
def test_exception_tells_that_the_abort_timed_out(
    meddler: Meddler,
    servers: str,
    topic: str,
    ottla_topic_name: Callable[[], str],
    is_sync: bool,
) -> None:
    options: dict[str, Any] = {"transactional_id": ottla_topic_name(), **QUICK}
    options["bootstrap_servers"] = servers
    hold = threading.Event()
    note = r"not aborted yet: .*abort_transaction\(\) is not done after 300 ms"

    def blocking() -> None:
        with ottla.Producer(**options) as producer:
            producer.init_transactions()

            def fail() -> None:
                with ExitStack() as limits, producer.transaction():
                    producer.send(topic, b"x", partition=0).result(10)
                    meddler.on("EndTxn", hold=hold)
                    limits.enter_context(max_block_ms(producer, 300))
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError) as caught:
                fail()
            assert_told(caught.value)
            with pytest.raises(IllegalStateError, match=r"abort_transaction.*call it again"):
                producer.begin_transaction()
            hold.set()
            producer.abort_transaction()
            with producer.transaction():
                producer.send(topic, b"y", partition=0)

    async def asynchronous() -> None:
        async with ottla.aio.Producer(**options) as producer:
            await producer.init_transactions()

            async def fail() -> None:
                with ExitStack() as limits:
                    async with producer.transaction():
                        await (await producer.send(topic, b"x", partition=0))
                        meddler.on("EndTxn", hold=hold)
                        limits.enter_context(max_block_ms(producer, 300))
                        raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError) as caught:
                await fail()
            assert_told(caught.value)
            hold.set()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, b"y", partition=0)

    def assert_told(error: BaseException) -> None:
        (told,) = error.__notes__
        assert re.search(note, told)
        assert "Call abort_transaction() until it returns" in told

    if is_sync:
        blocking()
    else:
        asyncio.run(asynchronous())
