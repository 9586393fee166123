"""Ctrl-C in the middle of a send: the record is accepted or not, no memory is lost, and the producer goes on."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import pyarrow as pa
import pytest
from tests.waiting import in_time

from ottla import Broker, Consumer, Producer, TopicPartition
from ottla.client.state.producer import accumulator

WAIT_SECONDS: Final = 20.0
RECORDS: Final = 3
SOURCES: Final = accumulator.__file__.partition("/state/")[0]
# More than any of the sends has.
MOST_PLACES: Final = 2_000
SENDS: Final[dict[str, Callable[[Producer, str, bytes], object]]] = {
    "send": lambda producer, topic, value: producer.send(topic, value),
    "send_many": lambda producer, topic, value: producer.send_many(topic, [value] * RECORDS),
    "send_arrow": lambda producer, topic, value: producer.send_arrow(
        topic, pa.table({"value": pa.array([value] * RECORDS)})
    ),
}


class Interrupted(KeyboardInterrupt):
    """Of this test."""


def interrupt_at(place: int, function: Callable[[], object]) -> bool:
    """Calls a function, and interrupts it at a place where Python would; False if it has fewer places.

    Python looks for signals when a function begins, and when one of C has returned.
    """
    passed = 0

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal passed
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(SOURCES):
            passed += 1
            if passed == place:
                raise Interrupted

    sys.setprofile(look)
    try:
        function()
    except Interrupted:
        return True
    finally:
        sys.setprofile(None)
    return passed >= place


def flush_in_time(producer: Producer) -> None:
    flushing = threading.Thread(target=producer.flush, daemon=True)
    flushing.start()
    flushing.join(WAIT_SECONDS)
    assert not flushing.is_alive(), "a batch is never sent"


def free_bytes(producer: Producer) -> float:
    return float(producer.metrics()["buffer-available-bytes"])


@pytest.mark.parametrize("name", SENDS)
def test_ctrl_c_in_a_send_loses_no_memory_and_no_batch(broker: Broker, name: str) -> None:
    """Each place at which the first record of a batch can be interrupted, one after the other."""
    topic, send = f"interrupted-{name}", SENDS[name]
    sent: list[bytes] = []
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
        producer.send(topic, b"first", partition=0).result(WAIT_SECONDS)
        send(producer, topic, b"warm")  # what is imported at the first use
        flush_in_time(producer)
        memory_bytes = free_bytes(producer)
        for place in range(1, MOST_PLACES):
            value = b"%d" % place
            if not interrupt_at(place, lambda value=value: send(producer, topic, value)):  # type: ignore[misc]
                break
            sent.append(value)
            flush_in_time(producer)
            deadline = time.monotonic() + WAIT_SECONDS
            while free_bytes(producer) != memory_bytes:
                in_time(
                    deadline, f"{memory_bytes - free_bytes(producer)} bytes are lost at {place}"
                )
                time.sleep(0.001)
        else:
            raise AssertionError("a send has no end")
        assert len(sent) > 20
        send(producer, topic, b"last")
    counts = values_of(broker, topic)
    expected = 1 if name == "send" else RECORDS
    assert counts[b"last"] == expected
    assert {counts[value] for value in sent} <= {0, expected}, "a part of a small call was sent"


def values_of(broker: Broker, topic: str) -> Counter[bytes]:
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic, 0)])
        end = consumer.end_offsets()[TopicPartition(topic, 0)]
        found: Counter[bytes] = Counter()
        deadline = time.monotonic() + WAIT_SECONDS
        while consumer.position((topic, 0)) < end:
            in_time(deadline, "the records cannot be read")
            found.update(record.value or b"" for record in consumer.poll(0.5))
    return found
