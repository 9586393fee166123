"""Polls that read on the program's thread what the loop has lent: the program sees no difference but the time."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from tests.client.blocking.conftest import Fill
from tests.client.blocking.programs import run_program
from tests.waiting import in_time

from ottla import Broker, Consumer, TopicPartition
from ottla.client.blocking import consumer as blocking_consumer
from ottla.errors import DeserializationError, IllegalStateError, WakeupError

WAIT_SECONDS = 20.0
HOUR = 3600.0


@pytest.fixture(autouse=True)
def long_loans(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it does not depend on the machine which polls ask the loop."""
    monkeypatch.setattr(blocking_consumer, "LOAN_SECONDS", HOUR)


class Calls:
    """Counts the calls of a consumer that its loop has served."""

    def __init__(self, consumer: Consumer) -> None:
        self.count = 0
        run = consumer._thread.run

        def counted(*args: Any, **options: Any) -> Any:
            self.count += 1
            return run(*args, **options)

        consumer._thread.run = counted  # type: ignore[method-assign]


@pytest.fixture
def reading(broker: Broker, fill: Fill) -> Iterator[Callable[..., tuple[Consumer, str]]]:
    """Makes consumers of a topic with 100 records in a partition, one poll of which has returned 10 records."""
    made: list[Consumer] = []

    def make(partitions: int = 1, **options: Any) -> tuple[Consumer, str]:
        topic = fill(100, partitions)
        consumer = Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            **{"auto_offset_reset": "earliest", "max_poll_records": 10, **options},
        )
        made.append(consumer)
        consumer.assign([(topic, each) for each in range(partitions)])
        deadline = time.monotonic() + WAIT_SECONDS
        while not consumer.poll(1.0):
            in_time(deadline, "no records came")
        return consumer, topic

    yield make
    for each in made:
        each.close()


def values(consumer: Consumer) -> list[int]:
    return [int(record.value) for record in consumer.poll(1.0)]


