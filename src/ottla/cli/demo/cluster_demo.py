"""`ottla demo cluster`: three brokers on PostgreSQL and S3, of which one is killed and one is paused past its lease.

All of it are processes, so that kill -9 and SIGSTOP are real. Meanwhile an exactly-once Spark pipeline turns orders
into receipts, and the verdict comes from reading those with a read_committed consumer.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ottla.cli.demo.broker_process import BrokerProcess
from ottla.cli.demo.driver_process import DriverProcess
from ottla.cli.demo.orders import ORDERS, RECEIPTS, judge
from ottla.cli.demo.pipeline_demo import (
    STUCK_SECONDS,
    Demo,
    committed_orders,
    transactions,
    values_of,
)
from ottla.cli.demo.storage_servers import INSTALL, ObjectStore, PostgresServer
from ottla.cli.terminal.signals import sigterm_raises
from ottla.client.blocking.admin import Admin
from ottla.errors import KafkaError, OttlaError
from ottla.spark.runtime.java import find_java
from ottla.spark.runtime.requirement import SparkMissingError, require_spark
from ottla.storage.shared.storage_urls import StorageUrls

BROKERS: Final = 3
_LOOK_SECONDS: Final = 0.1
_PATIENCE_MS: Final = 1000


def cluster_demo(record_count: int, failure_count: int) -> int:
    """Run the demo; 0 only if nothing was lost or duplicated."""
    _check_packages()
    java = find_java()
    folder = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    with ExitStack() as ends:
        ends.callback(shutil.rmtree, folder, ignore_errors=True)
        ends.enter_context(sigterm_raises())
        postgres, objects = PostgresServer(folder), ObjectStore(folder)
        ends.callback(postgres.stop)
        ends.callback(objects.stop)
        demo = ClusterDemo(folder, record_count, failure_count, postgres, objects)
        return demo.run(f"Java {java.version} ({java.origin})")


def _check_packages() -> None:
    try:
        require_spark()
    except SparkMissingError as error:
        raise OttlaError(f"{error}; all that the demo needs: {INSTALL}") from error
    for package in ("asyncpg", "obstore"):
        try:
            __import__(package)
        except ImportError as error:
            raise OttlaError(f"the demo needs {package}: {INSTALL}") from error


class ClusterDemo(Demo):
    """One run. A broker fails where the demo of one broker kills the driver."""

    def __init__(
        self,
        folder: Path,
        record_count: int,
        failure_count: int,
        postgres: PostgresServer,
        objects: ObjectStore,
    ) -> None:
        super().__init__(folder, record_count, failure_count)
        self._postgres = postgres
        self._objects = objects
        self._brokers: list[BrokerProcess] = []

    def run(self, java: str) -> int:
        """Run the demo from the servers' start to the verdict."""
        self._start_storage()
        codes: list[int] = []
        try:
            self._start_brokers()
            servers = ",".join(broker.address for broker in self._brokers)
            with Admin(bootstrap_servers=servers) as admin:
                self._create_topics(admin, BROKERS)
                self._say("spark", f"starts with {java}; this takes some seconds")
                self._stream(admin, servers)
            verdict = judge(self._count, values_of(servers, RECEIPTS))
            ends = transactions(servers)
        finally:
            codes += [broker.stop() for broker in self._brokers if broker.is_running]
        if codes != [0] * BROKERS:
            raise OttlaError(f"brokers did not stop cleanly: exit codes {codes}")
        return self._report(verdict, ends)

    def _start_storage(self) -> None:
        began = time.monotonic()
        with ThreadPoolExecutor() as threads:
            for started in [threads.submit(each.start) for each in (self._postgres, self._objects)]:
                started.result()
        self._say("storage", f"PostgreSQL and SeaweedFS after {time.monotonic() - began:.2f} s")
        from ottla.storage.shared.cluster_storage import init_storage

        urls = StorageUrls(self._postgres.url, self._objects.url)
        self._say("init", f"ottla storage init: cluster {asyncio.run(init_storage(urls, None))}")

    def _start_brokers(self) -> None:
        urls = []
        for option, url in (("--storage", self._postgres.url), ("--objects", self._objects.url)):
            # Not on the command line, where every user of the machine can read it.
            path = self._folder / f"url{option}"
            path.write_text(url + "\n", encoding="utf-8")
            urls += [option, f"@{path}"]
        self._brokers = [
            BrokerProcess(str(self._folder), f"broker-{number}", urls)
            for number in range(1, BROKERS + 1)
        ]
        with ThreadPoolExecutor() as threads:
            list(threads.map(BrokerProcess.start, self._brokers))
        self._say("brokers", "listening on " + ", ".join(each.address for each in self._brokers))

    def _fail(self, number: int, admin: Admin, driver: DriverProcess) -> None:
        """Kills a broker or pauses one, in turn; always one that leads orders."""
        victim = self._leading_broker(admin)
        if number % 2:
            self._kill_broker(admin, victim)
        else:
            self._pause_broker(admin, victim)

    def _kill_broker(self, admin: Admin, victim: BrokerProcess) -> None:
        done = committed_orders(admin)
        victim.kill()
        began = time.monotonic()
        self._wait_for_takeover(victim)
        self._terminal.done()
        self._say(
            "kill -9",
            f"{victim.address} at {done:,} orders; others lead its partitions"
            f" after {time.monotonic() - began:.1f} s; it starts again",
        )
        victim.start()

    def _pause_broker(self, admin: Admin, victim: BrokerProcess) -> None:
        done = committed_orders(admin)
        victim.pause()
        began = time.monotonic()
        try:
            self._wait_for_takeover(victim)
        finally:
            victim.resume()
        self._terminal.done()
        self._say(
            "SIGSTOP",
            f"{victim.address} at {done:,} orders, for {time.monotonic() - began:.1f} s, until its lease"
            " was over and others led its partitions; it goes on",
        )

    def _leading_broker(self, admin: Admin) -> BrokerProcess:
        """A broker that leads a partition of the orders."""
        found = self._leaders(admin)
        return next(each for each in self._brokers if each.address in found)

    def _leaders(self, admin: Admin) -> set[str]:
        """The addresses of the leaders of the orders; empty as long as a partition has none."""
        try:
            topic = admin.describe_topics([ORDERS])[ORDERS]
        except (KafkaError, OttlaError):
            return set()
        leaders = [each.leader for each in topic.partitions]
        return (
            {f"{each.host}:{each.port}" for each in leaders if each is not None}
            if all(each is not None for each in leaders)
            else set()
        )

    def _wait_for_takeover(self, victim: BrokerProcess) -> None:
        deadline = time.monotonic() + STUCK_SECONDS
        others = ",".join(each.address for each in self._brokers if each is not victim)
        # A paused broker takes requests and does not answer them.
        with Admin(bootstrap_servers=others, request_timeout_ms=_PATIENCE_MS) as admin:
            while not (found := self._leaders(admin)) or victim.address in found:
                if time.monotonic() > deadline:
                    raise OttlaError(f"nobody has taken over the partitions of {victim.address}")
                time.sleep(_LOOK_SECONDS)

    def _show_start(self, done: int) -> None:
        if done:
            self._show(done)
        else:
            super()._show_start(done)
