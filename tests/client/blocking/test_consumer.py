"""The blocking consumer: one thread uses it, its own thread keeps it in the group."""

from __future__ import annotations

import gc
import inspect
import signal
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from tests.client.blocking.conftest import Fill, forgotten, new_threads
from tests.faults.processes import free_port
from tests.waiting import in_time

from ottla import Admin, Broker, Consumer, TopicPartition, testing
from ottla.client.aio.consumer.consumer import Consumer as AsyncConsumer
from ottla.errors import ConfigError, IllegalStateError, WakeupError

WAIT_SECONDS = 20.0


@pytest.fixture
def make(broker: Broker) -> Any:
    """Makes consumers that are closed in the end."""
    made: list[Consumer] = []

    def consumer(group: str | None = None, **options: Any) -> Consumer:
        settings = {"auto_offset_reset": "earliest", "group_id": group, **options}
        made.append(Consumer(bootstrap_servers=broker.bootstrap_servers, **settings))
        return made[-1]

    yield consumer
    for each in made:
        each.close()


Make = Callable[..., Consumer]


def poll_until(consumer: Consumer, is_done: Callable[[], bool]) -> list[Any]:
    """Polls until something is so; the values that came."""
    deadline = time.monotonic() + WAIT_SECONDS
    values: list[Any] = []
    while not is_done():
        in_time(deadline, "it did not come about")
        values += [record.value for record in consumer.poll(0.1)]
    return values


def repeat_until(deadline: float, call: Callable[[], object]) -> None:
    while time.monotonic() < deadline:
        call()


class Listener:
    """Notes what it is told, where, and does something."""

    def __init__(self, do: Callable[[str, Sequence[TopicPartition]], object]) -> None:
        self.do = do
        self.threads: list[str] = []

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.threads.append(threading.current_thread().name)
        self.do("assigned", partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.threads.append(threading.current_thread().name)
        self.do("revoked", partitions)


def test_listeners_run_on_the_polling_thread_and_may_call_the_consumer(
    make: Make, fill: Fill
) -> None:
    topic = fill(10)
    consumer = make("g-" + topic)
    told: list[Any] = []

    def do(what: str, partitions: Sequence[TopicPartition]) -> None:
        if what == "assigned":
            consumer.seek(partitions[0], 7)
            told.append((what, consumer.assignment(), consumer.position(partitions[0])))
        else:
            consumer.commit({partitions[0]: 9})
            told.append((what, consumer.committed(partitions)[partitions[0]]))

    listener = Listener(do)
    consumer.subscribe([topic], listener=listener)
    values = poll_until(consumer, lambda: bool(told))
    values += poll_until(consumer, lambda: consumer.position((topic, 0)) == 10)
    consumer.unsubscribe()
    assert values == [b"7", b"8", b"9"]
    assert told[0] == ("assigned", {(topic, 0)}, 7)
    assert told[1][1].offset == 9
    assert set(listener.threads) == {threading.current_thread().name}


def test_a_listener_may_take_longer_than_the_session(
    ottla_test_broker: testing.Broker, ottla_topic: str
) -> None:
    broker, topic, group = ottla_test_broker, ottla_topic, "g-" + ottla_topic
    broker.seed({topic: {"partitions": 1, "records": [{"value": str(n)} for n in range(10)]}})
    broker.clock.freeze()
    consumer = Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=10_000,
        heartbeat_interval_ms=50,
    )
    members: list[list[str]] = []
    generations: list[int] = []

    def look(admin: Admin) -> None:
        described = admin.describe_consumer_groups([group])[group]
        members.append([member.member_id for member in described.members])

    def slow(what: str, partitions: Sequence[TopicPartition]) -> None:
        if what == "assigned":
            generations.append(consumer.group_metadata().generation_id)
            # Longer than the session: without heartbeats the member would be out at the last look.
            with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                for _ in range(3):
                    heard = len(broker.requests("Heartbeat"))
                    broker.wait_for(lambda: len(broker.requests("Heartbeat")) >= heard + 2)  # noqa: B023
                    broker.clock.advance("4s")
                    look(admin)

    consumer.subscribe([topic], listener=Listener(slow))
    poll_until(consumer, lambda: bool(members))
    metadata = consumer.group_metadata()
    assert members == [[metadata.member_id]] * 3
    poll_until(consumer, lambda: consumer.position((topic, 0)) == 10)
    consumer.commit()
    assert consumer.group_metadata() == metadata
    assert generations == [metadata.generation_id]
    consumer.close()


