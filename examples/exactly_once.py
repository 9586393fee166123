"""Exactly once: the written records and the consumer's positions are committed in one transaction.

    python examples/exactly_once.py HOST:PORT SOURCE SINK

The copier may be killed at any moment. The next one, with the same transactional id, ends the open transaction and
continues behind the last commit. Consumers of SINK use isolation.level=read_committed.
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
    """Copies the records of the source up to its end; `options` are those of the consumer."""
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
                # The transaction was aborted: go back to the committed positions and try again.
                rewind(consumer)


def rewind(consumer: ottla.Consumer) -> None:
    """Seeks to the committed positions of the group."""
    committed = consumer.committed()
    for partition in consumer.assignment():
        position = committed.get(partition)
        if position is None:
            consumer.seek_to_beginning([partition])
        else:
            consumer.seek(partition, position.offset)


def is_done(consumer: ottla.Consumer) -> bool:
    """Whether this consumer has partitions and has read all of them to the end."""
    mine = consumer.assignment()
    return bool(mine) and all(consumer.current_lag(partition) == 0 for partition in mine)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/exactly_once.py HOST:PORT SOURCE SINK")
    servers, source, sink = sys.argv[1:]
    copy(servers, source, sink, lambda value: value)
