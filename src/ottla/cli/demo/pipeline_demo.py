"""`ottla demo`: an exactly-once Spark pipeline whose driver is killed in the middle of a transaction.

Broker and driver are processes of their own, so that kill -9 is real. The progress of the pipeline is read from its
committed offsets, and the verdict comes from reading the output with a read_committed consumer.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.cli.demo.broker_process import BrokerProcess
from ottla.cli.demo.driver_process import DriverProcess
from ottla.cli.demo.orders import (
    ORDERS,
    PARTITIONS,
    PIPELINE,
    RECEIPTS,
    ReceiptReport,
    judge,
    order,
)
from ottla.cli.terminal.progress import Terminal, bar
from ottla.client.admin_model.topics import NewTopic
from ottla.client.admin_model.transactions import TransactionState
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.model import ConsumerRecord
from ottla.core.txn import records as transaction_records
from ottla.core.txn.events import TransactionSaved
from ottla.core.txn.states import TxnState
from ottla.errors import KafkaError, OttlaError
from ottla.model import TopicPartition
from ottla.spark.runtime.java import find_java
from ottla.spark.runtime.requirement import SparkMissingError, require_spark
from ottla.spark.sink.progress import transactional_id

START_SECONDS: Final = 120.0
STUCK_SECONDS: Final = 120.0
CATCH_SECONDS: Final = 20.0
SEND_AT_ONCE: Final = 1000
_LOOK_SECONDS: Final = 0.1
_ORDERS_OF: Final = [TopicPartition(ORDERS, number) for number in range(PARTITIONS)]
_OPEN: Final = (TransactionState.ONGOING,)


def demo(record_count: int, kill_count: int) -> int:
    """Run the demo; 0 only if nothing was lost or duplicated."""
    try:
        require_spark()
    except SparkMissingError as error:
        raise OttlaError(f"{error}; `ottla demo broker` needs no Spark") from error
    java = find_java()
    folder = tempfile.mkdtemp(prefix="ottla-demo-")
    try:
        with_java = f"Java {java.version} ({java.origin})"
        return Demo(Path(folder), record_count, kill_count).run(with_java)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Demo:
    """One run of the demo."""

    def __init__(self, folder: Path, record_count: int, kill_count: int) -> None:
        self._folder = folder
        self._count = record_count
        self._kills = kill_count
        self._terminal = Terminal(sys.stdout)
        self._produced = 0
        self._began = time.monotonic()

    def run(self, java: str) -> int:
        """Run the demo from the broker's start to the verdict."""
        broker = BrokerProcess(str(self._folder))
        seconds = broker.start()
        self._say("broker", f"listening on {broker.address} after {seconds:.2f} s")
        try:
            with Admin(bootstrap_servers=broker.address) as admin:
                self._create_topics(admin, 1)
                self._say("spark", f"starts with {java}; this takes some seconds")
                self._stream(admin, broker.address)
            verdict = judge(self._count, values_of(broker.address, RECEIPTS))
            ends = transactions(broker.address)
        finally:
            code = broker.stop()
        return self._report(verdict, ends) if code == 0 else 1

    def _create_topics(self, admin: Admin, replica_count: int) -> None:
        admin.create_topics(
            [NewTopic(name, PARTITIONS, replica_count) for name in (ORDERS, RECEIPTS)]
        )

    def _stream(self, admin: Admin, address: str) -> None:
        """Produce orders and let the pipeline write receipts, while its driver is killed, or what else fails."""
        driver = DriverProcess(self._folder, address)
        driver.start()
        producing = threading.Thread(target=self._produce, args=(address,), daemon=True)
        producing.start()
        try:
            for kill in range(1, self._kills + 1):
                self._wait(admin, driver, self._count * kill // (self._kills + 1))
                self._fail(kill, admin, driver)
            self._wait(admin, driver, self._count)
            self._terminal.done()
            self._say("pipeline", f"{self._count:,} orders done")
        finally:
            driver.stop()
            producing.join(STUCK_SECONDS)

    def _produce(self, address: str) -> None:
        with Producer(bootstrap_servers=address) as producer:
            for start in range(0, self._count, SEND_AT_ONCE):
                numbers = range(start, min(start + SEND_AT_ONCE, self._count))
                sent = producer.send_many(
                    ORDERS,
                    [order(number) for number in numbers],
                    keys=[b"customer-%d" % (number % 100) for number in numbers],
                )
                sent.result(STUCK_SECONDS)
                self._produced = numbers.stop

    def _wait(self, admin: Admin, driver: DriverProcess, wanted: int) -> None:
        """Wait until `wanted` orders are done: the committed offsets of the pipeline's group count them."""
        changed, last = time.monotonic(), -1
        at_start = committed_orders(admin)
        while (done := committed_orders(admin)) < wanted:
            if done != last:
                changed, last = time.monotonic(), done
            if driver.has_ended or time.monotonic() - changed > STUCK_SECONDS:
                raise OttlaError(f"the pipeline stopped at {done:,} orders:\n{driver.log_tail()}")
            if done == at_start:
                self._show_start(done)
            else:
                self._show(done)
            time.sleep(_LOOK_SECONDS)
        self._show(done)

    def _show_start(self, done: int) -> None:
        """No micro-batch yet since the driver was started: Java, Spark and the query take some seconds."""
        waiting = f"{self._produced - done:,} orders waiting"
        self._terminal.show(f"{'pipeline':10} Spark is starting, {waiting} {self._seconds()}")

    def _show(self, done: int) -> None:
        self._terminal.show(
            f"{'pipeline':10} {bar(done, self._count, 12)} {done:>9,} of {self._count:,} orders done, "
            f"{self._produced - done:,} waiting {self._seconds()}"
        )

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._began:3.0f} s"

    def _fail(self, number: int, admin: Admin, driver: DriverProcess) -> None:
        """Kill the driver and start it again, in the middle of a transaction if one can be caught."""
        deadline = time.monotonic() + CATCH_SECONDS
        is_open = False
        while not is_open and time.monotonic() < deadline and committed_orders(admin) < self._count:
            is_open = _is_open(admin)
        driver.kill()
        self._terminal.done()
        # The transaction may have ended just before the kill.
        when = "in the middle of a transaction" if _is_open(admin) else "between two transactions"
        self._say(
            "kill -9",
            f"driver, Java and workers at {committed_orders(admin):,} orders, {when}; it starts again",
        )
        driver.start()

    def _report(self, verdict: ReceiptReport, ends: Counter[bool]) -> int:
        self._say("in", f"{verdict.records_in:,} orders")
        self._say(
            "out", f"{verdict.records_out:,} receipts, as a read_committed consumer sees them"
        )
        self._say("lost", f"{verdict.lost:,}")
        self._say("duplicated", f"{verdict.duplicated:,}")
        if verdict.wrong:
            self._say("wrong", f"{verdict.wrong:,}")
        self._say("committed", f"{ends[True]:,} transactions")
        self._say("aborted", f"{ends[False]:,} transactions")
        seconds = time.monotonic() - self._began
        words = "exactly once" if verdict.is_good else "FAILED"
        self._say("verdict", f"{words}, in {seconds:.0f} s")
        return 0 if verdict.is_good else 1

    def _say(self, what: str, text: str) -> None:
        self._terminal.say(f"{what:10} {text}")