def test_an_exception_of_a_listener_comes_out_of_poll(make: Make, fill: Fill) -> None:
    topic = fill(1)
    consumer = make("g-" + topic)

    def fail(what: str, partitions: Sequence[TopicPartition]) -> None:
        if what == "assigned":
            raise LookupError("no such ledger")

    consumer.subscribe([topic], listener=Listener(fail))
    with pytest.raises(Exception, match="no such ledger"):
        poll_until(consumer, lambda: False)


def test_a_listener_that_polls_is_refused_and_no_record_is_lost(make: Make, fill: Fill) -> None:
    topic = fill(30)
    consumer = make("g-" + topic, max_poll_records=4)
    refused: list[str] = []

    def poll(what: str, partitions: Sequence[TopicPartition]) -> None:
        if what == "assigned":
            calls: list[Callable[[], object]] = [
                lambda: consumer.poll(0.1),
                lambda: consumer.poll_arrow(0.1),
                lambda: next(iter(consumer)),
            ]
            for call in calls:
                with pytest.raises(IllegalStateError) as caught:
                    call()
                refused.append(str(caught.value))

    consumer.subscribe([topic], listener=Listener(poll))
    values = [next(iter(consumer)).value for _ in range(2)]
    while len(values) < 30:
        values += [record.value for record in consumer.poll(5.0)]
    assert values == [b"%d" % number for number in range(30)]
    assert len(refused) == 3
    assert all("poll after it has returned" in each for each in refused)


def test_deserializers_run_on_the_polling_thread(make: Make, fill: Fill) -> None:
    topic = fill(3)
    threads: set[str] = set()

    def deserialize(data: bytes) -> int:
        threads.add(threading.current_thread().name)
        return int(data)

    consumer = make(value_deserializer=deserialize)
    consumer.assign([(topic, 0)])
    values = poll_until(consumer, lambda: consumer.position((topic, 0)) == 3)
    assert values == [0, 1, 2]
    assert threads == {threading.current_thread().name}


def test_wakeup_of_another_thread_ends_a_poll_that_waits(make: Make, fill: Fill) -> None:
    consumer = make()
    consumer.assign([(fill(), 0)])
    timer = threading.Timer(0.05, consumer.wakeup)
    timer.start()
    with pytest.raises(WakeupError):
        consumer.poll(WAIT_SECONDS)
    timer.join()
    assert not consumer.poll(0)


def test_wakeup_before_a_poll_ends_the_next_one(make: Make, fill: Fill) -> None:
    consumer = make()
    consumer.assign([(fill(), 0)])
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(WAIT_SECONDS)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no interval timers here")
def test_wakeup_in_a_signal_handler_ends_a_poll_that_waits(make: Make, fill: Fill) -> None:
    consumer = make()
    consumer.assign([(fill(), 0)])
    before = signal.signal(signal.SIGALRM, lambda number, frame: consumer.wakeup())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(WakeupError):
            consumer.poll(WAIT_SECONDS)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_another_thread_is_refused_while_one_polls(make: Make, fill: Fill) -> None:
    consumer = make()
    consumer.assign([(fill(), 0)])

    def poll() -> None:
        with suppress(WakeupError):
            consumer.poll(WAIT_SECONDS)

    thread = threading.Thread(target=poll)
    thread.start()
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        calls: list[Callable[[], object]] = [consumer.assignment, consumer.close]
        for call in calls:
            with pytest.raises(IllegalStateError, match="another task or thread"):
                repeat_until(deadline, call)
    finally:
        consumer.wakeup()
        thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    assert consumer.assignment(), "it was not closed"


