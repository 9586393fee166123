"""How members of groups close that use confluent-kafka."""

from __future__ import annotations

import time

import confluent_kafka

SERVE_SECONDS = 0.1
ENOUGH_SECONDS = 2.0


def close_member(consumer: confluent_kafka.Consumer) -> None:
    """Leaves first: librdkafka's close() waits for ever if a rebalance begins at that very moment.

    Not for static members, which leave by this and should not.
    """
    try:
        consumer.unsubscribe()
        # What it has to tell of a rebalance until then comes behind its messages; there is no other to come.
        deadline = time.monotonic() + ENOUGH_SECONDS
        while consumer.poll(SERVE_SECONDS) is not None and time.monotonic() < deadline:
            pass
    finally:
        consumer.close()