def committed_orders(admin: Admin) -> int:
    """The number of orders that the pipeline has committed."""
    found = admin.list_consumer_group_offsets({PIPELINE: _ORDERS_OF})[PIPELINE]
    return sum(at.offset for at in found.values() if at is not None)


def _is_open(admin: Admin) -> bool:
    try:
        found = admin.describe_transactions([transactional_id(PIPELINE)])
    except KafkaError:
        return False
    return any(each.state in _OPEN for each in found.values())


def values_of(address: str, topic: str) -> Iterator[bytes | None]:
    """The committed values of a topic."""
    for record in read_all(address, topic, "read_committed"):
        yield record.value


def transactions(address: str) -> Counter[bool]:
    """How many transactions of the pipeline were committed (True) and aborted (False), from the transaction log."""
    ends: Counter[bool] = Counter()
    name = transactional_id(PIPELINE)
    for record in read_all(address, "__transaction_state", "read_uncommitted"):
        event = transaction_records.decode(record.key, record.value)
        if isinstance(event, TransactionSaved) and event.transactional_id == name:
            if event.state is TxnState.COMPLETE_COMMIT:
                ends[True] += 1
            elif event.state is TxnState.COMPLETE_ABORT:
                ends[False] += 1
    return ends


def read_all(address: str, topic: str, isolation: str) -> Iterator[ConsumerRecord]:
    """All records of a topic up to its current end."""
    options = {"bootstrap.servers": address, "isolation.level": isolation}
    with Consumer(options) as consumer:
        places = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        consumer.seek_to_beginning()
        deadline = time.monotonic() + STUCK_SECONDS
        while any(consumer.position(each) < end for each, end in ends.items()):
            yield from consumer.poll(1.0)
            if time.monotonic() > deadline:
                raise OttlaError(f"{topic} could not be read to its end")
