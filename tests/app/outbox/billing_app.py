"""An app in a process of its own, which can be killed at a given moment.

    python -m tests.app.outbox.billing_app '{"servers": …, "database": …, "crash": "commit:after:3"}'

Each record of `orders` has an effect in the database, and an invoice in the outbox.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from ottla.app.declarations.listener_spec import ListenerSpec, Order, RawRecord, RetryPlan
from ottla.app.delivery.unit import OutgoingRecord, Unit
from ottla.app.listening.clients import ClientFactory
from ottla.app.listening.runtime import Runtime
from ottla.app.outbox import CURRENT_OUTBOX, Outbox, relay
from ottla.app.outbox.database_session import Commit, DatabaseSession, session_of
from ottla.app.outbox.statements import Statement
from ottla.client.aio.producer.producer import Producer

GROUP = "billing"


class CrashPoint:
    """Kills this process before or after the n-th time that something happens."""

    def __init__(self, what: str | None) -> None:
        self.kind, self.when, number = (what or ":never:0").split(":")
        self._left = int(number)

    def __call__(self, kind: str, when: str) -> None:
        if (kind, when) != (self.kind, self.when):
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def install(crash: CrashPoint) -> None:
    """Put the crash points where they belong."""
    kinds: list[type[DatabaseSession]] = [type(session_of(sqlite3.connect(":memory:")))]
    kinds += [each for each in DatabaseSession.__subclasses__() if each.__name__ == "_Asyncpg"]
    for kind in kinds:
        _around_perform(kind, crash)
    _around(Producer, "commit_transaction", lambda when: crash("relay-commit", when))
    _around(relay.Relay, "_send", lambda when: crash("relay-send", when))


def _around_perform(kind: type[DatabaseSession], crash: CrashPoint) -> None:
    real = kind.perform

    def perform(self: Any, operation: Any) -> Any:
        name = _name_of(operation)
        crash(name, "before")
        result = real(self, operation)
        if not hasattr(result, "__await__"):
            crash(name, "after")
            return result

        async def awaited() -> Any:
            found = await result
            crash(name, "after")
            return found

        return awaited()

    kind.perform = perform  # type: ignore[method-assign]


def _name_of(operation: Any) -> str:
    if isinstance(operation, Statement):
        return operation.sql.partition(" ")[0].lower()
    return "commit" if isinstance(operation, Commit) else ""


def _around(owner: Any, name: str, crash: Callable[[str], None]) -> None:
    real = getattr(owner, name)

    async def method(*given: Any, **named: Any) -> Any:
        crash("before")
        result = await real(*given, **named)
        crash("after")
        return result

    setattr(owner, name, method)


class Bill:
    """The handler; with `flaky`, some attempts fail, before the block or after it."""

    is_batch = False
    runs_in_thread = False

    def __init__(self, outbox: Outbox, database: str, *, flaky: bool) -> None:
        self._outbox = outbox
        self._database = database
        self._random = random.Random() if flaky else None

    async def __call__(self, records: Sequence[RawRecord], unit: Unit) -> None:
        value = (records[0].value or b"").decode()
        self._fail("before")
        if self._database.startswith("postgresql:"):
            connection = await asyncpg.connect(self._database)
            try:
                async with self._outbox.transaction(connection):
                    await connection.execute("INSERT INTO effects VALUES ($1)", value)
                    await self._send(records[0])
            finally:
                await connection.close()
        else:
            local = sqlite3.connect(self._database, timeout=30)
            try:
                async with self._outbox.transaction(local):
                    local.execute("INSERT INTO effects VALUES (?)", (value,))
                    await self._send(records[0])
            finally:
                local.close()
        self._fail("after")

    def _fail(self, when: str) -> None:
        if self._random is not None and self._random.random() < 0.2:
            raise LookupError(when)

    async def _send(self, record: RawRecord) -> None:
        transaction = CURRENT_OUTBOX.get()
        assert transaction is not None
        await transaction.send(OutgoingRecord("invoices", record.value, record.key))


def connect_of(database: str) -> Callable[[], Any]:
    """How the relay connects."""
    if database.startswith("postgresql:"):
        return lambda: asyncpg.connect(database)
    return lambda: sqlite3.connect(database, timeout=30)


async def main(options: dict[str, Any]) -> None:
    relay.LEASE_SECONDS = 0.6  # type: ignore[misc]
    install(CrashPoint(options.get("crash")))
    servers = {"bootstrap.servers": options["servers"]}
    clients = ClientFactory(
        consumer_options={
            **servers,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": options.get("session_ms", 45_000),
            "heartbeat.interval.ms": 1000,
        },
        producer_options=servers,
        admin_options=servers,
    )
    database = options["database"]
    outbox = Outbox("billing")
    outbox.use(connect_of(database))
    retry = options.get("retry")
    spec = ListenerSpec(
        name="bill",
        topics=("orders",),
        group=GROUP,
        handler=Bill(outbox, database, flaky=retry is not None),
        order=Order(options.get("order", "partition")),
        workers=options.get("workers", 1),
        retry=None if retry is None else RetryPlan((0.01,) * 60, keep_order=retry == "keep-order"),
    )
    await outbox.start(clients)
    runtime = Runtime([outbox.attach(spec)], clients)
    await runtime.start()
    print("started", flush=True)
    await runtime.wait()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
