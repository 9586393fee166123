"""Exactly once: what is read, what is written and how far the reading went are one transaction.

    python examples/exactly_once.py HOST:PORT SOURCE SINK

A copier that may be killed at any moment: its successor, with the same transactional id, ends what was left
open and goes on behind the last commit. Readers of SINK use isolation.level=read_committed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import ottla


def copy(
    bootstrap_servers: str,
    source: str,
    sink: str,
    transform: Callable[[bytes | None], bytes | None],
    name: str = "copier",
    **options: object,
) -> None:
    """Copy what is in the source, to its end; `options` are the consumer's."""
    reading = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": name,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,  # the transaction commits the positions
    }
    writing = {"bootstrap.servers": bootstrap_servers, "transactional.id": name}
    with ottla.Producer(writing) as producer, ottla.Consumer({**reading, **options}) as consumer:
        producer.init_transactions()
        consumer.subscribe([source])
        while not is_done(consumer):
            records = consumer.poll(1.0)
            if not records.next_offsets:
                continue
            try:
                with producer.transaction():
                    for record in records:
                        producer.send(sink, value=transform(record.value), key=record.key)
                    producer.send_offsets_to_transaction(
                        records.next_offsets, consumer.group_metadata()
                    )
            except ottla.AbortableError:
                # Aborted: go back to what is committed, and try again.
                rewind(consumer)


def rewind(consumer: ottla.Consumer) -> None:
    """Read again from where the group's committed positions are."""
    committed = consumer.committed()
    for partition in consumer.assignment():
        position = committed.get(partition)
        if position is None:
            consumer.seek_to_beginning([partition])
        else:
            consumer.seek(partition, position.offset)


def is_done(consumer: ottla.Consumer) -> bool:
    """Whether the group has given us partitions, and we have read them to their ends."""
    mine = consumer.assignment()
    return bool(mine) and all(consumer.current_lag(partition) == 0 for partition in mine)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/exactly_once.py HOST:PORT SOURCE SINK")
    servers, source, sink = sys.argv[1:]
    copy(servers, source, sink, lambda value: value)
