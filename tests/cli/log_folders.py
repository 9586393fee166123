"""A data folder with every kind of file in it."""

from __future__ import annotations

from pathlib import Path

from ottla import Admin, Broker, Consumer, Producer
from ottla.admin import NewTopic
from ottla.config.option_types import CompressionTypeWord

TOPIC = "orders"
CODECS: tuple[CompressionTypeWord, ...] = ("none", "gzip", "snappy", "lz4", "zstd")


def write_folder(data: Path) -> None:
    """Segments of all codecs, transactions with both ends and without one, and a group of each protocol."""
    with Broker(data_dir=data) as broker:
        servers = broker.bootstrap_servers
        configs = {"segment.bytes": "3000", "index.interval.bytes": "200"}
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(TOPIC, num_partitions=1, configs=configs)])
        for codec in CODECS:
            with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
                for number in range(12):
                    key = b"key-%d" % number if number % 3 else None
                    headers = [("trace", b"%d" % number), ("empty", None)]
                    producer.send(TOPIC, b"\xfe value", key=key, headers=headers).result()
                producer.send_many(TOPIC, [b"many-%d" % number for number in range(30)]).result()
        _transactions(servers)


def _transactions(servers: str) -> None:
    with Producer(bootstrap_servers=servers, transactional_id="tx") as producer:
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction) * 2:
            producer.begin_transaction()
            producer.send(TOPIC, b"transactional").result()
            producer.send_offsets_to_transaction({(TOPIC, 0): 5}, "group")
            end()
    for protocol in ("classic", "consumer"):
        with Consumer(
            bootstrap_servers=servers,
            group_id="group" if protocol == "classic" else "new-group",
            group_protocol=protocol,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe([TOPIC])
            while not consumer.poll(1.0):
                pass
            consumer.commit()
