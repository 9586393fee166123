"""`ottla log dump`: what is in files, and every kind of damage."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Ottla
from tests.cli.log_folders import CODECS, TOPIC, write_folder
from tests.records.test_legacy import built, numbered
from tests.storage.worker_stores import arrange

from ottla import Broker, Producer
from ottla.cli.main import main
from ottla.records.batch import build_batch, read_batch, split_batches
from ottla.records.compression import Codec
from ottla.records.crc import crc32c
from ottla.records.record import Record

KINDS = ("log", "index", "timeindex", "txnindex", "snapshot")
FUZZ_RUNS = 40
CAMPAIGN_RUNS = 5000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dump") / "data"
    write_folder(folder)
    return folder


@pytest.fixture
def partition(data: Path, tmp_path: Path) -> Path:
    """A copy of a partition's folder to damage."""
    copy = tmp_path / f"{TOPIC}-0"
    shutil.copytree(data / copy.name, copy)
    return copy


Dump = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def dump(capsys: pytest.CaptureFixture[str]) -> Dump:
    """The command in this process: its exit code, what it printed as JSON, and what on stderr."""

    def run(*arguments: str | Path) -> tuple[int, list[dict[str, Any]], str]:
        code = main(["log", "dump", "-o", "json", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, [json.loads(line) for line in printed.out.splitlines()], printed.err

    return run


def segments(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def test_a_data_folder_of_workers_is_looked_into_as_a_whole(
    data: Path, tmp_path: Path, ottla: Ottla
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(data, folder)
    # With 99 workers most stores have no partition.
    arrange(folder, 99)
    done = ottla("log", "dump", str(folder), "--verify-only")
    assert done.code == 0, done.err
    found = {
        Path(line.split(":")[0]).relative_to(folder / "workers").parts[1:] for line in done.lines
    }
    assert found == {path.relative_to(data).parts for path in data.glob("*-*/*") if path.is_file()}
    assert "no damage" in done.err


def test_a_file_that_is_not_there_is_told_before_anything_else(inside: Ottla) -> None:
    done = inside("log", "dump", "nope")
    assert (done.code, done.out) == (1, "")
    assert done.err == "ottla: nope: No such file or directory\n"


def test_a_whole_data_folder_is_good(data: Path, ottla: Ottla) -> None:
    assert min(len(list(data.glob(f"{TOPIC}-0/*.{kind}"))) for kind in KINDS) >= 1
    done = ottla("log", "dump", str(data), "--verify-only")
    assert done.code == 0, done.err
    assert all(line.endswith(", good") for line in done.lines)
    assert {line.split(":")[0] for line in done.lines} == {
        str(path) for path in data.glob("*-*/*") if path.is_file()
    }
    assert "no damage" in done.err


def test_a_transaction_index_that_is_not_what_was_written_is_told(
    partition: Path, dump: Dump
) -> None:
    checkpoint = partition / "transaction-index-checkpoint"
    code, found, _ = dump(checkpoint)
    assert code == 0
    assert {line["type"] for line in found if "type" in line} >= {"transaction_index_checksum"}
    index = next(partition.glob("*.txnindex"))
    content = bytearray(index.read_bytes())
    content[5] ^= 1
    index.write_bytes(content)
    code, _, err = dump(checkpoint)
    assert code == 1
    assert f"{index.name} is missing, or not what was written" in err
    index.unlink()
    assert dump(checkpoint)[0] == 1
    checkpoint.write_text("0\n1\n0 34\n")
    assert dump(checkpoint)[0] == 1


def test_records_are_printed_for_people(data: Path, ottla: Ottla) -> None:
    first = segments(data / f"{TOPIC}-0")[0]
    done = ottla("log", "dump", str(first), "--print-data-log", "--headers")
    assert done.code == 0, done.err
    assert done.lines[:2] == [f"Dumping {first}", "Log starting offset: 0"]
    assert done.lines[2].startswith("baseOffset: 0 lastOffset: 0 count: 1 baseSequence: 0 ")
    assert done.lines[2].endswith("isvalid: true")
    assert done.lines[5].startswith("| offset: 1 CreateTime: ")
    assert done.lines[5].endswith(
        "headerKeys: [trace,empty] key: key-1 payload: \N{REPLACEMENT CHARACTER} value "
        "headers: [trace=1,empty=null]"
    )


def test_a_terminal_without_the_letters_gets_escapes(data: Path, ottla: Ottla) -> None:
    first = str(segments(data / f"{TOPIC}-0")[0])
    done = ottla("log", "dump", first, "--records", PYTHONIOENCODING="ascii")
    assert done.code == 0, done.err
    assert "\\ufffd value" in done.out


def test_programs_get_batches_and_records(data: Path, dump: Dump) -> None:
    code, found, _ = dump(data / f"{TOPIC}-0", "--records")
    assert code == 0
    batches, records = [], []
    for path in segments(data / f"{TOPIC}-0"):
        content = path.read_bytes()
        for position, header in split_batches(content):
            batches.append((str(path), position, header.base_offset, header.crc))
            records += [record.offset for record in read_batch(content, position)]
    assert [
        (one["file"], one["position"], one["base_offset"], one["crc"])
        for one in found
        if one["type"] == "batch"
    ] == batches
    assert {one["compression"] for one in found if one["type"] == "batch"} == set(CODECS)
    shown = [one for one in found if one["type"] == "record"]
    assert [one["offset"] for one in shown] == records
    assert shown[1]["key"] == "key-1"
    assert shown[1]["value"] == {"base64": "/iB2YWx1ZQ=="}
    assert shown[1]["headers"] == [
        {"key": "trace", "value": "1"},
        {"key": "empty", "value": None},
    ]
    markers = [one["control_type"] for one in shown if "control_type" in one]
    assert markers == ["COMMIT", "ABORT"] * 2
    aborted = [one for one in found if one["type"] == "aborted_transaction"]
    assert [one["last_offset"] - one["first_offset"] for one in aborted] == [1, 1]
    kinds = {one["type"] for one in found}
    assert {"index_entry", "time_index_entry", "producer", "leader_epoch", "topic_id"} < kinds


def test_internal_topics_are_decoded(data: Path, dump: Dump) -> None:
    folders = [*data.glob("__consumer_offsets-*"), *data.glob("__transaction_state-*")]
    code, found, _ = dump(*folders, "--decode")
    assert code == 0
    decoded = [one["decoded"] for one in found if "decoded" in one]
    kinds = {one["kind"] for one in decoded}
    assert {name for name in kinds if not name.startswith("consumer_group_")} == {
        "offset_commit",
        "group_metadata",
        "transaction",
    }
    assert "consumer_group_current_member_assignment" in kinds
    states = [one["value"]["data"]["state"] for one in decoded if one["kind"] == "transaction"]
    assert states[0] == "Empty"
    assert states[-1] == "CompleteAbort"


def old_segment(folder: Path) -> Path:
    """Messages of magic 0 and 1, then a batch."""
    records = numbered(9)
    content = built(0, Codec.NONE, records[:2]) + built(1, Codec.GZIP, records[2:6])
    content += built(1, Codec.NONE, records[6:8]) + build_batch(records[8:], base_offset=8)
    path = folder / f"{0:020d}.log"
    path.write_bytes(content)
    return path


def test_formats_from_before_kafka_0_11_are_read(tmp_path: Path, dump: Dump) -> None:
    path = old_segment(tmp_path)
    code, found, err = dump(path, "--records")
    assert code == 0, err
    batches = [one for one in found if one["type"] == "batch"]
    assert [one["magic"] for one in batches] == [0, 0, 1, 1, 1, 2]
    assert [one["last_offset"] for one in batches] == [0, 1, 5, 6, 7, 8]
    assert [one["compression"] for one in batches] == ["none", "none", "gzip"] + ["none"] * 3
    assert [one["offset"] for one in found if one["type"] == "record"] == list(range(9))
    content = bytearray(path.read_bytes())
    content[30] ^= 1
    path.write_bytes(content)
    code, found, err = dump(path, "--records")
    assert code == 1
    assert [one["is_valid"] for one in found if one["type"] == "batch"] == [False] + [True] * 5


def test_a_part_of_a_segment_can_be_read(data: Path, dump: Dump) -> None:
    first = segments(data / f"{TOPIC}-0")[0]
    whole = dump(first)[1]
    code, part, _ = dump(first, "--max-bytes", str(whole[3]["position"] + 1))
    assert (code, part) == (0, whole[:3])


def test_a_broker_may_be_running(tmp_path: Path, dump: Dump) -> None:
    with Broker(data_dir=tmp_path) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send_many(TOPIC, [b"x" * 100] * 500).result()
        code, found, err = dump(tmp_path, "--records")
        assert code == 0, err
        assert sum(one["type"] == "record" for one in found) == 500


# Damage


def test_a_wrong_byte_is_found_and_the_rest_is_printed(partition: Path, dump: Dump) -> None:
    path = segments(partition)[0]
    content = bytearray(path.read_bytes())
    (_, first), (position, second), *_ = split_batches(content)
    content[position + second.size_bytes - 1] ^= 1
    path.write_bytes(content)
    code, found, err = dump(path)
    assert code == 1
    assert f"damage: {path} at {position}: the checksum is wrong" in err
    batches = [one for one in found if one["type"] == "batch"]
    assert [one["is_valid"] for one in batches][:3] == [True, False, True]
    assert [one["position"] for one in found if one["type"] == "damage"] == [first.size_bytes]


def test_what_is_behind_a_wrong_length_is_found_again(partition: Path, dump: Dump) -> None:
    path = segments(partition)[0]
    content = bytearray(path.read_bytes())
    whole = split_batches(content)
    position = whole[2][0]
    struct.pack_into(">i", content, position + 8, whole[2][1].length + 5)
    path.write_bytes(content)
    code, found, err = dump(path)
    assert code == 1
    assert f"invalid bytes before the next batch at {whole[3][0]}" in err
    positions = [one["position"] for one in found if one["type"] == "batch"]
    assert positions == [one[0] for one in whole if one[0] != position]


def test_a_torn_end_is_found(partition: Path, dump: Dump) -> None:
    path = segments(partition)[-1]
    content = path.read_bytes()
    position, last = split_batches(content)[-1]
    path.write_bytes(content[:-3])
    code, found, err = dump(path)
    assert code == 1
    assert found[-1]["position"] == position
    assert f"{last.size_bytes - 3} invalid bytes at the end" in err


@pytest.mark.parametrize("left_bytes", [1, 16, 17, 18, 60])
def test_a_torn_header_is_found(partition: Path, dump: Dump, left_bytes: int) -> None:
    path = segments(partition)[0]
    content = path.read_bytes()
    position, _ = split_batches(content)[2]
    path.write_bytes(content[: position + left_bytes])
    code, found, err = dump(path)
    assert code == 1
    assert found[-1]["position"] == position
    assert f"{left_bytes} invalid bytes at the end" in err


def test_offsets_out_of_order_are_found(partition: Path, dump: Dump) -> None:
    path = segments(partition)[1]
    content = bytearray(path.read_bytes())
    position, header = split_batches(content)[2]
    struct.pack_into(">q", content, position, header.base_offset - 1)
    path.write_bytes(content)
    code, _, err = dump(path)
    assert code == 1
    assert f"offset {header.base_offset - 1} where {header.base_offset} comes next" in err


def test_segments_that_overlap_are_found(partition: Path, dump: Dump) -> None:
    second = segments(partition)[1]
    first_offset = int(second.stem)
    content = bytearray(second.read_bytes())
    struct.pack_into(">q", content, 0, first_offset - 1)
    (partition / f"{first_offset - 1:020d}.log").write_bytes(content)
    code, _, err = dump(*segments(partition)[:2], "--verify-only")
    assert code == 1
    assert f"it begins below {first_offset}, where the segment before it ends" in err


def test_segments_are_compared_in_the_order_of_offsets(partition: Path, dump: Dump) -> None:
    first, second, third = segments(partition)[:3]
    again = f"{partition}/../{partition.name}/{first.name}"
    code, found, err = dump(third, first, second, first, again)
    assert code == 0, err
    assert list(dict.fromkeys(each["file"] for each in found)) == [
        *map(str, (first, second, third))
    ]
    assert err == "no damage in any of the files that were checked: 3\n"
    code, _, err = dump(first, third)
    assert (code, "gap: " in err) == (0, False), err


def test_a_segment_that_is_missing_is_told(partition: Path, dump: Dump) -> None:
    first, second, third = segments(partition)[:3]
    for path in partition.glob(f"{second.stem}.*"):
        path.unlink()
    for given in ([partition], [third, first]):
        code, _, err = dump(*given)
        assert (code, err) == (
            0,  # a compacted topic may look the same
            f"gap: {third} begins at {int(third.stem)}, but the segment before it ends at "
            f"{int(second.stem)}: what lay between is lost, unless the topic is compacted\n",
        )


def test_malformed_records_under_a_right_checksum_are_found(partition: Path, dump: Dump) -> None:
    path = segments(partition)[0]
    batch = bytearray(build_batch([Record(0, 1, b"key", b"value")]))
    # One record is there, two are promised.
    struct.pack_into(">i", batch, 57, 2)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    path.write_bytes(batch)
    assert dump(path)[0] == 0
    code, _, err = dump(path, "--records")
    assert code == 1
    assert "damage: " in err


@pytest.mark.parametrize(
    ("kind", "form", "change", "words"),
    [
        ("index", ">ii", (0, 1), "no batch begins at position"),
        ("index", ">ii", (-1, 0), "ends with"),
        ("index", ">ii", (-100_000, 0), "out of order"),
        ("timeindex", ">qi", (1, 0), "timestamp"),
        ("timeindex", ">qi", (-(2**62), 0), "out of order"),
        ("timeindex", ">qi", (0, 100_000), "no batch has offset"),
        ("txnindex", ">hqqqq", (0, 1, 0, 0, 0), "no abort marker of producer"),
        ("txnindex", ">hqqqq", (0, 0, 0, -1, 0), ""),
        ("txnindex", ">hqqqq", (0, 0, 0, 1000, 0), "the segment ends before"),
        ("txnindex", ">hqqqq", (1, 0, 0, 0, 0), "there is no version 1"),
    ],
)
def test_an_index_that_does_not_fit_is_found(
    partition: Path, dump: Dump, kind: str, form: str, change: tuple[int, ...], words: str
) -> None:
    path = sorted(partition.glob(f"*.{kind}"))[0]
    content = bytearray(path.read_bytes())
    size = struct.calcsize(form)
    last = len(content) - size
    fields = struct.unpack_from(form, content, last)
    added = [field + more for field, more in zip(fields, change, strict=True)]
    struct.pack_into(form, content, last, *added)
    path.write_bytes(content)
    code, found, err = dump(path)
    assert code == 1
    assert words in err
    assert [one["position"] for one in found if one["type"] == "damage"] == [last]


def test_a_time_that_comes_too_late_is_found(partition: Path, dump: Dump) -> None:
    path = segments(partition)[0]
    content = path.read_bytes()
    (_, first), (_, second), *_ = split_batches(content)
    index = path.with_suffix(".timeindex")
    index.write_bytes(struct.pack(">qi", second.max_timestamp, 1))
    assert dump(index)[0] == 0
    early = build_batch([Record(0, second.max_timestamp + 9, None, b"")], base_offset=0)
    path.write_bytes(early + content[first.size_bytes :])
    code, _, err = dump(index)
    assert code == 1
    assert f"a batch before offset 1 has timestamp {second.max_timestamp + 9}" in err


def test_a_file_that_kafka_has_made_larger_than_it_needs_is_good(
    partition: Path, dump: Dump
) -> None:
    paths = [segments(partition)[0].with_suffix(f".{kind}") for kind in ("index", "timeindex")]
    before = dump(*paths)
    for path, size in zip(paths, (8, 12), strict=True):
        path.write_bytes(path.read_bytes() + bytes(1000 * size))
    assert dump(*paths)[:2] == before[:2]
    for path, size in zip(paths, (8, 12), strict=True):
        path.write_bytes(bytes(1000 * size))
    assert dump(*paths)[:2] == (0, [])


def test_an_index_without_its_segment_is_damage(partition: Path, dump: Dump) -> None:
    path = segments(partition)[0]
    path.unlink()
    code, found, err = dump(path.with_suffix(".index"))
    assert code == 1
    assert "there is no segment" in err
    assert len(found) > 1


def test_damaged_small_files_are_found(partition: Path, dump: Dump) -> None:
    snapshot = sorted(partition.glob("*.snapshot"))[-1]
    content = bytearray(snapshot.read_bytes())
    content[-1] ^= 1
    snapshot.write_bytes(content)
    (partition / "partition.metadata").write_text("version: 0\n")
    for epochs in ("0\n1\n5 x\n", "0\n"):
        (partition / "leader-epoch-checkpoint").write_text(epochs)
        code, _, err = dump(partition, "--verify-only")
        assert code == 1
        told = [line for line in err.splitlines() if line.startswith("damage: ")]
        assert len(told) == 3
        assert err.splitlines()[-1].startswith("ottla: damaged files: 3 of ")


def test_what_is_no_file_of_a_partition_is_refused(tmp_path: Path, dump: Dump) -> None:
    notes, empty = tmp_path / "notes.txt", tmp_path / "empty"
    notes.write_text("x")
    empty.mkdir()
    for arguments, code, words in [
        ([notes], 2, "not a file of a partition"),
        ([tmp_path / "gone.log"], 1, "gone.log: No such file or directory"),
        ([empty], 1, f"no files of partitions are in {empty}"),
        ([], 2, "no file to look into"),
    ]:
        found, _, err = dump(*arguments)
        assert found == code, err
        (line,) = err.splitlines()
        assert words in line


# Fuzzing


def mutated(content: bytes, chance: random.Random) -> bytes:
    """The content with bytes changed, cut off, doubled or made up."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0:
                del data[at:]
            case 1:
                data[at : at + chance.randint(1, 40)] = b""
            case 2:
                data[at:at] = chance.randbytes(chance.randint(1, 80))
            case 3:
                data[at:at] = data[: chance.randint(1, 400)]
            case 4:
                data[at : at + 8] = chance.choice([b"\xff", b"\0", b"\x7f"]) * 8
            case _ if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
    return bytes(data)


def fuzz(partition: Path, capsys: pytest.CaptureFixture[str], runs: int) -> None:
    originals = {path: path.read_bytes() for path in sorted(partition.iterdir())}
    seed = random.randrange(sys.maxsize)
    chance = random.Random(seed)
    found_damage = 0
    for run in range(runs):
        path = chance.choice(list(originals))
        path.write_bytes(mutated(originals[path], chance))
        os.utime(path, (0, 0))  # nobody is writing any more
        beside = [other for other in originals if other.stem == path.stem]
        try:
            form = chance.choice(["json", "table", "yaml"])
            options = ["--decode", "--records", "--headers"] if chance.random() < 0.7 else []
            code = main(["log", "dump", "-o", form, *map(str, beside), *options])
            printed = capsys.readouterr()
            assert code in (0, 1)
            assert (code == 1) == ("damage: " in printed.err)
            found_damage += code
        except Exception as error:
            raise AssertionError(f"seed {seed}, run {run}, {path.name}") from error
        path.write_bytes(originals[path])
    assert found_damage > runs / 2


def test_no_content_of_a_file_makes_it_fail(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fuzz(partition, capsys, FUZZ_RUNS)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_no_content_of_a_file_makes_it_fail_at_length(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fuzz(partition, capsys, CAMPAIGN_RUNS)
