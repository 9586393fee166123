"""What the page on moving says of other clients, asked of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest

import ottla
from ottla import Broker, Producer

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "moving.md"
KEYS = [b"key %d" % number for number in range(20)]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=12) as running:
        yield running


def by_confluent(broker: Broker, **options: Any) -> list[int]:
    placed: dict[bytes, int] = {}

    def note(error: Any, message: Any) -> None:
        assert error is None
        placed[message.key()] = message.partition()

    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, **options})
    for key in KEYS:
        producer.produce("t", key=key, callback=note)
    assert producer.flush(30) == 0
    return [placed[key] for key in KEYS]


def by_kafka_python(broker: Broker) -> list[int]:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    try:
        return [producer.send("t", key=key).get(30).partition for key in KEYS]
    finally:
        producer.close()


def by_ottla(broker: Broker, **options: Any) -> list[int]:
    with Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer:
        return [producer.send("t", key=key).result(30).partition for key in KEYS]


def partitioner_of_the_page() -> Any:
    found = re.search(r"```python\n(import random\n.*?)\n\n\nwith ", PAGE.read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    return names["ByCrc32"]


def test_keys_go_where_the_page_says(broker: Broker) -> None:
    ours = by_ottla(broker)
    librdkafkas = by_confluent(broker)
    assert librdkafkas != ours
    assert by_ottla(broker, partitioner_class=partitioner_of_the_page()) == librdkafkas
    assert by_confluent(broker, partitioner="murmur2_random") == ours
    assert by_kafka_python(broker) == ours


def test_callbacks_of_confluent_kafka_take_success_for_failure(broker: Broker) -> None:
    told: list[str] = []

    def delivered(err: Any, msg: Any) -> None:
        told.append("failed" if err else "delivered")

    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", value=b"x", on_delivery=delivered)
    assert told == ["failed"]


@pytest.mark.parametrize(
    ("variable", "client"),
    [("p", ottla.Producer), ("c", ottla.Consumer), ("Admin", ottla.Admin)],
)
def test_what_the_tables_say_to_write_exists(variable: str, client: Callable[..., Any]) -> None:
    rows = re.findall(r"^\| .* \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    names = set(re.findall(rf"\b{variable}\.(\w+)", " ".join(rows)))
    assert names
    for name in names:
        assert hasattr(client, name), name
