"""Arguments that are of the wrong kind: the error says which, and what to write."""

from __future__ import annotations

import asyncio
import copy
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
            lambda a: a.alter_configs({ottla.ConfigResource.topic("t"): {"retention.ms": 5}}),
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
        ottla.AlterConfig("a.b", value)
    with pytest.raises(TypeError, match=r"the value of the config a\.b is text: write 'true'"):
        ottla.NewTopic("t", configs={"a.b": value})


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
