"""Type checkers object to the lines of users' programs that are marked as mistakes, and to no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ottla

SOURCES = Path(ottla.__file__).parents[1]
MISTAKE = "# mistake"
MYPY_FLAGS = (
    "--strict",
    "--output=json",
    "--config-file=",
    "--cache-dir=cache",
    "--follow-imports=silent",
)

PROGRAMS = {
    "options_of_a_producer": """
import ottla

ottla.Producer(bootstrap_servers="127.0.0.1:9092", linger_ms=5, acks="all", compression_type="zstd")
ottla.Producer(bootstrap_servers=["a:1", "b:2"], acks=1, enable_idempotence=False, transactional_id=None)
ottla.Producer(bootstrap_servers="a:1", value_serializer="json", key_serializer=str.encode)
ottla.Producer({"bootstrap.servers": "a:1", "linger.ms": "5"}, batch_size=1000)
ottla.Producer(bootstrap_servers="a:1", lingerms=5)  # mistake
ottla.Producer(bootstrap_servers="a:1", linger_ms="abc")  # mistake
ottla.Producer(bootstrap_servers="a:1", acks=2)  # mistake
ottla.Producer(bootstrap_servers="a:1", compression_type="zip")  # mistake
ottla.Producer(bootstrap_servers="a:1", group_id="g")  # mistake
ottla.Producer(bootstrap_servers=1)  # mistake
""",
    "options_of_a_consumer": """
import ottla

ottla.Consumer(bootstrap_servers="a:1", group_id="g", isolation_level="read_committed")
ottla.Consumer(bootstrap_servers="a:1", security_protocol="ssl", ssl_enabled_protocols=["TLSv1.3"])
ottla.Consumer(bootstrap_servers="a:1", isolation_level="committed")  # mistake
ottla.Consumer(bootstrap_servers="a:1", groupid="g")  # mistake
ottla.Consumer(bootstrap_servers="a:1", enable_auto_commit="no")  # mistake
""",
    "options_of_an_admin_client": """
import ottla

ottla.Admin(bootstrap_servers="a:1", default_api_timeout_ms=1000)
ottla.Admin({"bootstrap.servers": "a:1"})
ottla.Admin(bootstrap_servers="a:1", api_timeout_ms=1000)  # mistake
""",
    "options_of_asyncio_clients": """
import ottla.aio


async def main() -> None:
    ottla.aio.Producer(bootstrap_servers="a:1", linger_ms=5)
    ottla.aio.Consumer(bootstrap_servers="a:1", group_id="g")
    ottla.aio.Admin(bootstrap_servers="a:1", retries=3)
    ottla.aio.Producer(bootstrap_servers="a:1", lingerms=5)  # mistake
    ottla.aio.Consumer(bootstrap_servers="a:1", fetch_max_wait_ms="abc")  # mistake
    ottla.aio.Admin(bootstrap_servers="a:1", linger_ms=5)  # mistake
""",
    "options_of_a_broker": """
import ottla

ottla.Broker(num_partitions=3, log_retention_ms=-1, listen="127.0.0.1:0", nodes=3)
ottla.Broker({"num.partitions": 3}, data_dir="data")
ottla.Broker(num_partition=3)  # mistake
ottla.Broker(num_partitions="three")  # mistake
""",
    "the_admin_model": """
import ottla
from ottla.admin import OffsetSpec


def create(admin: ottla.Admin) -> None:
    admin.create_topics([ottla.admin.NewTopic("orders", num_partitions=3)])
    admin.list_offsets({("orders", 0): OffsetSpec.LATEST})
    ottla.NewTopic("orders")  # mistake
    admin.list_topics(timeout=0.5)
    admin.list_topics(timeout_ms=500)  # mistake


def partition(cluster: ottla.ClusterMetadata, topic: str) -> int:
    return len(cluster.partitions_for(topic))
""",
    "records": """
import ottla


def show(record: ottla.ConsumerRecord, sent: ottla.RecordMetadata) -> int:
    if record.timestamp_type is ottla.TimestampType.LOG_APPEND_TIME:
        return record.timestamp_ms
    return sent.timestamp_ms - sent.timestamp


