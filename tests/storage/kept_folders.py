"""Small data folders that every later version has to open, and the program that writes them.

Each version of the formats (`storage/local/folder/format_version.py`) has two in `data_folders`: one that a broker left
when it was stopped, and one that it left when it was killed. They are written once, by the version itself:

    python -m tests.storage.kept_folders --source src --version 2

`--source` is the `src` folder of the Ottla that writes; the clients are confluent-kafka in any case, but for quotas.
What is written is always the same but for ids, ports and the times of commits.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import confluent_kafka
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.storage.worker_stores import await_unlocked
from tests.waiting import in_time

import ottla
from ottla.admin import QuotaEntity

FOLDERS: Final = Path(__file__).parent / "data_folders"
HOW_IT_ENDED: Final = ("stopped", "killed")
SECONDS: Final = 30.0
TIMESTAMP_MS: Final = 1_700_000_000_000  # of the first record; each later one has a second more

PARTITIONS: Final = 2
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ORDERS_PER_CODEC: Final = 12
ORDERS_PER_PARTITION: Final = len(CODECS) * ORDERS_PER_CODEC
TRIMMED_TO: Final = 10  # in partition 1 of orders
PRICES: Final = {f"dish-{number}": f"price 19 of dish-{number}" for number in range(4)}
PRICE_CHANGES: Final = 20
# dish-4 was deleted from the menu
COMMITTED: Final = [f"paid {number}" for number in range(20)]
ABORTED: Final = [f"refused {number}" for number in range(10)]
OPEN: Final = [f"unfinished {number}" for number in range(5)]
BEHIND_OPEN: Final = [f"tip {number}" for number in range(3)]
WAITERS_OFFSETS: Final = {0: ORDERS_PER_PARTITION, 1: ORDERS_PER_PARTITION}
KITCHEN_OFFSETS: Final = {0: (12, "shift 1"), 1: (34, "")}
TILL_OFFSET: Final = 7  # committed in a transaction; the open one would set another
TILLS: Final = ("till-1", "till-2")  # transactional ids; the second one's transaction is open

OPTIONS: Final = {
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "log.cleaner.backoff.ms": 100,
    "group.initial.rebalance.delay.ms": 0,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
USER, PASSWORD, SALT = "till", "till-secret", b"0123456789abcdefghijklmnop"
READER: Final = "User:CN=kitchen, O=Café"
CLIENT_ID, ADDRESS = "a/b=c", "10.1.2.3"
BYTE_RATE, CONNECTION_RATE = 1e6, 7.0
TOPICS: Final = {
    "orders": (
        PARTITIONS,
        {"segment.bytes": "1024", "index.interval.bytes": "128", "retention.ms": "-1"},
    ),
    "payments": (1, {"segment.bytes": "1024", "retention.ms": "-1"}),
    "prices": (
        1,
        {"segment.bytes": "512", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    ),
}


class KeptFolder(NamedTuple):
    """A data folder that was unpacked."""

    path: Path
    written_at_ms: int


def archive_of(version: int, how_it_ended: str) -> Path:
    """Where a kept folder is."""
    return FOLDERS / f"v{version}-{how_it_ended}.tar.gz"


def unpack(archive: Path, target: Path) -> KeptFolder:
    """A data folder as it was left."""
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="data")
    written = json.loads((target / "written.json").read_text())
    return KeptFolder(target / "data", written["written_at_ms"])


def order_value(partition: int, offset: int) -> str:
    return f"order {offset} of table {partition}: {'espresso ' * 8}"


def write_folder(data: Path, source: Path, how_it_ended: str, *options: str) -> KeptFolder:
    """Lets a broker write a data folder, and stops or kills it."""
    command = [sys.executable, "-m", "ottla", "serve", f"--data={data}", *options]
    # Logins have a secret in the catalog.
    command += [f"--listen={name}://127.0.0.1:0" for name in ("PLAINTEXT", "SASL_PLAINTEXT")]
    command += [f"--set={name}={value}" for name, value in OPTIONS.items()]
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=source
    ) as broker:
        try:
            assert broker.stdout is not None
            address = broker.stdout.readline().removeprefix("listening on ").strip()
            assert address, "the broker did not start"
            # The transaction stays open only as long as its producer is there.
            producer = _write_all(address, data)
            written_at_ms = time.time_ns() // 1_000_000
            broker.send_signal(signal.SIGTERM if how_it_ended == "stopped" else signal.SIGKILL)
            broker.wait(SECONDS)
            await_unlocked(data)
            del producer
        finally:
            broker.kill()
    return KeptFolder(data, written_at_ms)


def _write_all(address: str, data: Path) -> confluent_kafka.Producer:
    admin = AdminClient({"bootstrap.servers": address})
    created = admin.create_topics(
        [NewTopic(name, count, 1, config=config) for name, (count, config) in TOPICS.items()]
    )
    for done in created.values():
        done.result(SECONDS)
    _write_orders(address)
    trimmed = confluent_kafka.TopicPartition("orders", 1, TRIMMED_TO)
    for trim in admin.delete_records([trimmed]).values():
        trim.result(SECONDS)
    _write_prices(address, data)
    _write_security(address)
    _commit_as_member(address)
    _commit_without_membership(address)
    return _write_payments(address)


def _producer(address: str, **options: object) -> confluent_kafka.Producer:
    settings = {"bootstrap.servers": address, "linger.ms": 1000, "enable.idempotence": True}
    return confluent_kafka.Producer(
        {**settings, **{k.replace("_", "."): v for k, v in options.items()}}
    )


def _consumer(address: str, group: str, **options: object) -> confluent_kafka.Consumer:
    settings = {
        "bootstrap.servers": address,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    return confluent_kafka.Consumer(
        {**settings, **{k.replace("_", "."): v for k, v in options.items()}}
    )


def _write_orders(address: str) -> None:
    offset = 0
    for codec in CODECS:
        producer = _producer(address, compression_type=codec)
        for _ in range(ORDERS_PER_CODEC):
            for partition in range(PARTITIONS):
                producer.produce(
                    "orders",
                    key=f"order-{offset}",
                    value=order_value(partition, offset),
                    partition=partition,
                    timestamp=TIMESTAMP_MS + 1000 * offset,
                    headers={"table": str(partition)},
                )
            offset += 1
            if offset % 4 == 0:
                assert producer.flush(SECONDS) == 0


def _write_prices(address: str, data: Path) -> None:
    producer = _producer(address)
    for change in range(PRICE_CHANGES):
        for dish in (*PRICES, "dish-4"):
            producer.produce("prices", key=dish, value=f"price {change} of {dish}")
        assert producer.flush(SECONDS) == 0
    producer.produce("prices", key="dish-4", value=None)
    assert producer.flush(SECONDS) == 0

    def is_clean() -> bool:
        checkpoints = data.rglob("cleaner-offset-checkpoint")
        lines = [line for path in checkpoints for line in path.read_text().splitlines()]
        found = [int(line.split()[2]) for line in lines if line.startswith("prices ")]
        return bool(found) and found[0] >= 90

    deadline = time.monotonic() + SECONDS
    while not is_clean():
        in_time(deadline, "the prices are not compacted")
        time.sleep(0.05)


def _write_security(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    acl = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.PREFIXED,
        READER,
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    for done in admin.create_acls([acl]).values():
        done.result(SECONDS)
    secret = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = UserScramCredentialUpsertion(USER, secret, PASSWORD.encode(), SALT)
    for done in admin.alter_user_scram_credentials([user]).values():
        done.result(SECONDS)
    with ottla.Admin(bootstrap_servers=address) as ours:
        ours.alter_client_quotas(
            {
                QuotaEntity(user=USER, client_id=CLIENT_ID): {"producer_byte_rate": BYTE_RATE},
                QuotaEntity(ip=ADDRESS): {"connection_creation_rate": CONNECTION_RATE},
            }
        )


def _commit_as_member(address: str) -> None:
    consumer = _consumer(address, "waiters")
    consumer.subscribe(["orders"])
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(SECONDS)
        assert message is not None
        if message.error() is not None:
            ended.add(message.partition())
    consumer.commit(asynchronous=False)
    consumer.close()


def _commit_without_membership(address: str) -> None:
    consumer = _consumer(address, "kitchen")
    offsets = [
        confluent_kafka.TopicPartition("orders", partition, offset, metadata)
        for partition, (offset, metadata) in KITCHEN_OFFSETS.items()
    ]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def _write_payments(address: str) -> confluent_kafka.Producer:
    till = _producer(address, transactional_id=TILLS[0])
    till.init_transactions(SECONDS)
    group = _consumer(address, "tills")
    till.begin_transaction()
    _pay(till, COMMITTED[:10])
    offset = confluent_kafka.TopicPartition("orders", 0, TILL_OFFSET)
    till.send_offsets_to_transaction([offset], group.consumer_group_metadata(), SECONDS)
    till.commit_transaction(SECONDS)
    till.begin_transaction()
    _pay(till, ABORTED)
    till.abort_transaction(SECONDS)
    till.begin_transaction()
    _pay(till, COMMITTED[10:])
    till.commit_transaction(SECONDS)
    unfinished = _producer(address, transactional_id=TILLS[1], transaction_timeout_ms=900_000)
    unfinished.init_transactions(SECONDS)
    unfinished.begin_transaction()
    _pay(unfinished, OPEN)
    offset = confluent_kafka.TopicPartition("orders", 0, TILL_OFFSET + 2)
    unfinished.send_offsets_to_transaction([offset], group.consumer_group_metadata(), SECONDS)
    group.close()
    _pay(_producer(address), BEHIND_OPEN)
    return unfinished


def _pay(producer: confluent_kafka.Producer, payments: list[str]) -> None:
    for number, payment in enumerate(payments):
        producer.produce("payments", value=payment, timestamp=TIMESTAMP_MS + 1000 * number)
        if number % 4 == 3:
            assert producer.flush(SECONDS) == 0
    assert producer.flush(SECONDS) == 0


def _files_of(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def pack(folder: KeptFolder, archive: Path) -> None:
    """Writes an archive that depends on the folder's content only."""
    contents = {f"data/{path.relative_to(folder.path)}": path for path in _files_of(folder.path)}
    written = json.dumps({"written_at_ms": folder.written_at_ms}).encode()
    with (
        gzip.GzipFile(archive, "wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as packed,
    ):
        for name, data in (
            ("written.json", written),
            *((name, path.read_bytes()) for name, path in contents.items()),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))


def main(arguments: list[str] | None = None) -> None:
    """Writes the folders of one version."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--version", type=int, required=True)
    given: Any = parser.parse_args(arguments)
    for how_it_ended in HOW_IT_ENDED:
        with tempfile.TemporaryDirectory() as folder:
            kept = write_folder(Path(folder) / "data", given.source, how_it_ended)
            archive = archive_of(given.version, how_it_ended)
            pack(kept, archive)
        print(f"{archive}: {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
