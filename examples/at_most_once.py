"""At most once: a record may be lost, and is never handled twice.

    python examples/at_most_once.py HOST:PORT TOPIC GROUP

The program commits the position before it handles the records. A crash in between loses them: the next consumer
begins behind them.
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
    """Handles the records of the topic up to its end; `options` are those of the consumer."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    with ottla.Consumer({**settings, **options}) as consumer:
        consumer.subscribe([topic])
        while not is_done(consumer):
            records = consumer.poll(1.0)
            consumer.commit()
            for record in records:
                handle(record.value)


def is_done(consumer: ottla.Consumer) -> bool:
    """Whether this consumer has partitions and has read all of them to the end."""
    mine = consumer.assignment()
    return bool(mine) and all(consumer.current_lag(partition) == 0 for partition in mine)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/at_most_once.py HOST:PORT TOPIC GROUP")
    servers, topic, group = sys.argv[1:]
    consume(servers, topic, group, print)
