"""The files are Kafka's own, byte for byte."""

from __future__ import annotations

import base64
import contextlib
import json
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.batches import append, joined, make_batch, ref_of
from tests.storage.conftest import Opener

from ottla.config.topic import TopicConfig
from ottla.ports import EpochStart, Snapshot
from ottla.storage.local import LocalStoreOptions
from ottla.storage.local.folder import checkpoint_files, layout


def hex_of(path: Path) -> str:
    return path.read_bytes().hex(" ", -4)


def test_a_segment_is_its_batches_and_two_sparse_indexes(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), TopicConfig(index_interval_bytes=150))
    times_ms = [0x11, 0x44, 0x33, 0x22, 0x55, 0x55, 0x66]
    batches = [
        make_batch(2 * number, 2, timestamp_ms=time_ms) for number, time_ms in enumerate(times_ms)
    ]
    for batch in batches:
        append(log, batch)
    log.roll()
    append(log, make_batch(14, 1, timestamp_ms=0x77))
    stem = tmp_path / "orders-0" / "00000000000000000000"
    assert stem.with_suffix(".log").read_bytes() == joined(batches)
    # An entry when more than 150 bytes came since the last one: the third, fifth and seventh batch.
    assert hex_of(stem.with_suffix(".index")) == (
        "00000005 000000c8 00000009 00000190 0000000d 00000258"
    )
    # The largest timestamp so far and the last offset of its batch; the end has the largest of all.
    assert hex_of(stem.with_suffix(".timeindex")) == (
        "00000000 00000044 00000003 00000000 00000055 00000009 00000000 00000066 0000000d"
    )
    store.close()
    stem = tmp_path / "orders-0" / "00000000000000000014"
    assert stem.with_suffix(".log").read_bytes() == make_batch(14, 1, timestamp_ms=0x77).data
    assert hex_of(stem.with_suffix(".index")) == ""
    assert hex_of(stem.with_suffix(".timeindex")) == "00000000 00000077 00000000"


def test_several_batches_of_one_append_are_indexed_one_by_one(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), TopicConfig(index_interval_bytes=150))
    append(log, *[make_batch(number, timestamp_ms=number) for number in range(5)])
    log.roll()
    stem = tmp_path / "orders-0" / "00000000000000000000"
    assert hex_of(stem.with_suffix(".index")) == "00000002 000000c8 00000004 00000190"


def test_the_files_of_a_partition_are_kafkas(open_store: Opener, tmp_path: Path) -> None:
    topic_id = uuid.UUID("6f8a1c55-7a3e-4c0a-9b1f-0f6a0e1d2c3b")
    store = open_store(tmp_path)
    ref = ref_of("a.b_c-d", 7)._replace(topic_id=topic_id)
    for count in (2, 3):
        log = store.claim(ref, TopicConfig())
        for _ in range(count):
            append(log, make_batch(log.end_offset, epoch=log.epoch))
    log.save_snapshot(Snapshot(5, b"state"))
    folder = tmp_path / "a.b_c-d-7"
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 2\n"
    encoded = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    assert (folder / "partition.metadata").read_text() == f"version: 0\ntopic_id: {encoded}"
    assert (folder / "00000000000000000005.snapshot").read_bytes() == b"state"


def test_the_files_of_the_data_folder_are_kafkas(open_store: Opener, tmp_path: Path) -> None:
    options = LocalStoreOptions(node_id=3, cluster_id="some-cluster")
    store = open_store(tmp_path, options)
    for partition in (1, 0):
        log = store.claim(ref_of(partition=partition), TopicConfig())
        append(log, make_batch(0, 10))
    log.trim(4)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 4\n"
    store.close()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == (
        "0\n2\norders 0 10\norders 1 10\n"
    )
    mark = json.loads((tmp_path / ".kafka_cleanshutdown").read_text())
    assert mark == {"version": 0, "brokerEpoch": 1}
    properties = dict(
        line.split("=") for line in (tmp_path / "meta.properties").read_text().splitlines()
    )
    assert properties.keys() == {"version", "node.id", "cluster.id", "directory.id"}
    assert (properties["version"], properties["node.id"]) == ("1", "3")
    assert properties["cluster.id"] == store.cluster_id == "some-cluster"
    assert layout.decode_id(properties["directory.id"]) is not None


def test_meta_properties_as_java_writes_them_are_read(open_store: Opener, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Sun Nov 15 07:45:43 UTC 2026\ncluster.id=abc\ndirectory.id=x\nnode.id=1\nversion=1\n"
    )
    assert open_store(tmp_path).cluster_id == "abc"


def test_an_id_is_never_taken_for_an_option() -> None:
    assert all(not layout.encode_id(layout.random_id()).startswith("-") for _ in range(300))


@given(st.uuids())
def test_ids_survive_their_text_form(value: uuid.UUID) -> None:
    assert layout.decode_id(layout.encode_id(value)) == value


@given(st.text(max_size=40))
def test_any_text_is_an_id_or_none(text: str) -> None:
    layout.decode_id(text)


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 2**31 - 1))
def test_folder_names_tell_topic_and_partition(topic: str, partition: int) -> None:
    assert layout.parse_folder_name(layout.folder_name(topic, partition)) == (topic, partition)


@pytest.mark.parametrize(
    "name", ["", "orders", "orders-", "orders-x", "-0", "orders-01", "orders-4294967296", "a b-0"]
)
def test_other_folders_are_no_partitions(name: str) -> None:
    assert layout.parse_folder_name(name) is None


def test_a_retired_folder_has_a_name_that_fits() -> None:
    name = layout.retired_folder_name("t" * 249, 2147483647, "-delete")
    assert len(name) == 255
    assert name.startswith("ttt")
    assert name.endswith("-delete")
    assert layout.parse_folder_name(name) is None


def test_a_checkpoint_that_ends_behind_its_version_is_damaged() -> None:
    assert checkpoint_files.decode_checkpoint(b"") == []
    assert checkpoint_files.decode_checkpoint(b"0\n0\n") == []
    with pytest.raises(ValueError, match="ends behind its first line"):
        checkpoint_files.decode_checkpoint(b"0\n")


@given(st.binary(max_size=60))
def test_a_damaged_checkpoint_is_none(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        checkpoint_files.decode_checkpoint(data)


@given(st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), st.integers(0, 2**63)))
def test_offset_checkpoints_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, offsets: dict[tuple[str, int], int]
) -> None:
    path = str(tmp_path_factory.getbasetemp() / "offsets")
    checkpoint_files.write_offsets(path, offsets)
    assert checkpoint_files.read_offsets(path) == offsets


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\n1 0\n",
        b"0\n1\n1 0 0\n",
        b"0\n2\n2 0\n1 5\n",
        b"\xff\xfe",
        b"x\n",
    ],
)
def test_a_damaged_epoch_file_has_no_entries(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(content)
    assert checkpoint_files.read_epochs(str(path)) == []
    path.write_bytes(b"0\n2\n1 0\n2 5\n")
    assert checkpoint_files.read_epochs(str(path)) == [EpochStart(1, 0), EpochStart(2, 5)]
