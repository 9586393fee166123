"""How members of groups close that use confluent-kafka."""

from __future__ import annotations

import confluent_kafka

SERVE_SECONDS = 0.1


def close_member(consumer: confluent_kafka.Consumer) -> None:
    """Leaves first: librdkafka's close() waits for ever if a rebalance begins at that very moment."""
    consumer.unsubscribe()
    # What it has to tell of a rebalance until then is told now; there is no other to come.
    consumer.poll(SERVE_SECONDS)
    consumer.close()
