"""Results and positions in one SQLite transaction: each record counts exactly once, also after crashes.

    python examples/sqlite_offsets.py HOST:PORT TOPIC DATABASE

Counts the records of each key. The group assigns the partitions. The positions are in the database, beside the counts,
and are never committed to the cluster. PostgreSQL and others work the same way.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Sequence

import ottla

SCHEMA = """
CREATE TABLE IF NOT EXISTS counts (key TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS positions (
    topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, partition)
);
"""
ADD = """
INSERT INTO counts VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET count = count + excluded.count
"""
# Updates nothing if another consumer has counted these records: one of the two has lost the partition and has not
# noticed yet.
MOVE = """
UPDATE positions SET next_offset = ? WHERE topic = ? AND partition = ? AND next_offset <= ?
"""


class CountedError(Exception):
    """Another consumer has counted these records."""


class Ledger:
    """The counts, and the positions up to which records were counted."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path)
        self.database.executescript(SCHEMA)

    def position(self, partition: ottla.TopicPartition) -> int:
        """The next offset to count."""
        with self.database:
            self.database.execute("INSERT OR IGNORE INTO positions VALUES (?, ?, 0)", partition)
        found = self.database.execute(
            "SELECT next_offset FROM positions WHERE topic = ? AND partition = ?", partition
        )
        return int(found.fetchone()[0])

    def count(
        self,
        partition: ottla.TopicPartition,
        records: Sequence[ottla.ConsumerRecord],
        next_offset: int,
    ) -> None:
        """Counts records and moves the position behind them, in one transaction."""
        counts = Counter((record.key or b"").decode() for record in records)
        with self.database:
            self.database.executemany(ADD, counts.items())
            moved = self.database.execute(MOVE, (next_offset, *partition, records[0].offset))
            if moved.rowcount == 0:
                raise CountedError(str(partition))

    def counts(self) -> dict[str, int]:
        return dict(self.database.execute("SELECT key, count FROM counts"))


class SeekToLedger:
    """Seeks to the positions of the ledger when the group assigns partitions."""

    def __init__(self, consumer: ottla.Consumer, ledger: Ledger) -> None:
        self.consumer = consumer
        self.ledger = ledger

    def on_partitions_assigned(self, partitions: Sequence[ottla.TopicPartition]) -> None:
        for partition in partitions:
            self.consumer.seek(partition, self.ledger.position(partition))


def consume(
    bootstrap_servers: str, topic: str, ledger: Ledger, group: str = "ledger", **options: object
) -> None:
    """Counts the records of the topic up to its end; `options` are those of the consumer."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": False,  # the positions are in the database
        "isolation.level": "read_committed",
    }
    with ottla.Consumer({**settings, **options}) as consumer:
        consumer.subscribe([topic], listener=SeekToLedger(consumer, ledger))
        while not is_done(consumer):
            records = consumer.poll(1.0)
            for partition in records.partitions():
                next_offset = records.next_offsets[partition].offset
                try:
                    ledger.count(partition, records.records(partition), next_offset)
                except CountedError:
                    consumer.seek(partition, ledger.position(partition))


def is_done(consumer: ottla.Consumer) -> bool:
    """Whether this consumer has partitions and has read all of them to the end."""
    mine = consumer.assignment()
    return bool(mine) and all(consumer.current_lag(partition) == 0 for partition in mine)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/sqlite_offsets.py HOST:PORT TOPIC DATABASE")
    servers, topic, path = sys.argv[1:]
    ledger = Ledger(path)
    consume(servers, topic, ledger)
    for key, count in sorted(ledger.counts().items()):
        print(key, count)
