"""`ottla offsets` and `ottla records`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ottla, soon

from ottla import Broker, Producer
from ottla.admin import OffsetSpec
from ottla.cli.cluster.offsets import spec_of
from ottla.cli.errors import UsageError

FIRST_MS = 1_700_000_000_000


def fill(servers: str, topic: str) -> None:
    """Ten records in partition 0, a second apart; three in partition 1."""
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(10):
            at_ms = FIRST_MS + 1000 * number
            producer.send(topic, value=b"x", partition=0, timestamp_ms=at_ms)
        for _ in range(3):
            producer.send(topic, value=b"y", partition=1, timestamp_ms=FIRST_MS)


def by_partition(rows: list[dict[str, str]]) -> dict[int, str]:
    return {int(row["PARTITION"]): row["OFFSET"] for row in rows}


def test_offsets_are_found_by_name_and_time_and_records_deleted(
    anywhere: Ottla,
    request: pytest.FixtureRequest,
    cli_broker: Broker,
    ottla_topic_name: Callable[[], str],
) -> None:
    name = ottla_topic_name()
    assert anywhere("topics", "create", name, "-p", "3").code == 0
    is_kafka = "kafka" in request.node.name
    fill(
        request.getfixturevalue("kafka_address") if is_kafka else cli_broker.bootstrap_servers, name
    )

    def all_are_there() -> None:
        latest = anywhere("offsets", name)
        assert by_partition(latest.table) == {0: "10", 1: "3", 2: "0"}, latest.err

    soon(all_are_there)
    earliest = anywhere("offsets", "-t", name, "--time", "earliest", "--partitions", "0,2")
    assert by_partition(earliest.table) == {0: "0", 2: "0"}
    since = anywhere("offsets", name, "--time", str(FIRST_MS + 1500), "-o", "json").data
    assert [(each["offset"], each["timestamp"]) for each in since] == [
        (2, FIRST_MS + 2000),
        (None, None),
        (None, None),
    ]
    newest = anywhere("offsets", "--topic-partitions", f"{name}:0-1", "--time", "max-timestamp")
    assert [row["OFFSET"] for row in newest.table] == ["9"]

    would = anywhere("records", "delete", f"{name}:0:4", f"{name}:1:-1", "--dry-run")
    assert would.lines == [
        f"{name}-0 would start at offset 4, not 0",
        f"{name}-1 would start at offset 3, not 0",
    ], would.err
    done = anywhere("records", "delete", f"{name}:0:4", f"{name}:1:-1")
    assert done.lines == [f"{name}-0 starts at offset 4", f"{name}-1 starts at offset 3"], done.err
    too_far = anywhere("records", "delete", f"{name}:0:99", f"{name}:2:0")
    assert too_far.code == 1
    assert too_far.lines == [f"{name}-2 starts at offset 0"]
    assert name in too_far.err
    earliest = anywhere("offsets", name, "--time", "-2")
    assert by_partition(earliest.table) == {0: "4", 1: "3", 2: "0"}


def test_records_are_deleted_by_kafkas_json(
    inside: Ottla, cli_broker: Broker, tmp_path: Path, ottla_topic_name: Callable[[], str]
) -> None:
    name = ottla_topic_name()
    inside("topics", "create", name, "-p", "2")
    fill(cli_broker.bootstrap_servers, name)
    one = {"topic": name, "partition": 0, "offset": 7}
    (tmp_path / "offsets.json").write_text(
        json.dumps({"partitions": [one], "version": 1}), encoding="utf-8"
    )
    done = inside("records", "delete", "--offset-json-file", "offsets.json")
    assert done.lines == [f"{name}-0 starts at offset 7"], done.err
    done = inside("records", "delete", "--offset-json-file", "-", stdin='{"partitions": []}')
    assert done.code == 2
    twice = {"partitions": [one, one]}
    done = inside("records", "delete", "--offset-json-file", "-", stdin=json.dumps(twice))
    assert done.code == 2
    assert "twice" in done.err


@pytest.mark.parametrize(
    "text",
    [
        "not JSON",
        "[]",
        '{"version": 1}',
        '{"partitions": [{"topic": "x", "partition": 0}]}',
        '{"partitions": [{"topic": "x", "partition": "0", "offset": 1}]}',
        '{"partitions": [{"topic": "x", "partition": 0, "offset": -2}]}',
        '{"partitions": [4]}',
        '{"partitions": [{"topic": "x", "partition": 0, "offset": 1}], "version": 2}',
    ],
)
def test_json_that_says_something_else_is_exit_code_2(inside: Ottla, text: str) -> None:
    done = inside("records", "delete", "--offset-json-file", "-", stdin=text)
    assert (done.code, done.out) == (2, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["records", "delete"],
        ["records", "delete", "x"],
        ["records", "delete", "x:0"],
        ["records", "delete", "x:0:1:2"],
        ["records", "delete", "x:zero:1"],
        ["records", "delete", ":0:1"],
        ["offsets", "--partitions", "x"],
        ["offsets", "x", "--topic-partitions", "x:0"],
        ["offsets", "--time", "whenever"],
        ["offsets", "--isolation", "none"],
    ],
)
def test_what_makes_no_sense_is_exit_code_2(inside: Ottla, arguments: list[str]) -> None:
    done = inside(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err


def test_without_a_topic_all_are_meant_and_one_that_is_not_there_is_told(inside: Ottla) -> None:
    inside("topics", "create", "meant")
    assert "meant" in [row["TOPIC"] for row in inside("offsets", "--exclude-internal").table]
    none = inside("offsets", "nothing")
    assert (none.code, none.out) == (1, "")
    assert "ottla topics list" in none.err
    assert inside("offsets", "meant", "--partitions", "7").code == 1
    some = inside("offsets", "meant", "--partitions", "0,7")
    assert (some.code, [row["PARTITION"] for row in some.table]) == (1, ["0"])
    assert some.err == "ottla: meant has no partition 7\n"


def test_offsets_have_kafkas_names_and_numbers() -> None:
    assert spec_of("latest") == spec_of("-1") == OffsetSpec.LATEST
    assert spec_of("max-timestamp") == spec_of("-3") == OffsetSpec.MAX_TIMESTAMP
    assert spec_of("1000") == 1000
    with pytest.raises(UsageError, match="-9"):
        spec_of("-9")
