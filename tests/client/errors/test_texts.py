"""The errors that users meet most: they name API, partition and broker, the cause, and what to do."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.client.network.fake_broker import refusing_address
from tests.client.producer.meddler import Meddler, produce_error
from tests.faults.processes import free_port
from tests.waiting import in_time

import ottla
from ottla.errors import (
    AbortableError,
    CommitFailedError,
    ErrorCode,
    FatalError,
    KafkaError,
    NoOffsetError,
    OffsetOutOfRangeError,
    OttlaError,
    RetriableError,
    TimedOutError,
)

QUICK: dict[str, Any] = {
    "max_block_ms": 500,
    "linger_ms": 0,
    "request_timeout_ms": 400,
    "delivery_timeout_ms": 900,
    "retry_backoff_ms": 10,
}
BROKER = r"broker=1 at 127\.0\.0\.1:\d+"


def error_of(kind: type[OttlaError], call: Callable[[], object], *words: str) -> OttlaError:
    """The error of a call, which has all these words."""
    with pytest.raises(kind) as caught:
        call()
    for pattern in words:
        assert caught.match(pattern)
    if isinstance(caught.value, KafkaError):
        assert "api" in caught.value.context or "group" in caught.value.context
    return caught.value


def poll_until(consumer: ottla.Consumer, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        in_time(deadline, "it did not happen")
        consumer.poll(0.05)


def at_once(*calls: Callable[[], object]) -> None:
    """Make calls that take their time, each on a thread of its own."""
    with ThreadPoolExecutor(len(calls)) as pool:
        for made in [pool.submit(call) for call in calls]:
            made.result()


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


def test_a_producer_names_a_topic_that_is_unknown(servers: str) -> None:
    unknown = (
        r"Topic nope does not exist after \d+ ms",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "create it",
    )
    too_high = ("Partition 9 of topic t, which has 1", "Metadata")
    options = {**QUICK, "max_block_ms": 1500, "delivery_timeout_ms": 10_000}
    with ottla.Producer(bootstrap_servers=servers, **options) as producer:
        at_once(
            lambda: error_of(TimedOutError, lambda: producer.send("nope", b"x"), *unknown),
            lambda: error_of(TimedOutError, lambda: producer.partitions_for("nope"), *unknown),
            lambda: error_of(
                TimedOutError, lambda: producer.send("t", b"x", partition=9), *too_high
            ),
        )
        error_of(AbortableError, lambda: producer.send("no/name", b"x"), "INVALID_TOPIC", "no/name")
        assert producer.send("t", b"x").result(5).topic == "t", "others are not held up"


def test_a_consumer_names_a_topic_that_is_unknown(servers: str) -> None:
    def check(ask: Callable[[ottla.Consumer], object], *words: str) -> None:
        with ottla.Consumer(bootstrap_servers=servers, default_api_timeout_ms=1500) as consumer:
            error_of(TimedOutError, lambda: ask(consumer), *words)

    unknown = ("Topic nope does not exist", "create it")
    too_high = ("t-7", "partitions are 0 to 0", "ListOffsets")
    at_once(
        lambda: check(lambda consumer: consumer.end_offsets([("nope", 0)]), *unknown),
        lambda: check(lambda consumer: consumer.partitions_for("nope"), *unknown),
        lambda: check(lambda consumer: consumer.end_offsets([("t", 7)]), *too_high),
    )


def test_a_topic_that_does_not_exist_is_in_the_log_once(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level("WARNING", "ottla.client"),
        ottla.Consumer(bootstrap_servers=servers, retry_backoff_ms=10) as consumer,
    ):
        consumer.assign([("nope", 0)])
        poll_until(consumer, lambda: "nope" in caplog.text)
        # Long enough to say it again.
        consumer.poll(0.3)
    said = [record.message for record in caplog.records if "nope" in record.message]
    assert said == [
        f"{said[0].split(':')[0]}: topic nope: The broker has no such topic or partition."
    ]


def test_a_subscription_to_a_topic_that_does_not_exist_is_told(
    servers: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"retry_backoff_ms": 10, "group_id": group}
    with ottla.Consumer(bootstrap_servers=servers, **options) as consumer:
        consumer.subscribe(["nope"])
        told = ("topic nope: The broker has no such topic or partition.",)
        # At first it may be something else, such as a coordinator that is not ready yet.
        poll_until(consumer, lambda: consumer.health().reasons == told)
        assert not consumer.health().ok
        poll_until(consumer, lambda: "topic nope: The broker has no such" in caplog.text)


def test_records_that_are_too_large_say_which_limit_they_exceed(servers: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, **QUICK) as producer:
        words: tuple[str, ...] = (
            "MESSAGE_TOO_LARGE",
            r"2000088 bytes",
            r"max\.request\.size is 1048576",
            "topic=t",
        )
        error_of(AbortableError, lambda: producer.send("t", b"x" * 2_000_000), *words)
        words = (r"max\.message\.bytes=1000", "api=Produce, partition=small-0", BROKER)
        error_of(AbortableError, lambda: producer.send("small", b"x" * 5000).result(5), *words)


@pytest.mark.parametrize(
    ("deed", "cause"),
    [
        ({"answer": produce_error(ErrorCode.NOT_ENOUGH_REPLICAS)}, "NOT_ENOUGH_REPLICAS.*in sync"),
        ({"is_lost": True}, "NETWORK_EXCEPTION.*closed the connection"),
        ({"hold": threading.Event()}, r"Produce was not answered within \d+ ms"),
    ],
    ids=["not enough replicas", "lost connections", "no answers"],
)
def test_a_record_whose_time_is_over_says_what_went_wrong(
    meddler: Meddler, servers: str, deed: dict[str, Any], cause: str
) -> None:
    with ottla.Producer(bootstrap_servers=servers, **QUICK) as producer:
        producer.send("t", b"x").result(5)
        meddler.on("Produce", times=10_000, **deed)
        words: tuple[str, ...] = (
            r"delivery\.timeout\.ms",
            cause,
            "api=Produce, partition=t-0",
            BROKER,
        )
        error = error_of(TimedOutError, lambda: producer.send("t", b"x").result(5), *words)
        assert isinstance(error.__cause__, RetriableError)
        if "hold" in deed:
            deed["hold"].set()


def test_a_fenced_producer_is_told_who_took_its_place(servers: str) -> None:
    name = f"till-{uuid.uuid4().hex[:8]}"
    options = {"bootstrap_servers": servers, "transactional_id": name}
    with ottla.Producer(options) as old, ottla.Producer(options) as new:
        old.init_transactions()
        old.begin_transaction()
        old.send("t", b"x").result(5)
        new.init_transactions()
        words: tuple[str, ...] = ("a newer one with its transactional id", "partition=t-0", BROKER)
        error_of(AbortableError, lambda: old.send("t", b"x").result(5), *words)
        error_of(AbortableError, old.commit_transaction, "has to be aborted")
        words = ("PRODUCER_FENCED", "A newer producer uses the same", name, BROKER)
        error_of(FatalError, old.abort_transaction, *words)
        error_of(FatalError, lambda: old.send("t", b"x"), "The producer has failed", *words)


def test_commits_that_fail_say_why_and_what_to_do(servers: str, group: str) -> None:
    options = {"bootstrap_servers": servers, "enable_auto_commit": False}
    with ottla.Consumer(options, group_id=group, max_poll_interval_ms=200) as consumer:
        consumer.subscribe(["t"])
        error_of(
            CommitFailedError, lambda: consumer.commit({("t", 0): 1}), r"Call poll\(\) to join"
        )
        while not consumer.assignment():
            consumer.poll(0.1)

        def commit_until_it_fails() -> None:
            for _ in range(500):
                consumer.commit({("t", 0): 1})
                time.sleep(0.02)

        words: tuple[str, ...] = (
            r"max\.poll\.interval\.ms = 200",
            r"lower max\.poll\.records",
            group,
        )
        error_of(CommitFailedError, commit_until_it_fails, *words)
    with ottla.Consumer(options, group_id=group) as consumer:
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.remove_members_from_consumer_group(group)
        words = ("group has rebalanced", group, "OffsetCommit", "partition=t-0", BROKER)
        error_of(CommitFailedError, lambda: consumer.commit({("t", 0): 1}), *words)


def test_positions_that_cannot_be_had_are_named_with_what_to_do(servers: str, group: str) -> None:
    with ottla.Consumer(
        bootstrap_servers=servers, group_id=group, auto_offset_reset="none"
    ) as consumer:
        consumer.assign([("t", 0)])
        words: tuple[str, ...] = (
            "no offset to start from for t-0",
            r"auto\.offset\.reset",
            "api=OffsetFetch",
        )
        error_of(NoOffsetError, lambda: consumer.poll(5), *words)
        consumer.seek(("t", 0), 10_000)

        def poll() -> None:
            for _ in range(20):
                consumer.poll(0.5)

        words = ("out of range: t-0 at 10000", r"auto\.offset\.reset", "api=Fetch")
        error_of(OffsetOutOfRangeError, poll, *words)


@pytest.fixture
def dead_address() -> Iterator[str]:
    with refusing_address() as address:
        yield address


def test_brokers_that_cannot_be_reached_are_named_with_the_reason(
    group: str, dead_address: str
) -> None:
    address = dead_address
    words: tuple[str, ...] = (address, "Connection refused")
    with ottla.Producer(bootstrap_servers=address, **QUICK) as producer:
        error_of(TimedOutError, lambda: producer.send("t", b"x"), *words)
    with ottla.Producer(bootstrap_servers=address, transactional_id="x", **QUICK) as producer:
        error_of(TimedOutError, producer.init_transactions, *words)
        producer.close(0.1)
    with ottla.Consumer(
        bootstrap_servers=address, group_id=group, default_api_timeout_ms=400
    ) as consumer:
        for call in (
            consumer.list_topics,
            lambda: consumer.end_offsets([("t", 0)]),
            lambda: consumer.committed([("t", 0)]),
            lambda: consumer.partitions_for("t"),
        ):
            error_of(TimedOutError, call, *words)
    with ottla.Admin(
        bootstrap_servers=address, default_api_timeout_ms=600, request_timeout_ms=600
    ) as admin:
        error_of(TimedOutError, admin.list_topics, address)
        error_of(
            TimedOutError, lambda: admin.create_topics([ottla.admin.NewTopic("t", 1)]), address
        )


def test_a_broker_that_dies_in_the_middle_is_named_with_the_reason(group: str) -> None:
    with ottla.Broker(listen=f"127.0.0.1:{free_port()}") as broker:
        servers = broker.bootstrap_servers
        producer = ottla.Producer(bootstrap_servers=servers, **QUICK)
        producer.send("t", b"x").result(5)
        writer = ottla.Producer(
            {**QUICK, "max_block_ms": 1500, "bootstrap_servers": servers, "transactional_id": "x"}
        )
        writer.init_transactions()
        writer.begin_transaction()
        writer.send("t", b"x").result(5)
        consumer = ottla.Consumer(
            bootstrap_servers=servers, group_id=group, default_api_timeout_ms=400
        )
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
    words: tuple[str, ...] = (servers, "Connection refused")
    try:
        late = ("partition=t-0", f"broker=1 at {servers}")
        error_of(TimedOutError, lambda: producer.send("t", b"x").result(5), *words, *late)
        error_of(TimedOutError, lambda: producer.send("other", b"x"), "Topic other", *words)
        error_of(TimedOutError, lambda: consumer.commit({("t", 0): 1}), group, *words)
        error_of(TimedOutError, consumer.end_offsets, "t-0", *words)
        error_of(TimedOutError, writer.commit_transaction, "call it again to go on", *words)
    finally:
        for client in (consumer, producer, writer):
            client.close(0.1)
