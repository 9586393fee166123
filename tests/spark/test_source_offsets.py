"""What a checkpoint says of a micro-batch, in the files that Spark writes."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.sink.checkpoint_files import (
    ArrowFiles,
    CheckpointError,
    FsspecFiles,
    LocalFiles,
    StoreError,
    open_files,
    read_storage_options,
)
from ottla.spark.sink.query_checkpoint import Checkpoint, find_checkpoint
from ottla.spark.source.stream_offsets import SourceOffset

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
ABOUT = '{"batchWatermarkMs":0,"batchTimestampMs":1794756112556,"conf":{}}'


def note(folder: Path, number: int, *sources: object, version: str = "v1") -> None:
    """As Spark writes `offsets/N`; a source without a position is a dash."""
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    lines = ["-" if each is None else json.dumps(each) for each in sources]
    (folder / "offsets" / str(number)).write_text("\n".join([version, ABOUT, *lines]))


def begin(folder: Path, query: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": query}))


def position(at: dict[TopicPartition, int], **more: Any) -> dict[str, Any]:
    return SourceOffset(at, cluster="c", **more).to_json()


def checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(str(folder), LocalFiles(folder))


def test_a_micro_batch_is_from_the_last_position_to_its_own(tmp_path: Path) -> None:
    note(tmp_path, 4, position({ZERO: 10}))
    note(tmp_path, 5, position({ZERO: 15, ONE: 7}, new={ONE: 3}))
    (source,) = checkpoint(tmp_path).planned(5).sources
    assert source.cluster == "c"
    assert source.start == {ZERO: 10, ONE: 3}
    assert source.end == {ZERO: 15, ONE: 7}


def test_the_first_one_begins_where_its_position_says(tmp_path: Path) -> None:
    note(tmp_path, 0, position({ZERO: 15, ONE: 7}, begin={ZERO: 2}, new={ONE: 3}))
    (source,) = checkpoint(tmp_path).planned(0).sources
    assert source.start == {ZERO: 2, ONE: 3}
    note(tmp_path, 0, position({ZERO: 15}))
    (source,) = checkpoint(tmp_path).planned(0).sources
    assert source.start == {}


def test_several_sources_are_told_apart_and_those_of_others_left_out(tmp_path: Path) -> None:
    there = TopicPartition("rates", 0)
    spark_kafka = {"payments": {"0": 5}}
    note(tmp_path, 0, position({ZERO: 1}), 7, spark_kafka, position({there: 2}), None, {"o": 4})
    note(tmp_path, 1, position({ZERO: 3}), 8, spark_kafka, position({there: 4}), None, {"o": 5})
    sources = checkpoint(tmp_path).planned(1).sources
    assert [(each.start, each.end) for each in sources] == [
        ({ZERO: 1}, {ZERO: 3}),
        ({there: 2}, {there: 4}),
    ]


def test_plans_that_differ_have_other_digests(tmp_path: Path) -> None:
    note(tmp_path, 0, position({ZERO: 1}))
    first = checkpoint(tmp_path).planned(0).digest
    assert first == checkpoint(tmp_path).planned(0).digest
    note(tmp_path, 0, position({ZERO: 2}))
    assert checkpoint(tmp_path).planned(0).digest != first


def test_a_plan_that_is_missing_or_of_a_new_format_is_explained(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no offsets/3"):
        checkpoint(tmp_path).planned(3)
    note(tmp_path, 3, position({ZERO: 1}), version="v2")
    with pytest.raises(CheckpointError, match="commitSourceOffsets=false"):
        checkpoint(tmp_path).planned(3)


def test_the_checkpoint_is_found_by_its_option_or_below_the_sessions_root(tmp_path: Path) -> None:
    for name, query in (("a", "1"), ("b", "2"), ("c", "3")):
        begin(tmp_path / name, query)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "metadata").write_text("?")
    root = str(tmp_path)
    assert find_checkpoint("2", None, root, None, {}).location == f"{root}/b"
    assert find_checkpoint("2", None, root + "/", "b", {}).query() == "2"
    assert find_checkpoint("2", None, f"file:{root}", "b", {}).query() == "2"
    assert find_checkpoint("x", f"file://{root}/c", None, None, {}).query() == "3"
    for wrong in ({"query_name": "a"}, {"query_name": "nowhere"}):
        with pytest.raises(CheckpointError, match="No checkpoint below"):
            find_checkpoint("2", None, root, storage={}, **wrong)
    with pytest.raises(CheckpointError, match="No checkpoint below"):
        find_checkpoint("2", None, f"{root}/nowhere", None, {})
    with pytest.raises(CheckpointError, match="option checkpointLocation"):
        find_checkpoint("2", None, None, None, {})


def test_a_checkpoint_below_a_root_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path / "a", "once")
    assert find_checkpoint("once", None, str(tmp_path), None, {}).location == f"{tmp_path}/a"
    monkeypatch.setattr(LocalFiles, "folders", lambda self: pytest.fail("it is known"))
    assert find_checkpoint("once", None, str(tmp_path), None, {}).location == f"{tmp_path}/a"


def test_names_mean_what_they_mean_to_spark(tmp_path: Path) -> None:
    """Hadoop unquotes nothing: Spark makes folders of these names."""
    for name in ("a%20b", "a b", "a?b#c"):
        begin(tmp_path / name, name)
        for location in (
            f"{tmp_path}/{name}",
            f"file://{tmp_path}/{name}",
            f"file:{tmp_path}/{name}",
        ):
            assert find_checkpoint("any", location, None, None, {}).query() == name


def test_the_newest_plan_is_found(tmp_path: Path) -> None:
    assert checkpoint(tmp_path).newest() is None
    for number in (9, 10, 2):
        note(tmp_path, number, position({ZERO: number}))
    (tmp_path / "offsets" / ".11.crc").write_text("")
    (tmp_path / "offsets" / "12.tmp").write_text("")
    fs = pytest.importorskip("pyarrow.fs")
    fsspec = pytest.importorskip("fsspec")
    for files in (
        LocalFiles(tmp_path),
        ArrowFiles(fs.LocalFileSystem(), str(tmp_path)),
        FsspecFiles(fsspec.filesystem("file"), str(tmp_path)),
    ):
        assert Checkpoint("q", files).newest() == 10
        assert files.names("nowhere") == []


def test_a_store_that_pyarrow_opens_is_read(tmp_path: Path) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    begin(tmp_path / "q", "7")
    note(tmp_path / "q", 0, position({ZERO: 1}, new={ZERO: 0}))
    files = ArrowFiles(fs.LocalFileSystem(), f"{tmp_path}/")
    assert files.folders() == ["q"]
    assert files.read("q/nothing") is None
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    found = Checkpoint("s3://bucket/q", ArrowFiles(store, "q"))
    assert found.query() == "7"
    assert found.planned(0).sources[0].start == {ZERO: 0}
    assert ArrowFiles(fs.LocalFileSystem(), f"{tmp_path}/nowhere").folders() == []


def test_a_store_that_fsspec_opens_is_read(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/q/metadata", b'{"id":"7"}')
    files = FsspecFiles(memory, "/bucket")
    assert files.folders() == ["q"]
    assert files.read("q/nothing") is None
    assert Checkpoint("memory://bucket/q", open_files("memory://bucket/q", {})).query() == "7"
    assert FsspecFiles(memory, "/nowhere").folders() == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("AWS Error NETWORK_CONNECTION during HeadObject\n operation"), StoreError),
        (OSError("AWS Error SLOW_DOWN during GetObject operation"), StoreError),
        (OSError("AWS Error ACCESS_DENIED during HeadObject operation"), CheckpointError),
        (PermissionError("not for you"), CheckpointError),
    ],
)
def test_a_store_that_does_not_answer_is_told_from_one_that_refuses(
    error: OSError, kind: type[Exception]
) -> None:
    def fail(name: str) -> None:
        raise error

    store = SimpleNamespace(open_input_stream=fail, cat_file=fail, invalidate_cache=lambda: None)
    for files in (ArrowFiles(store, "bucket"), FsspecFiles(store, "bucket")):
        with pytest.raises(CheckpointError, match="bucket/metadata cannot be read") as caught:
            files.read("metadata")
        assert type(caught.value) is kind
        assert "\n" not in str(caught.value)


def test_s3_gets_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    asked: list[dict[str, Any]] = []
    fake = SimpleNamespace(S3FileSystem=lambda **options: asked.append(options))
    monkeypatch.setitem(sys.modules, "pyarrow.fs", fake)
    monkeypatch.setattr("pyarrow.fs", fake, raising=False)
    options = read_storage_options('{"endpoint_override":"127.0.0.1:9000","scheme":"http"}')
    for scheme in ("s3", "s3a", "s3n"):
        assert isinstance(open_files(f"{scheme}://bucket/q", options), ArrowFiles)
    assert asked == [options] * 3


def test_a_store_that_nothing_opens_says_what_to_do() -> None:
    with pytest.raises(CheckpointError, match="commitSourceOffsets=false"):
        open_files("nosuchstore://bucket/q", {})
    for wrong in ("[1]", "{", "x", '{"secret_key":"hushed"', '["hushed"]'):
        with pytest.raises(ConfigError, match="checkpointStorageOptions") as caught:
            read_storage_options(wrong)
        shown = "".join(traceback.format_exception(caught.value))
        assert "hushed" not in shown
    assert read_storage_options(None) == {}


def test_state_of_a_query_is_seen(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path), LocalFiles(tmp_path))
    (tmp_path / "offsets").mkdir()
    assert not checkpoint.keeps_state()
    (tmp_path / "state" / "0").mkdir(parents=True)
    assert checkpoint.keeps_state()
