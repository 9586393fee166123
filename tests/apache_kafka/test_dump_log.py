"""kafka-dump-log reads every file that we write, and finds in it what we wrote."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

import pytest
from tests.apache_kafka.programs import dump_log
from tests.broker.requests import (
    batch_of,
    create,
    new_producer_id,
    produce,
    sequenced,
    session_with,
)
from tests.broker.test_read_committed import end, send
from tests.cli.log_folders import write_folder

import ottla
from ottla.cli.main import main
from ottla.core.producer_state import ProducerStates
from ottla.errors import ErrorCode
from ottla.records.batch import read_batch, split_batches
from ottla.records.compression import Codec
from ottla.records.control import MarkerType

COMPLAINTS = re.compile("mismatch|isvalid: false|out of order|Found|Error|corrupt|Exception", re.I)


def fields(line: str) -> dict[str, str]:
    """A line of `name: value` pairs."""
    return dict(re.findall(r"(\w+): (\S*)", line.lstrip("| ")))


def sections(output: str) -> dict[str, list[str]]:
    """The lines about each file, by its name."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.startswith("Dumping "):
            lines = found[Path(line.removeprefix("Dumping ")).name] = []
        else:
            lines.append(line)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition with several segments, all codecs, producers and both kinds of transactions."""
    data = tmp_path_factory.mktemp("dump") / "data"
    topic = "orders"
    with ottla.Broker(data_dir=data) as broker, session_with(broker) as connection:
        create(connection, topic, config={"segment.bytes": "3000", "index.interval.bytes": "200"})
        producers = [new_producer_id(connection) for _ in range(3)]
    # A broker that stops writes a snapshot; while it runs, a slow disk may leave some out.
    for turn, codec in enumerate(Codec):
        with ottla.Broker(data_dir=data) as broker, session_with(broker) as connection:
            values = [b"value-%d" % number for number in range(20)]
            batches = [batch_of(*values, codec=codec), *[batch_of(b"x" * 100, codec=codec)] * 5]
            batches += [sequenced(producers[0], 3 * turn, 3), sequenced(producers[1], turn)]
            for batch in batches:
                assert produce(connection, topic, batch).error_code == ErrorCode.NONE
            for number, kind in enumerate(MarkerType):
                send(broker, topic, producers[2], 2 * turn + number, b"transactional")
                end(broker, topic, producers[2], kind)
    with ottla.Broker(data_dir=data) as broker:
        send(broker, topic, producers[2], 2 * len(Codec), b"open")
    return data / "orders-0"


@pytest.fixture(scope="module")
def dumped(folder: Path, kafka_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy for the tool, which opens files for writing."""
    copy = tmp_path_factory.mktemp("copy") / "orders-0"
    shutil.copytree(folder, copy)
    return copy


def test_every_kind_of_file_is_there(folder: Path) -> None:
    counts = {
        suffix: len(list(folder.glob(f"*.{suffix}")))
        for suffix in ("log", "index", "timeindex", "snapshot", "txnindex")
    }
    assert min(counts.values()) >= 2, counts
    assert counts["log"] >= 3


def test_kafka_reads_what_we_wrote(dumped: Path, kafka_tools: Path) -> None:
    files = sorted(path for path in dumped.iterdir() if re.match(r"\d{20}\.", path.name))
    output = dump_log(kafka_tools, files, "--deep-iteration", "--print-data-log")
    assert not COMPLAINTS.search(output), COMPLAINTS.findall(output)
    found = sections(output)
    assert sorted(found) == [path.name for path in files]
    for path in files:
        check = CHECKS[path.suffix]
        check(path, found[path.name])


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
def test_kafka_finds_nothing_wrong_with_the_indexes(
    dumped: Path, kafka_tools: Path, option: str
) -> None:
    files = sorted([*dumped.glob("*.index"), *dumped.glob("*.timeindex")])
    output = dump_log(kafka_tools, files, option)
    assert not COMPLAINTS.search(output), output
    assert output.count("Dumping") == len(files)
    if option == "--index-sanity-check":
        assert output.count("passed sanity check") == len(files)


def test_our_log_dump_says_what_kafkas_says(
    dumped: Path, kafka_tools: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sorted(path for path in dumped.iterdir() if re.match(r"\d{20}\.", path.name))
    theirs = dump_log(kafka_tools, files, "--print-data-log")
    assert main(["log", "dump", "--print-data-log", *map(str, files)]) == 0
    assert capsys.readouterr().out == theirs


def test_our_log_dump_decodes_offsets_as_kafka_does(
    kafka_tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(tmp_path)
    files = sorted(tmp_path.glob("__consumer_offsets-*/*.log"))
    theirs = dump_log(kafka_tools, files, "--offsets-decoder")
    assert main(["log", "dump", "--decode", *map(str, files)]) == 0
    assert capsys.readouterr().out == theirs


def check_log(path: Path, lines: list[str]) -> None:
    data = path.read_bytes()
    expected_batches, expected_records = [], []
    for position, header in split_batches(data):
        expected_batches.append(
            (position, header.base_offset, header.last_offset, header.producer_id, header.crc)
        )
        for record in read_batch(data, position):
            if not header.is_control:
                expected_records.append((record.offset, (record.value or b"").decode()))
    batches = [fields(line) for line in lines if line.startswith("baseOffset")]
    assert [
        tuple(
            int(each[name])
            for name in ("position", "baseOffset", "lastOffset", "producerId", "crc")
        )
        for each in batches
    ] == expected_batches
    records = [fields(line) for line in lines if "payload: " in line]
    assert [(int(each["offset"]), each["payload"]) for each in records] == expected_records


def check_index(path: Path, lines: list[str]) -> None:
    base_offset = int(path.stem)
    assert [tuple(map(int, fields(line).values())) for line in lines] == [
        (base_offset + offset, position)
        for offset, position in struct.iter_unpack(">ii", path.read_bytes())
    ]


def check_time_index(path: Path, lines: list[str]) -> None:
    base_offset = int(path.stem)
    assert [tuple(map(int, fields(line).values())) for line in lines] == [
        (timestamp_ms, base_offset + offset)
        for timestamp_ms, offset in struct.iter_unpack(">qi", path.read_bytes())
    ]


def check_txn_index(path: Path, lines: list[str]) -> None:
    entries = list(struct.iter_unpack(">hqqqq", path.read_bytes()))
    assert entries
    assert [tuple(map(int, fields(line).values())) for line in lines] == entries


def check_snapshot(path: Path, lines: list[str]) -> None:
    expected = [
        (producer.producer_id, producer.epoch, sent.last_sequence, sent.last_offset)
        for producer in ProducerStates.from_snapshot(path.read_bytes())
        for sent in producer.recent_batches
    ]
    names = ("producerId", "producerEpoch", "lastSequence", "lastOffset")
    assert [tuple(int(fields(line)[name]) for name in names) for line in lines] == expected


CHECKS = {
    ".log": check_log,
    ".index": check_index,
    ".timeindex": check_time_index,
    ".txnindex": check_txn_index,
    ".snapshot": check_snapshot,
}
