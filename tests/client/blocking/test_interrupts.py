"""Interrupts at any moment neither lose records nor repeat them."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import pytest
from tests.client.blocking.conftest import Fill
from tests.waiting import in_time

from ottla import Broker, Consumer, TopicPartition

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="there are no interval timers here"
)

RECORDS = 300
WAIT_SECONDS = 20.0
WAITING = ("wait", "_next", "slices")


@contextmanager
def interrupts(seed: int) -> Iterator[Callable[[], int]]:
    """Raises KeyboardInterrupt every few milliseconds, wherever the program waits for a client; says how often."""
    chosen = random.Random(seed)
    raised = 0
    is_over = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        if is_over:  # a late one: the next timer is somebody else's
            return
        signal.setitimer(signal.ITIMER_REAL, chosen.uniform(0.0005, 0.004))
        # Not in the program's own code: what it loses there is not the client's fault.
        if frame is not None and frame.f_code.co_name in WAITING:
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


@pytest.mark.parametrize("seed", [2])
def test_interrupted_polls_give_every_record_once(broker: Broker, fill: Fill, seed: int) -> None:
    topic = fill(RECORDS)
    seen: list[bytes] = []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g-" + topic,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=10,
        max_poll_records=7,
    ) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + WAIT_SECONDS
        with interrupts(seed) as count:
            while len(seen) < RECORDS or count() <= 10:
                in_time(deadline, (len(seen), count()))
                try:
                    records = consumer.poll(0.5)
                except KeyboardInterrupt:
                    continue
                seen += [record.value for record in records]
        assert seen == [b"%d" % number for number in range(RECORDS)]
        consumer.commit()
        found = consumer.committed()[TopicPartition(topic, 0)]
        assert found is not None
        assert found.offset == RECORDS


def test_a_listener_that_is_interrupted_is_called_again(broker: Broker, fill: Fill) -> None:
    topic = fill(5)
    calls: list[str] = []

    class Interrupted:
        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            calls.append(threading.current_thread().name)
            if len(calls) == 1:
                raise KeyboardInterrupt

    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g-" + topic,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe([topic], listener=Interrupted())
        with pytest.raises(KeyboardInterrupt):
            poll_all(consumer, 5)
        values = poll_all(consumer, 5)
    assert values == [b"0", b"1", b"2", b"3", b"4"]
    assert len(calls) == 2


def poll_all(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(values) < count and time.monotonic() < deadline:
        values += [record.value for record in consumer.poll(0.5)]
    return values
