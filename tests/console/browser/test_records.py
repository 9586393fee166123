"""The records of a topic on the page: searched, decoded, marked, written and exported."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.console.browser.looks import (
    NARROW,
    assert_accessible,
    assert_no_sideways_scroll,
    screenshot,
)
from tests.console.browser.page_faults import PageFaults
from tests.console.browser.records_page import (
    SECONDS,
    add_filter,
    drawn_rows,
    drawn_values,
    open_record,
    open_records,
    read_all,
    wait_for_search,
)
from tests.console.records.conftest import RecordCluster, cluster, kafka_jars, write
from tests.console.serving import serving
from tests.console.shop.goods import Shipment, shipment

from ottla.schemas import ProtobufSerializer
from ottla.schemas import SchemaRegistryClient as OttlaRegistryClient

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["cluster", "kafka_jars"]

BASE_MS = 1_700_000_000_000
PARTITIONS = 3
COUNT = 30
MARKS = {"committed", "control", "aborted"}


@pytest.fixture(scope="module")
def console_url(cluster: RecordCluster) -> Iterator[str]:
    """A console of the cluster and its registry."""
    with serving(cluster.servers, registry_url=cluster.registry_url) as console:
        yield console.url


@pytest.fixture(scope="module")
def orders(cluster: RecordCluster) -> str:
    """Thirty orders a second apart, one after the other in three partitions."""
    topic = cluster.topic("orders", PARTITIONS)
    producer = cluster.producer()
    for n in range(COUNT):
        value = {"id": n, "item": {"sku": f"TEA-{n % 4}"}, "note": "late" if n == 17 else ""}
        producer.produce(
            topic,
            json.dumps(value),
            f"o-{n}",
            partition=n % PARTITIONS,
            timestamp=BASE_MS + n * 1000,
            headers=[("trace", f"4bf{n:03}".encode()), ("empty", b""), ("null", None)],
        )
    assert producer.flush(SECONDS) == 0
    return topic


def ids(page: Page) -> list[int]:
    return [json.loads(value)["id"] for value in drawn_values(page)]


def test_records_are_found_by_offset_time_key_value_header_and_partition(
    page: Page, console_url: str, orders: str, faults: PageFaults
) -> None:
    faults.allow(r"404 \(Not Found\)")  # a partition that the topic does not have
    open_records(page, console_url, orders)
    assert ids(page) == list(range(COUNT))[::-1]
    for text, found in (
        ("key = o-7", [7]),
        ("value.item.sku = TEA-3", [27, 23, 19, 15, 11, 7, 3]),
        ("value.id >= 28", [29, 28]),
        ("header.trace contains 4bf011", [11]),
        ("late", [17]),
        ("value matches TEA-1.*(9|13)\\b", []),
    ):
        open_records(page, console_url, orders)
        add_filter(page, text)
        assert ids(page) == found, text
    page.get_by_text("No record passes the filters").wait_for()
    page.go_back()
    page.reload()
    wait_for_search(page)
    assert ids(page) == list(range(COUNT))[::-1], "the conditions are in the address"

    # The range: offsets, times, partitions, by the fields of the page.
    open_records(page, console_url, orders)
    page.get_by_role("button", name="Offset", exact=True).click()
    page.get_by_label("From offset").fill("8")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "at=8" in url)
    wait_for_search(page)
    assert ids(page) == list(range(24, 30))
    page.get_by_label("Partitions").fill("0, 2-2")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "partitions=" in url)
    wait_for_search(page)
    assert ids(page) == [24, 26, 27, 29]
    page.get_by_label("Partitions").fill("0, 9")
    page.keyboard.press("Enter")
    page.get_by_text("has no partition 9").wait_for()
    since, until = BASE_MS + 10_000, BASE_MS + 13_000
    open_records(page, console_url, orders, mode="time", since=str(since), until=str(until))
    assert ids(page) == [10, 11, 12]
    open_records(page, console_url, orders, mode="oldest", limit="20")
    assert ids(page) == list(range(20))
    page.get_by_role("button", name="Show more").click()
    page.get_by_text("all of the range").wait_for()
    assert page.locator(".record-status b").inner_text() == str(COUNT)


def test_records_of_transactions_are_marked_and_what_is_held_back_is_said(
    page: Page, console_url: str, cluster: RecordCluster, tmp_path: Path
) -> None:
    topic = cluster.topic("marked")
    for value, ends in (("paid", "commit"), ("refused", "abort")):
        with cluster.transactional() as producer:
            write(producer, topic, value)
            getattr(producer, f"{ends}_transaction")(SECONDS)
    with cluster.transactional() as producer:
        write(producer, topic, "open")
        open_records(page, console_url, topic)
        assert drawn_values(page) == ["paid"]
        page.get_by_text("1 offset at the end is held back by open transactions").wait_for()
        page.get_by_role("button", name="Formats, transactions").click()
        page.get_by_label("Aborted records").check()
        page.get_by_label("Control records").check()
        page.wait_for_url(lambda url: "aborted=true" in url and "control=true" in url)
        wait_for_search(page)
        seen = drawn_values(page)
        assert [each.split(" of producer")[0] for each in seen] == [
            "control abort",
            "aborted refused",
            "control commit",
            "paid",
        ]
        page.get_by_role("button", name="Show them").click()
        page.wait_for_url(lambda url: "isolation=uncommitted" in url)
        wait_for_search(page)
        assert drawn_values(page)[0] == "held back open"
        assert_accessible(page)
        screenshot(page, "records-marked", tmp_path)
        detail = open_record(page, 0, 3)
        detail.get_by_text("control", exact=True).wait_for()
        producer.abort_transaction(SECONDS)


def in_thread(work: Callable[[], Any]) -> Any:
    """The result of work that refuses to block the loop that playwright runs on this thread."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(SECONDS)
    return found[0]