def send(producer: ottla.Producer) -> None:
    producer.send("orders", b"tea", timestamp_ms=1)
    producer.send("orders", b"tea", timestamp=1)  # mistake
    producer.send("orders", b"tea", headers={"waiter": b"Ada", "tip": None})
    producer.send("orders", b"tea", headers=[("via", b"app"), ("via", None)])
    producer.send_many("orders", [b"tea"], headers={"waiter": b"Ada"})
    producer.send("orders", b"tea", headers={"waiter": "Ada"})  # mistake
    producer.send("orders", b"tea", headers=[("via", 1)])  # mistake
    producer.send_many("orders", [b"tea"], headers="waiter")  # mistake
    producer.flush(timeout="1")  # mistake
""",
    "keys_and_values_by_deserializer": """
from dataclasses import dataclass

import ottla
import ottla.aio


@dataclass
class Order:
    table: int


class OrderDeserializer:
    def deserialize(self, topic: str, headers: ottla.Headers, data: bytes | None) -> Order | None:
        return None if data is None else Order(len(data))


with ottla.Consumer(bootstrap_servers="a:1", value_deserializer=OrderDeserializer()) as consumer:
    for record in consumer:
        record.value.table  # mistake
        if record.value is not None:
            print(record.value.table + 1, record.key.anything)
            record.value.chair  # mistake
    orders = [record.value for record in consumer.poll(1.0)]
    orders.append("tea")  # mistake
    consumer.subscribe(["orders"])
    consumer.seek(("orders", 0), 5)

by_class = ottla.Consumer(bootstrap_servers="a:1", key_deserializer=OrderDeserializer)
number: int = by_class.poll(1.0)[0].key  # mistake

named: ottla.Consumer[str, int] = ottla.Consumer(bootstrap_servers="a:1", value_deserializer="int")
text: str = named.poll(1.0)[0].value  # mistake
key: str = named.poll(1.0)[0].key


def show(record: ottla.ConsumerRecord[str, Order]) -> str:
    return record.key + str(record.value.table)


def show_any(record: ottla.ConsumerRecord, consumer: ottla.Consumer) -> None:
    print(record.value.decode(), [record.key for record in consumer])


async def main() -> None:
    async with ottla.aio.Consumer(
        bootstrap_servers="a:1", value_deserializer=OrderDeserializer()
    ) as consumer:
        async for record in consumer:
            value: Order | None = record.value
            other: str = record.value  # mistake
            print(value, other)
""",
    "schemas_of_keys_and_values": """
from dataclasses import dataclass

import ottla
from ottla.schemas import (
    AvroDeserializer,
    AvroSerializer,
    JSONSchemaDeserializer,
    ProtobufDeserializer,
    SchemaRegistryClient,
    codec_for,
)


@dataclass
class Order:
    table: int


registry = SchemaRegistryClient(schema_registry_url="http://localhost:8081")
serializer = AvroSerializer(Order, registry=registry)
serializer.serialize("orders", (), Order(1))
serializer.serialize("orders", (), "tea")  # mistake
ottla.Producer(bootstrap_servers="a:1", value_serializer=serializer)

with ottla.Consumer(
    bootstrap_servers="a:1", value_deserializer=AvroDeserializer(Order, registry=registry)
) as consumer:
    for record in consumer:
        order: Order | None = record.value
        text: str = record.value  # mistake
        if record.value is not None:
            print(record.value.table + 1, order, text)
            record.value.chair  # mistake

for deserializer in (
    JSONSchemaDeserializer(Order, registry=registry),
    ProtobufDeserializer(Order, registry=registry),
):
    found = deserializer.deserialize("orders", (), b"")
    found.table  # mistake

anything = AvroDeserializer(registry=registry).deserialize("orders", (), b"")
print(anything and anything["table"])


async def main() -> None:
    codec = codec_for(Order, "avro", registry=registry)
    value: Order | None = await codec.decode("orders", False, b"")
    await codec.encode("orders", False, value)
    await codec.encode("orders", False, "tea")  # mistake
    codec_for(Order, "xml", registry=registry)  # mistake
""",
    "handlers_of_an_app": """
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from ottla.app import App, DeadLetter, Depends, Header, Key, Offset, Record, Retry, To, Topic, every

app = App("billing", {"linger.ms": 5}, bootstrap_servers="a:1", max_poll_records=10)
App("billing", bootstrap_server="a:1")  # mistake
App("billing", max_poll_records="ten")  # mistake


@dataclass
class Order:
    table: int


@dataclass
class Invoice:
    total: float


