"""Arguments that are of the wrong kind: the error says which, and what to write."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest

import ottla
import ottla.aio
from ottla.errors import IllegalStateError, KafkaError, SerializationError

Call = Callable[[Any], object]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda c: c.poll("1"), TypeError, "a timeout is a number of seconds, not '1'"),
        (lambda c: c.poll(None), TypeError, "a timeout is a number of seconds, not None"),
        (lambda c: c.position(("t", 0), "1"), TypeError, "a number of seconds, not '1'"),
        (
            lambda c: c.offsets_for_times({("t", 0): time.time()}),
            TypeError,
            r"the time of t-0 is a whole number of milliseconds, not .*: int\(time.time\(\) \* 1000\)",
        ),
        (lambda c: c.offsets_for_times({("t", 0): -5}), ValueError, "the time of t-0 is negative"),
        (lambda c: c.subscribe("^t1("), ValueError, r"'\^t1\(' is no regular expression"),
        (lambda c: c.subscribe(["t"], print), TypeError, "is no listener.*on_partitions_revoked"),
        (lambda c: pickle.dumps(c), TypeError, "Consumer objects cannot be pickled or copied"),
    ],
)
def test_a_consumer_says_what_is_wrong_with_an_argument(
    servers: str, call: Call, kind: type[Exception], words: str
) -> None:
    with ottla.Consumer(bootstrap_servers=servers, group_id="arguments") as consumer:
        consumer.assign([("t", 0)])
        with pytest.raises(kind, match=words):
            call(consumer)
        assert consumer.assignment() == {("t", 0)}


NO_NAME = (
    r"^INVALID_TOPIC_EXCEPTION \(17\): Topic name 'no name' has characters other than ASCII letters"
)


@pytest.mark.parametrize(
    "call",
    [
        lambda p, c, a: p.send("no name", b"x"),
        lambda p, c, a: p.send_many("no name", [b"x"]),
        lambda p, c, a: p.partitions_for("no name"),
        lambda p, c, a: (c.assign([("no name", 0)]), c.poll(10)),
        lambda p, c, a: (c.subscribe(["no name"]), c.poll(10)),
        lambda p, c, a: c.end_offsets([("no name", 0)]),
        lambda p, c, a: a.describe_topics(["no name"]),
    ],
)
def test_the_error_says_what_is_wrong_with_the_name_of_a_topic(
    servers: str, call: Callable[[Any, Any, Any], object]
) -> None:
    with (
        ottla.Producer(bootstrap_servers=servers) as producer,
        ottla.Consumer(bootstrap_servers=servers, group_id="names") as consumer,
        ottla.Admin(bootstrap_servers=servers) as admin,
        pytest.raises(KafkaError, match=NO_NAME),
    ):
        call(producer, consumer, admin)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (["a"], r"""as in headers=\[\("name", b"value"\)\], not 'a'$"""),
        (["ab"], r"^a header is a name \(str\) with a value \(bytes or None\), .*, not 'ab'$"),
        ([("a", b"b", b"c")], r"not \('a', b'b', b'c'\)$"),
        ({"a": "text"}, r"not \('a', 'text'\)$"),
        ("ab", "^headers are a dict or a list of pairs, not 'ab'$"),
        (7, "^headers are a dict or a list of pairs, not 7$"),
    ],
)
def test_headers_that_are_none_are_refused_with_an_example(
    servers: str, headers: Any, words: str
) -> None:
    with ottla.Producer(bootstrap_servers=servers) as producer:
        # The second send takes the short way, where there is one.
        for _ in range(2):
            with pytest.raises(SerializationError, match=words):
                producer.send("t", b"x", headers=headers)
            with pytest.raises(SerializationError, match=words):
                producer.send_many("t", [b"x"], headers=headers)
            pairs: Any = [["a", b"b"]]
            producer.send("t", b"x", headers=pairs).result(10)


def test_a_timestamp_that_seems_to_be_in_seconds_is_told_once(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Producer(bootstrap_servers=servers) as producer:
        for timestamp_ms in (int(time.time() * 1000), 0, 5000):
            producer.send("t", b"x", timestamp_ms=timestamp_ms).result(10)
        assert "seconds" not in caplog.text
        for timestamp_ms in (1_794_871_643, 1_794_871_644):
            sent = producer.send("t", b"x", timestamp_ms=timestamp_ms).result(10)
            assert sent.timestamp_ms == timestamp_ms, "as in Kafka, it is sent as it is"
    assert [each for each in caplog.messages if "seconds" in each] == [
        "a record for t has timestamp_ms=1794871643, which is in 1970: "
        "if these are seconds since 1970, multiply them by 1000"
    ]


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])
def test_an_async_with_around_a_blocking_client_is_told_apart(
    ottla_broker: ottla.Broker, name: str
) -> None:
    async def wrong() -> None:
        make: Any = getattr(ottla, name)
        async with make(bootstrap_servers=ottla_broker.bootstrap_servers):
            pass

    words = f"ottla.{name} is for programs without asyncio: write `with`, or use ottla.aio.{name}"
    with pytest.raises(TypeError, match=words):
        asyncio.run(wrong())


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])
def test_a_plain_with_around_an_asyncio_client_is_told_apart(
    servers: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        with getattr(ottla.aio, name)(bootstrap_servers=servers):
            pass

    words = f"ottla.aio.{name} is closed by awaiting: write `async with`, or use ottla.{name} "
    with pytest.raises(TypeError, match=words):
        asyncio.run(main())
    gc.collect()
    assert "Task was destroyed" not in caplog.text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.flush("1"), "a timeout is a number of seconds, not '1'"),
        (lambda p: copy.copy(p), "Producer objects cannot be pickled or copied"),
    ],
)
def test_a_producer_says_what_is_wrong_with_an_argument(
    servers: str, call: Call, words: str
) -> None:
    with (
        ottla.Producer(bootstrap_servers=servers) as producer,
        pytest.raises(TypeError, match=words),
    ):
        call(producer)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda a: a.create_topics(["x"]), TypeError, r"'x' is no NewTopic: write NewTopic\("),
        (
            lambda a: a.alter_configs({ottla.admin.ConfigResource.topic("t"): {"retention.ms": 5}}),
            TypeError,
            "the value of the config retention.ms is text: write '5'",
        ),
        (
            lambda a: a.alter_consumer_group_offsets("g", {("t", 0): -5}),
            ValueError,
            "the offset of t-0 is negative: -5",
        ),
        (
            lambda a: a.alter_consumer_group_offsets("g", {("t", "0"): 5}),
            TypeError,
            "is no partition",
        ),
        (lambda a: pickle.dumps(a), TypeError, "Admin objects cannot be pickled or copied"),
    ],
)
def test_an_admin_client_says_what_is_wrong_with_an_argument(
    servers: str, call: Call, kind: type[Exception], words: str
) -> None:
    with ottla.Admin(bootstrap_servers=servers) as admin, pytest.raises(kind, match=words):
        call(admin)


def test_values_of_configs_are_text() -> None:
    value: Any = True
    with pytest.raises(TypeError, match=r"the value of the config a\.b is text: write 'true'"):
        ottla.admin.AlterConfig("a.b", value)
    with pytest.raises(TypeError, match=r"the value of the config a\.b is text: write 'true'"):
        ottla.admin.NewTopic("t", configs={"a.b": value})


def test_an_offset_is_a_number_from_0_on() -> None:
    for wrong in (1.5, "5", True, None):
        value: Any = wrong
        with pytest.raises(TypeError, match="an offset is a whole number"):
            ottla.OffsetAndMetadata(value)
    with pytest.raises(ValueError, match="an offset cannot be negative: -5"):
        ottla.OffsetAndMetadata(-5)
    position = ottla.OffsetAndMetadata(5, "note")
    assert position == (5, "note", None)
    assert repr(position) == "OffsetAndMetadata(offset=5, metadata='note', leader_epoch=None)"
    assert pickle.loads(pickle.dumps(position)) == position


def test_offsets_of_a_group_with_members_stay_and_the_error_says_why(servers: str) -> None:
    with (
        ottla.Consumer(bootstrap_servers=servers, group_id="busy") as consumer,
        ottla.Admin(bootstrap_servers=servers) as admin,
    ):
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        with pytest.raises(KafkaError, match=r"The group has members.*stop its consumers first"):
            admin.alter_consumer_group_offsets("busy", {("t", 0): 0})


def test_a_second_init_of_transactions_says_so(servers: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, transactional_id="twice") as producer:
        producer.init_transactions()
        with pytest.raises(
            IllegalStateError, match=r"init_transactions\(\) is called once, and was"
        ):
            producer.init_transactions()
        producer.begin_transaction()
        producer.abort_transaction()


def test_what_a_serializer_refuses_is_named(servers: str) -> None:
    options: dict[str, Any] = {"key_serializer": "str", "value_serializer": "int"}
    with ottla.Producer(bootstrap_servers=servers, **options) as producer:
        words = "^the value of a record for t: str where int is expected"
        with pytest.raises(SerializationError, match=words):
            producer.send("t", "x")
        with pytest.raises(SerializationError, match=words):
            producer.send_many("t", [1, "x"])
        with pytest.raises(SerializationError, match=r"^the key of a record for t: int where str"):
            producer.send("t", 1, key=1)


def test_an_asyncio_client_refuses_other_loops(servers: str) -> None:
    async def on_one_loop() -> None:
        async with (
            ottla.aio.Producer(bootstrap_servers=servers) as producer,
            ottla.aio.Consumer(bootstrap_servers=servers) as consumer,
            ottla.aio.Admin(bootstrap_servers=servers) as admin,
        ):
            await producer.send("t", b"x")

            async def on_another() -> None:
                calls: list[Callable[[], Any]] = [
                    lambda: producer.send("t", b"x"),
                    lambda: producer.send("other", b"x"),
                    lambda: producer.send_many("t", [b"x"]),
                    producer.flush,
                    lambda: producer.partitions_for("t"),
                    producer.close,
                    lambda: consumer.assign([("t", 0)]),
                    admin.list_topics,
                ]
                for call in calls:
                    with pytest.raises(IllegalStateError, match="event loop on which it was made"):
                        await call()

            await asyncio.to_thread(asyncio.run, on_another())
            with pytest.raises(IllegalStateError, match="event loop on which it was made"):
                await asyncio.to_thread(consumer.assignment)
            await producer.flush()

    asyncio.run(on_one_loop())


def test_logs_name_the_client_and_tell_no_failure_where_there_is_none(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        def on_partitions_assigned(self, partitions: object) -> None:
            raise KeyError("mine")

    with ottla.Consumer(
        bootstrap_servers=f"127.0.0.1:1,{servers}", group_id="logs", client_id="kitchen"
    ) as consumer:
        caplog.set_level(logging.INFO)
        consumer.subscribe(["t"], Failing())
        with pytest.raises(KeyError):
            consumer.poll(20)
    assert "joined" in caplog.text
    assert "joining failed" not in caplog.text
    assert "Traceback" not in caplog.text, "it came out of poll"
    for record in caplog.records:
        if "Cannot connect" in record.getMessage():
            assert record.getMessage().startswith("kitchen: ")


def test_mappings_by_partition_may_have_either_kind_of_keys(servers: str) -> None:
    """mypy reads this too: it is what programs write."""
    with ottla.Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"x").result(10)
    options: dict[str, Any] = {"group_id": "typed", "auto_offset_reset": "earliest"}
    with ottla.Consumer(bootstrap_servers=servers, **options) as consumer:
        consumer.assign([("t", 0)])
        records = consumer.poll(10)
        consumer.commit(records.next_offsets)
        ends = consumer.end_offsets()
        consumer.commit(ends)
        consumer.commit({("t", 0): 1})
        times = {ottla.TopicPartition("t", 0): 0}
        assert consumer.offsets_for_times(times) == consumer.offsets_for_times({("t", 0): 0})