def arrow_stream() -> bytes:
    table = pa.table({"celsius": [19.5, 20.25], "door": ["north", None]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def write_values(cluster: RecordCluster, avro_topic: str, json_topic: str, proto: str) -> None:
    """Values of all formats, with serializers of Confluent's and, for Protobuf, ours."""
    fields = [{"name": "sku", "type": "string"}, {"name": "grams", "type": ["null", "long"]}]
    tea = {"type": "record", "name": "Tea", "fields": fields}
    level = {"title": "Level", "type": "object", "properties": {"n": {"type": "integer"}}}
    producer = cluster.producer()
    with SchemaRegistryClient({"url": cluster.registry_url}) as registry:
        avro = AvroSerializer(registry, json.dumps(tea))(
            {"sku": "TEA-ASSAM", "grams": 250},
            SerializationContext(avro_topic, MessageField.VALUE),
        )
        write(producer, avro_topic, avro, arrow_stream(), b'{"plain": true}', b"\0" * 7 + b"\x0c")
        as_json = JSONSerializer(json.dumps(level), registry)
        write(
            producer,
            json_topic,
            as_json({"n": 4}, SerializationContext(json_topic, MessageField.VALUE)),
        )
    write(producer, proto, in_thread(lambda: protobuf_value(cluster, proto)))


def protobuf_value(cluster: RecordCluster, topic: str) -> bytes:
    with OttlaRegistryClient(schema_registry_url=cluster.registry_url) as registry:
        found = ProtobufSerializer(Shipment, registry=registry).serialize(topic, (), shipment(1))
    assert found is not None
    return found


def test_values_are_decoded_by_their_schemas(
    page: Page, console_url: str, cluster: RecordCluster
) -> None:
    topic, json_topic, proto = map(cluster.topic, ("decoded", "of-json-schema", "of-protobuf"))
    write_values(cluster, topic, json_topic, proto)
    open_records(page, console_url, topic, mode="oldest")
    first, second, third, fourth = drawn_values(page)
    assert first == 'Avro{"sku":"TEA-ASSAM","grams":250}'
    assert second.startswith('Arrow{"schema":{"celsius":"double","door":"string"},"row_count":2')
    assert third == '{"plain": true}'
    assert fourth == "integer12"
    detail = open_record(page, 0, 0)
    detail.get_by_role("link", name=f"{topic}-value, version 1").wait_for()
    assert "TEA-ASSAM" in detail.get_by_role("region", name="Value").inner_text()
    open_records(page, console_url, json_topic)
    assert drawn_values(page) == ['JSON Schema{"n":4}']
    open_records(page, console_url, proto)
    (shown,) = drawn_values(page)
    assert shown.startswith('Protobuf{"order":')
    detail = open_record(page, 0, 0)
    text = detail.get_by_role("region", name="Value").inner_text()
    assert f'"{shipment(1).order}"' in text


def test_the_clusters_own_records_are_decoded(
    page: Page, console_url: str, cluster: RecordCluster
) -> None:
    topic = cluster.topic("watched")
    reader = Consumer({"bootstrap.servers": cluster.servers, "group.id": f"reader-of-{topic}"})
    reader.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    reader.close()
    with cluster.transactional(f"writer-of-{topic}") as writer:
        write(writer, topic, "x")
        writer.commit_transaction(SECONDS)
    of_reader = [f"key contains reader-of-{topic}", "value exists"]
    open_records(page, console_url, "__consumer_offsets", filter=of_reader)
    commits = [cells for cells in drawn_rows(page) if f'"{topic}"' in cells[3]]
    assert len(commits) == 1, commits
    assert '"offset":2' in commits[0][4]
    for state in ("Ongoing", "CompleteCommit"):
        of_writer = [f"key contains writer-of-{topic}", f"value.data.state = {state}"]
        open_records(page, console_url, "__transaction_state", filter=of_writer)
        assert len(drawn_rows(page)) == 1, state


def test_a_record_is_written_on_the_page_after_its_effect_was_shown(
    page: Page, console_url: str, cluster: RecordCluster, faults: PageFaults, tmp_path: Path
) -> None:
    faults.allow(r"400 \(Bad Request\)")
    topic = cluster.topic("written", PARTITIONS, cleanup_policy="compact")
    page.set_viewport_size(NARROW)
    open_records(page, console_url, topic)
    page.get_by_role("button", name="Write a record").click()
    dialog = page.get_by_role("dialog", name=f"Write a record to {topic}")
    show = dialog.get_by_role("button", name="Show what it does")
    dialog.get_by_label("Value", exact=True).fill('{"id": 1')
    dialog.get_by_label("Value as").select_option("json")
    show.click()
    dialog.get_by_role("alert").filter(has_text="the value is not JSON").wait_for()
    value = '{"id": 1, "price": 0.10, "note": "<b>déjà</b> \u202e"}'
    dialog.get_by_label("Value", exact=True).fill(value)
    show.click()
    dialog.get_by_role("alert").filter(has_text="refuses records without a key").wait_for()
    dialog.get_by_label("Key as").select_option("text")
    dialog.get_by_label("Key", exact=True).fill("o-1")
    for at, (name, form, text) in enumerate((("trace", "text", "4bf"), ("raw", "hex", "00 ff"))):
        dialog.get_by_role("button", name="Add a header").click()
        dialog.get_by_label(f"Name of header {at}").fill(name)
        dialog.get_by_label(f"Value of header {at} as").select_option(form)
        dialog.get_by_label(f"Value of header {at}", exact=True).fill(text)
    dialog.get_by_role("button", name="Add a header").click()
    dialog.get_by_label("Name of header 2").fill("none")
    dialog.get_by_label("Value of header 2 as").select_option("null")
    assert_accessible(page)
    assert_no_sideways_scroll(page)
    screenshot(page, "record-new-narrow", tmp_path)
    show.click()
    dialog.get_by_text("which its key chooses").wait_for()
    assert not read_all(cluster.servers, topic, PARTITIONS), "nothing is written yet"
    dialog.get_by_role("button", name="Write the record").click()
    page.get_by_text("The record is at offset 0 of partition").wait_for()
    page.locator(".record-times").wait_for()
    # A stranger reads it, where its own partitioner of keys puts it.
    write(cluster.producer(partitioner="murmur2_random"), topic, "mine", key="o-1", partition=-1)
    first, mine = read_all(cluster.servers, topic, PARTITIONS)
    assert first.partition() == mine.partition()
    assert (first.key(), first.value()) == (b"o-1", value.encode())
    assert first.headers() == [("trace", b"4bf"), ("raw", b"\x00\xff"), ("none", None)]

    # A tombstone, into a partition that was chosen.
    page.get_by_role("button", name="Write a record").click()
    dialog.get_by_label("Key as").select_option("base64")
    dialog.get_by_label("Key", exact=True).fill("AP8=")
    dialog.get_by_label("Value as").select_option("null")
    dialog.get_by_label("Partition", exact=True).select_option("1")
    show.click()
    dialog.get_by_text("It is a tombstone").wait_for()
    dialog.get_by_role("button", name="Write the record").click()
    page.get_by_text("of partition 1.").wait_for()
    assert [
        (each.partition(), each.value())
        for each in read_all(cluster.servers, topic, PARTITIONS)
        if each.key() == b"\x00\xff"
    ] == [(1, None)]


def saved(page: Page, form: str) -> bytes:
    """The file that the page's export saves."""
    page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog", name="Export records")
    dialog.get_by_label("Format").select_option(form)
    with page.expect_download() as download:
        dialog.get_by_role("link", name="Save the file").click()
    return Path(download.value.path()).read_bytes()


def test_an_export_has_what_a_strangers_consumer_reads(
    page: Page, console_url: str, cluster: RecordCluster, orders: str
) -> None:
    open_records(page, console_url, orders, mode="oldest")
    read = {
        (each.partition(), each.offset()): each
        for each in read_all(cluster.servers, orders, PARTITIONS)
    }
    lines = [json.loads(line) for line in saved(page, "jsonl").splitlines()]
    assert [json.loads(line["value"])["id"] for line in lines] == list(range(COUNT))
    for line in lines:
        message = read.pop((line["partition"], line["offset"]))
        assert line["key"].encode() == message.key()
        assert line["value"].encode() == message.value()
        assert line["timestamp"] == message.timestamp()[1]
        headers = [
            (each["key"], None if each["value"] is None else each["value"].encode())
            for each in line["headers"]
        ]
        assert headers == message.headers()
    assert not read
    add_filter(page, "value.id < 3")
    rows = list(csv.DictReader(io.StringIO(saved(page, "csv").decode())))
    assert [(row["partition"], row["offset"], row["key"]) for row in rows] == [
        ("0", "0", "o-0"),
        ("1", "0", "o-1"),
        ("2", "0", "o-2"),
    ]
    assert json.loads(rows[1]["value"])["id"] == 1
