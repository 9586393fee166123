"""At least once: no record is lost, and one may be handled twice.

    python examples/at_least_once.py HOST:PORT TOPIC GROUP

The position is committed after the records were handled. A crash in between has them handled again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import ottla


def consume(
    bootstrap_servers: str,
    topic: str,
    group: str,
    handle: Callable[[bytes | None], None],
    **options: object,
) -> None:
    """Handle what is in the topic, until nothing has come for a second; `options` are the consumer's."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    with ottla.Consumer(settings, **options) as consumer:
        consumer.subscribe([topic])
        while (
            records := consumer.poll(10.0 if not consumer.assignment() else 1.0)
        ) or records.next_offsets:
            for record in records:
                handle(record.value)
            consumer.commit()


if __name__ == "__main__":
    consume(*sys.argv[1:4], print)
