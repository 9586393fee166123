"""Results and positions in one Redis transaction: each record counts exactly once, also after crashes.

    python examples/redis_offsets.py HOST:PORT TOPIC REDIS_HOST:PORT

Counts the records of each key in the hash `counts`. The hash `positions` has the next offset of each partition. The
result is as durable as Redis is configured to be (appendfsync). Needs the package redis.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import redis

import ottla


def position(server: redis.Redis, partition: ottla.TopicPartition) -> int:
    """The next offset to count."""
    return int(server.hget("positions", str(partition)) or 0)


def count(
    server: redis.Redis,
    partition: ottla.TopicPartition,
    records: Sequence[ottla.ConsumerRecord],
    next_offset: int,
) -> None:
    """Counts records and moves the position behind them, in one transaction."""
    counts = Counter(record.key or b"" for record in records)
    with server.pipeline(transaction=True) as pipeline:
        # If another consumer moves a position after this, the transaction fails with a WatchError.
        pipeline.watch("positions")
        if int(pipeline.hget("positions", str(partition)) or 0) > records[0].offset:
            raise redis.WatchError(f"another consumer has counted these records of {partition}")
        pipeline.multi()
        for key, number in counts.items():
            pipeline.hincrby("counts", key, number)
        pipeline.hset("positions", str(partition), next_offset)
        pipeline.execute()


def consume(
    bootstrap_servers: str,
    topic: str,
    server: redis.Redis,
    group: str = "counter",
    **options: object,
) -> None:
    """Counts the records of the topic up to its end; `options` are those of the consumer."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": False,  # the positions are in Redis
        "isolation.level": "read_committed",
    }
    with ottla.Consumer({**settings, **options}) as consumer:

        class SeekToRedis:
            def on_partitions_assigned(self, partitions: Sequence[ottla.TopicPartition]) -> None:
                for partition in partitions:
                    consumer.seek(partition, position(server, partition))

        consumer.subscribe([topic], listener=SeekToRedis())
        while not is_done(consumer):
            records = consumer.poll(1.0)
            for partition in records.partitions():
                next_offset = records.next_offsets[partition].offset
                try:
                    count(server, partition, records.records(partition), next_offset)
                except redis.WatchError:
                    # One of the two consumers has lost the partition and has not noticed yet.
                    consumer.seek(partition, position(server, partition))


def is_done(consumer: ottla.Consumer) -> bool:
    """Whether this consumer has partitions and has read all of them to the end."""
    mine = consumer.assignment()
    return bool(mine) and all(consumer.current_lag(partition) == 0 for partition in mine)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/redis_offsets.py HOST:PORT TOPIC REDIS_HOST:PORT")
    servers, topic, where = sys.argv[1:]
    host, _, port = where.rpartition(":")
    with redis.Redis(host=host, port=int(port)) as server:
        consume(servers, topic, server)
        for key, number in sorted(server.hgetall("counts").items()):
            print(key.decode(), int(number))
