"""Apps that are killed, paused and revived: each effect is in the database once, each invoice in Kafka once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.apache_kafka.conftest import kafka_address, kafka_jars
from tests.app.outbox.conftest import Shop, postgres_shop, sqlite_shop
from tests.waiting import in_time

from ottla import Admin, Consumer, Producer
from ottla.admin import NewTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.testing import Broker

__all__ = ["kafka_address", "kafka_jars"]

RECORDS = 24
KEYS = 3
LIMIT_SECONDS = 90


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics(
                [NewTopic("orders", num_partitions=2), NewTopic("invoices", num_partitions=1)]
            )
        produce(broker, 0, RECORDS)
        yield broker


def produce(broker: Broker | Servers, start: int, end: int) -> None:
    """Records with these numbers; those of a key are in one partition."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(start, end):
            key = b"k%d" % (number % KEYS)
            producer.send("orders", b"%04d" % number, key, partition=number % KEYS % 2)


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    if request.param == "sqlite":
        return sqlite_shop(tmp_path)
    return postgres_shop(request.getfixturevalue("postgres"))


class Servers(NamedTuple):
    """A cluster of which only the address is known."""

    bootstrap_servers: str


class Process:
    """An app in a process of its own."""

    def __init__(self, broker: Broker | Servers, shop: Shop, **options: Any) -> None:
        given = {"servers": broker.bootstrap_servers, "database": shop.url, **options}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.app.outbox.billing_app", json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ},
        )

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_started(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"started\n", self.end()

    def wait_killed(self) -> None:
        _, errors = self.process.communicate(timeout=LIMIT_SECONDS)
        assert self.process.returncode == -signal.SIGKILL, errors.decode()

    def end(self) -> str:
        self.process.kill()
        _, errors = self.process.communicate()
        return errors.decode()


@contextmanager
def app(broker: Broker | Servers, shop: Shop, **options: Any) -> Iterator[Process]:
    process = Process(broker, shop, **options)
    try:
        yield process
    finally:
        process.end()


def wait_until_done(shop: Shop, process: Process, count: int = RECORDS) -> None:
    """Until all effects are there, and all invoices have left."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while len(set(shop.effects)) < count or shop.outbox:
        if process.process.poll() is not None:
            pytest.fail(process.end())
        in_time(deadline, f"{len(set(shop.effects))} effects, {len(shop.outbox)} in the outbox")
        time.sleep(0.05)


def invoices(broker: Broker | Servers) -> list[tuple[bytes, bytes]]:
    options = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    found = []
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, **options}) as consumer:
        consumer.assign([("invoices", 0)])
        (end,) = consumer.end_offsets([("invoices", 0)]).values()
        while consumer.position(("invoices", 0)) < end:
            found += [(record.key, record.value) for record in consumer.poll(0.2)]
    return found


def check(
    broker: Broker | Servers, shop: Shop, count: int = RECORDS, *, is_ordered: bool = True
) -> None:
    expected = [f"{number:04}" for number in range(count)]
    assert shop.effects == expected
    sent = invoices(broker)
    assert sorted(value.decode() for _, value in sent) == expected
    if is_ordered:
        for key in range(KEYS):
            of_key = [value for each, value in sent if each == b"k%d" % key]
            assert of_key == sorted(of_key)


CRASHES = [
    "insert:after:7",
    "commit:before:5",
    "commit:after:5",
    "update:after:3",
    "relay-commit:before:1",
    "relay-commit:after:1",
    "relay-send:after:1",
    "delete:before:1",
    "delete:after:1",
]
SHORT = {("sqlite", "commit:after:5"), ("postgresql", "relay-send:after:1")}
DATABASES = ("sqlite", "postgresql")


@pytest.mark.parametrize(
    ("shop", "crash"),
    [
        pytest.param(
            database,
            crash,
            marks=[] if (database, crash) in SHORT else [pytest.mark.campaign],
        )
        for database in DATABASES
        for crash in CRASHES
    ],
    indirect=["shop"],
)
def test_an_app_that_is_killed_applies_and_sends_each_record_once(
    shop: Shop, crash: str, broker: Broker
) -> None:
    with app(broker, shop, crash=crash) as killed:
        killed.wait_killed()
    broker.clock.advance("1m")  # the group need not wait for the dead
    with app(broker, shop) as second:
        wait_until_done(shop, second)
    check(broker, shop)


@pytest.mark.campaign
@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_the_same_on_apache_kafka(shop: Shop, kafka_address: str) -> None:
    servers = Servers(kafka_address)
    with Admin(bootstrap_servers=kafka_address) as admin:
        topics = admin.list_topics()
        admin.delete_topics([each for each in ("orders", "invoices") if each in topics])
        for topic, partitions in (("orders", 2), ("invoices", 1)):
            create_soon(admin, NewTopic(topic, num_partitions=partitions))
    produce(servers, 0, RECORDS)
    for crash in ("commit:after:5", "relay-commit:before:1", "relay-send:after:1"):
        with app(servers, shop, crash=crash, session_ms=6000) as killed:
            killed.wait_killed()
    with app(servers, shop, session_ms=6000) as last:
        wait_until_done(shop, last)
    check(servers, shop)


def create_soon(admin: Admin, topic: NewTopic) -> None:
    """Kafka deletes a topic of the same name a moment after it has said so."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        try:
            admin.create_topics([topic])
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            in_time(deadline)
            time.sleep(0.2)
        else:
            return


@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_an_app_that_wakes_up_after_its_partitions_were_given_away_applies_nothing(
    shop: Shop, broker: Broker
) -> None:
    with app(broker, shop) as zombie:
        deadline = time.monotonic() + LIMIT_SECONDS
        while not shop.effects:
            in_time(deadline)
            time.sleep(0.001)
        zombie.send(signal.SIGSTOP)  # with records in hand, and a transaction in any state
        with app(broker, shop) as owner:
            owner.wait_started()
            broker.clock.advance("2m")
            wait_until_effects(shop, owner)
            zombie.send(signal.SIGCONT)
            wait_until_done(shop, owner)
            # What the zombie had in hand it may try as long as it likes.
            produce(broker, RECORDS, RECORDS + 1)
            wait_until_done(shop, owner, RECORDS + 1)
    check(broker, shop, RECORDS + 1)


def wait_until_effects(shop: Shop, process: Process) -> None:
    """Until all effects are there that the zombie does not block with a lock of its open transaction."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while len(set(shop.effects)) < RECORDS - KEYS:
        if process.process.poll() is not None:
            pytest.fail(process.end())
        in_time(deadline, len(shop.effects))
        time.sleep(0.02)


@pytest.mark.campaign
@pytest.mark.parametrize("shop", DATABASES, indirect=True)
@pytest.mark.parametrize(
    ("order", "retry"),
    [
        ("partition", None),
        ("partition", "keep-order"),
        ("partition", "topics"),
        ("key", "keep-order"),
        ("key", "topics"),
        ("none", "topics"),
    ],
)
def test_apps_that_are_killed_again_and_again(
    order: str, retry: str | None, shop: Shop, broker: Broker
) -> None:
    """Two at a time, killed at random: also with failing attempts, retry topics and workers out of order."""
    dice = random.Random(f"{order} {retry}")
    options = {"order": order, "retry": retry, "workers": 1 if order == "partition" else 4}
    rounds, more = 6, 60
    for number in range(rounds):
        start = RECORDS + number * more
        produce(broker, start, start + more)
        with app(broker, shop, **options), app(broker, shop, **options):
            time.sleep(dice.uniform(0.8, 2.5))
        broker.clock.advance("1m")  # the group need not wait for the dead
    count = RECORDS + rounds * more
    with app(broker, shop, **options) as last:
        wait_until_done(shop, last, count)
    check(broker, shop, count, is_ordered=retry != "topics" and order != "none")