def test_iteration_gives_record_after_record_and_commits_what_it_gave(
    make: Make, fill: Fill
) -> None:
    topic = fill(100)
    group = "g-" + topic
    consumer = make(group)
    consumer.subscribe([topic])
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 40:
            break
    assert seen == list(range(40))
    assert consumer.position((topic, 0)) == 40
    assert consumer.current_lag((topic, 0)) == 60
    consumer.commit()
    assert consumer.committed()[TopicPartition(topic, 0)].offset == 40  # type: ignore[union-attr]
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 60:
            break
    # Closing commits automatically: neither more nor less than was handed out.
    consumer.close()
    assert seen == list(range(60))
    successor = make(group)
    successor.subscribe([topic])
    assert next(iter(successor)).offset == 60


def test_an_exception_commits_nothing_that_may_not_have_been_handled(
    make: Make, fill: Fill
) -> None:
    topic = fill(10)

    def fail() -> None:
        with make("g-" + topic) as consumer:
            consumer.subscribe([topic])
            for _ in consumer:
                raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert make("g-" + topic).committed([(topic, 0)]) == {(topic, 0): None}


@pytest.mark.parametrize(
    ("patience_seconds", "limit_ms"), [(0.2, 60_000), (60.0, 200)], ids=["nobody there", "limit"]
)
def test_close_does_not_wait_long_for_a_broker_that_is_gone(
    patience_seconds: float,
    limit_ms: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(
        "ottla.client.aio.consumer.consumer._CLOSE_PATIENCE_SECONDS", patience_seconds
    )
    with Broker(listen=f"127.0.0.1:{free_port()}") as broker:
        consumer = Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            default_api_timeout_ms=limit_ms,
        )
        consumer.subscribe(["t"])
        poll_until(consumer, lambda: bool(consumer.assignment()))
        poll_until(consumer, lambda: consumer.position(("t", 0), 20) == 0)
    began = time.monotonic()
    consumer.close()
    assert time.monotonic() - began < 10
    assert "automatic commit at close failed" in caplog.text


def test_iteration_ends_when_the_consumer_is_closed(make: Make, fill: Fill) -> None:
    consumer = make()
    consumer.assign([(fill(100), 0)])
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 3:
            consumer.close()
    assert seen == [0, 1, 2]


def test_seek_within_an_iteration_counts_at_once(make: Make, fill: Fill) -> None:
    topic = fill(100)
    consumer = make()
    consumer.assign([(topic, 0)])
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == 2:
            consumer.seek((topic, 0), 98)
        if record.offset == 99:
            break
    assert seen == [0, 1, 2, 98, 99]


def test_wakeup_ends_an_iteration_that_waits(make: Make, fill: Fill) -> None:
    consumer = make()
    consumer.assign([(fill(), 0)])
    consumer.wakeup()
    with pytest.raises(WakeupError):
        next(iter(consumer))


