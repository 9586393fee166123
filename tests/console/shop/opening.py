"""Opens the shop, and closes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Final

from tests.console.shop import clerk, readers
from tests.console.shop.formats import Formats
from tests.console.shop.mailer import mailer
from tests.console.shop.names import TOPICS
from tests.console.shop.open_transactions import hang_forever, hang_open
from tests.console.shop.pipeline import Pipeline

import ottla

# What a broker needs so that a transaction can hang for ever.
BROKER_OPTIONS: Final = MappingProxyType({"transaction.partition.verification.enable": "false"})
PIPELINE_SECONDS = 3.0


@contextmanager
def open_shop(servers: str) -> Iterator[str]:
    """Fill a cluster and keep it busy; gives the address of the shop's schema registry."""
    with ExitStack() as stack:
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics(TOPICS)
        registry = stack.enter_context(ottla.SchemaRegistry(bootstrap_servers=servers))
        formats = Formats(registry.url)
        stack.callback(formats.close)
        clerk.fill(servers, formats)
        hanging = hang_open(servers, formats)
        hang_forever(servers, formats)
        writing = clerk.Clerk(servers, formats)
        stack.callback(writing.stop)
        readers.report(servers)
        reading = readers.Readers(servers)
        stack.callback(reading.close)
        pipeline = Pipeline(servers)
        stack.callback(pipeline.close)
        stack.enter_context(mailer(servers).blocking)
        stack.enter_context(_again_and_again("clerk", writing.work, clerk.TICK_SECONDS))
        stack.enter_context(_again_and_again("readers", reading.work, 0.05))
        stack.enter_context(_again_and_again("pipeline", pipeline.commit, PIPELINE_SECONDS))
        yield registry.url
        del hanging


@contextmanager
def _again_and_again(name: str, work: Callable[[], None], period: float) -> Iterator[None]:
    """Runs it on a thread until the block is left; what fails there fails the block."""
    is_over = threading.Event()
    failures: list[Exception] = []

    def run() -> None:
        due = time.monotonic()
        while not is_over.wait(max(0.0, due - time.monotonic())):
            due = max(due, time.monotonic() - period) + period
            try:
                work()
            except Exception as error:
                failures.append(error)
                return

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(clerk.SECONDS)
    if failures:
        raise failures[0]