class Database:
    def price(self, table: int) -> float:
        return 2.5 * table


async def get_db() -> AsyncIterator[Database]:
    yield Database()


@app.listener("orders", workers=32, order="key", retry=Retry("1s", "10s", keep_order=True), dead_letters=True)
async def bill(
    order: Order,
    key: Key[str],
    trace: Annotated[str | None, Header("trace")],
    topic: Topic,
    offset: Offset,
    db: Annotated[Database, Depends(get_db)],
) -> Annotated[Invoice, To("invoices")]:
    print(key.upper(), topic.upper(), offset + 1, trace)
    key.nothing()  # mistake
    trace.upper()  # mistake
    return Invoice(db.price(order.table))


@app.listener("orders")
async def wrong_result(order: Order) -> Annotated[Invoice, To("invoices")]:
    return order  # mistake


@app.listener("orders", ack=every(100, "5s"), seek=timedelta(hours=1), errors={ValueError: "ignore"})
def show(record: Record[str, Order]) -> list[To]:
    print(record.value.table + 1, record.key.upper())
    record.value.chair  # mistake
    return [To("a", 1, key="k")]


@app.listener("orders", order="keys")  # mistake
async def other(order: Order) -> None: ...


@app.listener("orders", workres=3)  # mistake
async def third(order: Order) -> None: ...


@bill.dead_letter
async def dead(letter: DeadLetter[Order]) -> None:
    print(letter.value.table, letter.history.attempts)
    letter.value.chair  # mistake


async def main() -> None:
    invoice = await bill(Order(1), "t4", None, "orders", 5, Database())
    print(invoice.total)
    await bill("tea", "t4", None, "orders", 5, Database())  # mistake
    bill.pause()
    async with app:
        sent = await app.send("orders", Order(4), key="t4", headers={"trace": b"1"})
        print(sent.offset + 1)
        await app.send("orders", Order(4), headers={"trace": "1"})  # mistake
        answer = await app.request("quotes", Order(1), reply=Invoice, timeout="2s")
        print(answer.total)
        answer.tip  # mistake
        async with app.transaction():
            await app.send("orders", Order(4))
    app.blocking.send("orders", Order(1))
    with app.test() as t:
        await t.send("orders", Order(1))
        await t.settled()
        print(t.sent("invoices") == [Invoice(1.0)])
        t.broker.faults.add("Produce", times=1)
""",
    "options_that_are_passed_on": """
from typing import Unpack

import ottla


def producer(**options: Unpack[ottla.ProducerOptions]) -> ottla.Producer:
    return ottla.Producer({"bootstrap.servers": "a:1"}, **options)


shared: ottla.ConsumerOptions = {"bootstrap_servers": "a:1", "max_poll_records": 10}
ottla.Consumer(**shared)
producer(linger_ms=5)
producer(linger_ms="abc")  # mistake
""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, program in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(program, encoding="utf-8")
    return tmp_path


def mypy_errors(folder: Path) -> dict[tuple[str, int], str]:
    """The errors of `mypy --strict` by program and line."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *MYPY_FLAGS, "."],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(SOURCES)},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        (Path(error["file"]).stem, error["line"]): error["message"]
        for error in found
        if error["severity"] == "error"
    }


def pyright_errors(folder: Path) -> dict[tuple[str, int], str]:
    """The errors of pyright in strict mode; basedpyright is pyright in a package that needs no npm."""
    settings = {"extraPaths": [str(SOURCES)], "include": ["*.py"], "typeCheckingMode": "strict"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return {
        (Path(error["file"]).stem, error["range"]["start"]["line"] + 1): error["message"]
        for error in json.loads(done.stdout)["generalDiagnostics"]
        if error["severity"] == "error"
    }


def marked_lines() -> set[tuple[str, int]]:
    return {
        (name, number)
        for name, program in PROGRAMS.items()
        for number, line in enumerate(program.splitlines(), start=1)
        if line.endswith(MISTAKE)
    }


def test_mypy_objects_to_mistakes_and_to_nothing_else(folder: Path) -> None:
    errors = mypy_errors(folder)
    assert errors.keys() == marked_lines(), errors


def test_pyright_objects_to_mistakes_and_to_nothing_else(folder: Path) -> None:
    errors = pyright_errors(folder)
    assert errors.keys() == marked_lines(), errors