def test_options_that_are_wrong_leave_no_thread_behind(broker: Broker) -> None:
    before = set(threading.enumerate())
    with pytest.raises(ConfigError):
        Consumer({"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "none"})
    with pytest.raises(ConfigError):
        Consumer(bootstrap_servers=broker.bootstrap_servers, interceptor_classes=[object()])
    assert new_threads(before, "consumer ") == []


def test_calls_on_a_closed_consumer_are_refused(make: Make, fill: Fill) -> None:
    consumer = make()
    consumer.assign([(fill(), 0)])
    consumer.close()
    consumer.close()
    consumer.wakeup()
    calls: list[Callable[[], object]] = [
        lambda: consumer.poll(0),
        consumer.assignment,
        consumer.commit,
        consumer.metrics,
        consumer.__enter__,
    ]
    for call in calls:
        with pytest.raises(IllegalStateError, match="is closed"):
            call()


def members_of(broker: Broker, group: str) -> int:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return len(admin.describe_consumer_groups([group])[group].members)


def test_a_consumer_that_is_forgotten_warns_leaves_its_group_and_commits_nothing(
    make: Make, fill: Fill, broker: Broker
) -> None:
    topic = fill(10)
    group = "g-" + topic
    told: list[str] = []

    def use_and_forget() -> threading.Thread:
        before = set(threading.enumerate())
        consumer = Consumer(
            bootstrap_servers=broker.bootstrap_servers, group_id=group, auto_offset_reset="earliest"
        )
        consumer.subscribe([topic], listener=Listener(lambda what, partitions: told.append(what)))
        poll_until(consumer, lambda: bool(consumer.assignment()))
        poll_until(consumer, lambda: consumer.position((topic, 0)) == 10)
        assert members_of(broker, group) == 1
        (thread,) = new_threads(before, "consumer ")
        return thread

    thread, told_of = forgotten(use_and_forget)
    assert told_of == [f"unclosed {thread.name}"]
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    assert members_of(broker, group) == 0
    assert told == ["assigned"]
    successor = make(group)
    assert successor.committed([(topic, 0)]) == {(topic, 0): None}


def test_the_face_has_every_method_of_the_asyncio_consumer_with_its_words() -> None:
    asynchronous = {
        name: method
        for name, method in inspect.getmembers(AsyncConsumer, callable)
        if not name.startswith("_")
    }
    for name, method in asynchronous.items():
        own = getattr(Consumer, name)
        assert inspect.getdoc(own), name
        expected = list(inspect.signature(method).parameters)
        assert list(inspect.signature(own).parameters) == expected, name
        assert not inspect.iscoroutinefunction(own), name


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_no_records_come_of_partitions_that_were_lost(
    make: Make, broker: Broker, fill: Fill, strategy: str
) -> None:
    """They may be another member's by now: the listener hears of the loss before the next record comes."""
    topic = fill(20)
    consumer = make(
        topic,
        partition_assignment_strategy=strategy,
        max_poll_interval_ms=1500,
        session_timeout_ms=2000,
        heartbeat_interval_ms=100,
        max_poll_records=5,
    )
    story: list[object] = []

    class Noting:
        def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
            story.append("lost")

    consumer.subscribe([topic], listener=Noting())
    while len(story) < 5:
        story += [record.offset for record in consumer.poll(0.1)]
    deadline = time.monotonic() + WAIT_SECONDS
    # Without a poll it leaves when max.poll.interval.ms is over; nothing has told the listener yet.
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        while admin.describe_groups([topic])[topic].members:
            in_time(deadline, "the consumer has not left")
            time.sleep(0.01)
    while len(story) < 11 and time.monotonic() < deadline:
        story += [record.offset for record in consumer.poll(0.1)]
    assert story == [0, 1, 2, 3, 4, "lost", 0, 1, 2, 3, 4]


def test_results_need_no_garbage_collector_to_go_away(make: Make, fill: Fill) -> None:
    pytest.importorskip("pyarrow")
    topic = fill(3)
    consumer = make()
    consumer.assign([(topic, 0)])
    gc.disable()
    try:
        for _ in range(3):
            consumer.seek_to_beginning()
            (batch,) = consumer.poll_arrow(5.0).batches
            assert batch.num_rows == 3
            gone = weakref.ref(batch)
            del batch
            # The loop drops the last reference to its task a moment later.
            deadline = time.monotonic() + 5
            while gone() is not None and time.monotonic() < deadline:
                time.sleep(0.001)
            assert gone() is None
    finally:
        gc.enable()