def test_polls_do_not_ask_the_loop_while_records_are_lent(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    consumer, _ = reading()
    calls = Calls(consumer)
    seen = [value for _ in range(9) for value in values(consumer)]
    assert seen == list(range(10, 100))
    # One at most, because the answer to the next fetch has come.
    assert calls.count <= 1


def test_positions_and_lags_are_those_of_the_last_poll(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    consumer, topic = reading()
    assert values(consumer) == list(range(10, 20))
    lag = consumer.metrics()[f"records-lag{{topic={topic},partition=0}}"]
    assert lag == 80
    assert consumer.position((topic, 0)) == 20
    assert consumer.current_lag((topic, 0)) == 80


def test_a_seek_and_a_pause_hold_for_the_next_poll(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    consumer, topic = reading()
    assert values(consumer) == list(range(10, 20))
    consumer.seek((topic, 0), 95)
    assert values(consumer) == list(range(95, 100))
    consumer.seek((topic, 0), 0)
    assert values(consumer) == list(range(10))
    consumer.pause()
    assert not consumer.poll(0.05)
    consumer.resume()
    assert values(consumer) == list(range(10, 20))


def test_a_wakeup_ends_the_next_poll_although_records_are_lent(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    consumer, _ = reading()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(1.0)
    assert values(consumer) == list(range(10, 20))


def test_commits_are_of_what_polls_have_returned(
    reading: Callable[..., tuple[Consumer, str]], ottla_topic_name: Callable[[], str]
) -> None:
    consumer, topic = reading(group_id=ottla_topic_name())
    assert values(consumer) == list(range(10, 20))
    consumer.commit()
    found = consumer.committed()[TopicPartition(topic, 0)]
    assert found is not None
    assert found.offset == 20


def test_iteration_and_polls_may_alternate(reading: Callable[..., tuple[Consumer, str]]) -> None:
    consumer, topic = reading()
    seen: list[int] = []
    while len(seen) < 90:
        for record in consumer:
            seen.append(int(record.value))
            if len(seen) % 13 == 0 or len(seen) == 90:
                break
        assert consumer.position((topic, 0)) == 10 + len(seen)
        if len(seen) < 80:
            seen += values(consumer)
    assert seen == list(range(10, 100))


def test_iteration_does_not_ask_the_loop_while_records_are_lent(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    consumer, _ = reading()
    calls = Calls(consumer)
    seen = []
    for record in consumer:
        seen.append(int(record.value))
        if len(seen) == 90:
            break
    assert seen == list(range(10, 100))
    assert calls.count <= 1


def test_records_of_several_partitions_come_once_each(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    consumer, topic = reading(3, max_poll_records=7)
    consumer.seek_to_beginning()
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(map(len, seen.values())) < 300:
        in_time(deadline, "records are missing")
        records = consumer.poll(1.0)
        assert len(records) <= 7
        for record in records:
            seen[record.partition].append(int(record.value))
        for partition, behind in records.next_offsets.items():
            assert consumer.position(partition) == behind.offset
    assert seen == {each: list(range(100)) for each in range(3)}
    assert all(consumer.position((topic, each)) == 100 for each in range(3))


def test_a_closed_consumer_has_nothing_left(reading: Callable[..., tuple[Consumer, str]]) -> None:
    consumer, _ = reading()
    consumer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll(1.0)


def test_a_wrong_timeout_is_refused_although_records_are_lent(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    consumer, _ = reading()
    with pytest.raises(TypeError, match="a timeout is a number"):
        consumer.poll("1")  # type: ignore[arg-type]


def test_deserializers_of_the_program_read_what_is_lent(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    threads: set[int] = set()

    def deserialize(data: bytes) -> int:
        threads.add(threading.get_ident())
        return int(data) + 1000

    consumer, _ = reading(value_deserializer=deserialize)
    calls = Calls(consumer)
    seen = [value for _ in range(9) for value in values(consumer)]
    assert seen == list(range(1010, 1100))
    assert calls.count <= 1
    assert threads == {threading.get_ident()}


def test_a_deserializer_may_call_the_consumer(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    made: list[tuple[Consumer, str]] = []
    positions: list[int] = []

    def deserialize(data: bytes) -> int:
        if made and int(data) % 7 == 0:
            consumer, topic = made[0]
            positions.append(consumer.position((topic, 0)))
        return int(data)

    made.append(reading(value_deserializer=deserialize, fetch_max_wait_ms=5))
    consumer, topic = made[0]
    seen: list[int] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(seen) < 90:
        in_time(deadline, len(seen))
        seen += values(consumer)
        assert consumer.position((topic, 0)) == 10 + len(seen)
    assert seen == list(range(10, 100))
    assert positions == sorted(positions)


def test_a_deserializer_may_seek(reading: Callable[..., tuple[Consumer, str]]) -> None:
    made: list[tuple[Consumer, str]] = []

    def deserialize(data: bytes) -> int:
        if made and int(data) == 25:
            consumer, topic = made[0]
            consumer.seek((topic, 0), 90)
        return int(data)

    made.append(reading(value_deserializer=deserialize, fetch_max_wait_ms=5))
    consumer, topic = made[0]
    seen: list[int] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while consumer.position((topic, 0)) < 100:
        in_time(deadline, seen)
        seen += values(consumer)
    assert seen == [*range(10, 20), *range(90, 100)]


@pytest.mark.parametrize("is_lent", [True, False])
@pytest.mark.parametrize("iterates", [False, True])
def test_a_deserializer_that_polls_is_refused_and_no_record_is_lost(
    reading: Callable[..., tuple[Consumer, str]],
    monkeypatch: pytest.MonkeyPatch,
    is_lent: bool,
    iterates: bool,
) -> None:
    if not is_lent:
        monkeypatch.setattr(blocking_consumer, "LOAN_SECONDS", 0.0)
    made: list[Consumer] = []
    refused: list[str] = []

    def deserialize(data: bytes) -> int:
        if made and int(data) % 7 == 0:
            with pytest.raises(IllegalStateError) as caught:
                made[0].poll(0.1)
            with pytest.raises(IllegalStateError):
                next(iter(made[0]))
            refused.append(str(caught.value))
        return int(data)

    consumer, _ = reading(3, value_deserializer=deserialize, max_poll_records=4)
    consumer.seek_to_beginning()
    made.append(consumer)
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(map(len, seen.values())) < 300:
        in_time(deadline, "records are missing")
        for record in [next(iter(consumer))] if iterates else consumer.poll(1.0):
            seen[record.partition].append(int(record.value))
    assert seen == {each: list(range(100)) for each in range(3)}
    assert "this poll was called by code that another poll is running" in refused[0]


def test_a_second_thread_does_not_wait_for_the_deserializer_of_the_first(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    is_reading, may_go_on = threading.Event(), threading.Event()

    def deserialize(data: bytes) -> int:
        if int(data) == 15:
            is_reading.set()
            assert may_go_on.wait(WAIT_SECONDS)
        return int(data)

    consumer, _ = reading(value_deserializer=deserialize)
    seen: list[list[int]] = []
    thread = threading.Thread(target=lambda: seen.append(values(consumer)))
    thread.start()
    try:
        assert is_reading.wait(WAIT_SECONDS)
        with pytest.raises(IllegalStateError, match="in use by another task or thread"):
            consumer.poll(1.0)
    finally:
        may_go_on.set()
        thread.join(WAIT_SECONDS)
    assert seen == [list(range(10, 20))]
    assert values(consumer) == list(range(20, 30))


def test_a_record_that_cannot_be_deserialized_stays_in_line(
    reading: Callable[..., tuple[Consumer, str]],
) -> None:
    def deserialize(data: bytes) -> int:
        if data == b"25":
            raise ValueError("no such number")
        return int(data)

    consumer, topic = reading(value_deserializer=deserialize)
    assert values(consumer) == list(range(10, 20))
    assert values(consumer) == list(range(20, 25))
    for _ in range(2):
        with pytest.raises(DeserializationError, match="no such number"):
            consumer.poll(1.0)
    consumer.seek((topic, 0), 26)
    assert values(consumer) == list(range(26, 36))


def test_another_thread_may_go_on(reading: Callable[..., tuple[Consumer, str]]) -> None:
    consumer, _ = reading()
    seen: list[list[int]] = []
    thread = threading.Thread(target=lambda: seen.append(values(consumer)))
    thread.start()
    thread.join(WAIT_SECONDS)
    seen.append(values(consumer))
    assert seen == [list(range(10, 20)), list(range(20, 30))]


def test_a_forked_child_gets_no_lent_records(broker: Broker, fill: Fill) -> None:
    topic = fill(100)
    program = """
        import os, sys
        import ottla
        from ottla.client.blocking import consumer as module
        module.LOAN_SECONDS = 3600
        options = {"auto.offset.reset": "earliest", "max.poll.records": 10}
        with ottla.Consumer(options, bootstrap_servers=sys.argv[1]) as consumer:
            consumer.assign([(sys.argv[2], 0)])
            while not consumer.poll(1):
                pass
            child = os.fork()
            if not child:
                try:
                    consumer.poll(1)
                except ottla.errors.IllegalStateError:
                    os._exit(3)
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(consumer.poll(1)))
        """
    assert run_program(program, broker.bootstrap_servers, topic) == ["3 10"]


@contextmanager
def interrupts(seed: int) -> Iterator[Callable[[], int]]:
    """Raises KeyboardInterrupt again and again while records are taken; says how often."""
    chosen = random.Random(seed)
    raised = 0
    is_over = False
    names = (
        "take",
        "_take",
        "advance",
        "_take_lent",
        "_next_part",
        "polled_lent",
        "_begin_iteration",
    )

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        if is_over:
            return
        signal.setitimer(signal.ITIMER_REAL, chosen.uniform(0.00002, 0.0003))
        # Not in the program's own code, nor where polls end: what is lost there is not the client's fault.
        if frame is not None and frame.f_code.co_name in names:
            raised += 1
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        yield lambda: raised
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no interval timers here")
@pytest.mark.parametrize("iterates", [False, True])
def test_interrupted_polls_lose_nothing_that_is_lent(
    reading: Callable[..., tuple[Consumer, str]], iterates: bool
) -> None:
    consumer, topic = reading(max_poll_records=2, fetch_max_wait_ms=5)
    raised = seed = 0
    # A quick machine is interrupted less often.
    while seed < 15 or (raised <= 5 and seed < 300):
        consumer.seek((topic, 0), 0)
        seen: list[int] = []
        deadline = time.monotonic() + WAIT_SECONDS
        with interrupts(seed) as count:
            while len(seen) < 100:
                in_time(deadline, (len(seen), count()))
                try:
                    records = [next(iter(consumer))] if iterates else list(consumer.poll(0.5))
                except KeyboardInterrupt:
                    continue
                seen += [int(record.value) for record in records]
            raised += count()
        assert seen == list(range(100))
        seed += 1
    assert raised > 5
