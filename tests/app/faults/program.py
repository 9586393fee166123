"""The app that is killed: `python -m tests.app.faults.program SERVERS SCENARIO` runs one scenario's listeners."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any, Final

from tests.app.faults.scenarios import (
    AUDIT,
    BLOCKED_KEY,
    COMMIT_INTERVAL_MS,
    GROUP,
    INPUT,
    OUTPUT,
    SCENARIOS,
    SESSION_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    Scenario,
)

from ottla.app import App, BatchItemError, Retry, To

FLAKY_SHARE: Final = 0.08
_chance = random.Random()


class FlakyError(Exception):
    """Goes away by itself."""


class PoisonError(Exception):
    """Comes again at every attempt."""


def new_app(servers: str, scenario: Scenario) -> App:
    """The app of a scenario; short timeouts, so that a run survives many kills."""
    app = App(
        "killed",
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=SESSION_TIMEOUT_MS // 5,
        max_poll_interval_ms=10_000,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
    )
    retry = Retry("50ms", "100ms", keep_order=scenario.keeps_order) if scenario.retries else None
    declared: dict[str, Any] = {
        "group": GROUP,
        "order": scenario.order,
        "workers": scenario.workers,
        "delivery": scenario.delivery,
        "retry": retry,
        "dead_letters": True,
        "errors": {PoisonError: "dead-letter"},
    }
    if scenario.is_batch:
        _listen_to_batches(app, declared)
    elif scenario.is_sync:
        _listen_in_threads(app, declared)
    else:
        _listen(app, declared)
    return app


def _listen(app: App, declared: dict[str, Any]) -> None:
    @app.listener(INPUT, **declared)
    async def copy(value: bytes, key: bytes) -> To:
        order = json.loads(value)
        await app.send(AUDIT, value, key=key)
        await _work(order)
        return To(OUTPUT, value, key=key)


def _listen_in_threads(app: App, declared: dict[str, Any]) -> None:
    @app.listener(INPUT, **declared)
    def copy(value: bytes, key: bytes) -> To:
        order = json.loads(value)
        app.blocking.send(AUDIT, value, key=key)
        time.sleep(_chance.random() * 0.003)
        _fail(order)
        return To(OUTPUT, value, key=key)


def _listen_to_batches(app: App, declared: dict[str, Any]) -> None:
    @app.listener(INPUT, batch=True, **declared)
    async def copy(values: list[bytes]) -> list[To]:
        results = []
        for index, value in enumerate(values):
            order = json.loads(value)
            if order["kind"] == "poison":
                raise BatchItemError(index, PoisonError(order["id"]))
            if _chance.random() < FLAKY_SHARE / 10:
                raise BatchItemError(index, FlakyError(order["id"]))
            await app.send(AUDIT, value, key=order["key"])
            results.append(To(OUTPUT, value, key=order["key"]))
        await asyncio.sleep(_chance.random() * 0.01)
        return results


async def _work(order: dict[str, Any]) -> None:
    if order["key"] == BLOCKED_KEY:
        # Its followers wait, others finish far beyond it: the metadata of the offset fills.
        await asyncio.sleep(0.05)
    await asyncio.sleep(_chance.random() * 0.003)
    _fail(order)


def _fail(order: dict[str, Any]) -> None:
    if order["kind"] == "poison":
        raise PoisonError(order["id"])
    if _chance.random() < FLAKY_SHARE:
        raise FlakyError(order["id"])


def main() -> None:
    servers, name = sys.argv[1:]
    new_app(servers, SCENARIOS[name]).run()


if __name__ == "__main__":
    main()
