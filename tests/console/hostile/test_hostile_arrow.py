"""Arrow data of few bytes that would fill the memory."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from ottla.console.records.arrow_values import NotArrowError, arrow_text

pa = pytest.importorskip("pyarrow")


def written(table: Any, compression: str | None = None, *, is_file: bool = False) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_file if is_file else pa.ipc.new_stream
    with make(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def word_of(size: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int32()), pa.array(["x" * size]))


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_buffers_that_are_large_when_they_are_decompressed_stay_as_they_are(
    compression: str, is_file: bool
) -> None:
    zeros = pa.table({"z": [b"\0" * (1 << 20)] * 70})
    data = written(zeros, compression, is_file=is_file)
    assert len(data) < 1 << 20
    with pytest.raises(NotArrowError, match="decompressed"):
        arrow_text(data)


@pytest.mark.parametrize(
    "column",
    [
        pa.FixedSizeListArray.from_arrays(pa.nulls(2_000_000), 2_000_000),
        pa.array([None], pa.struct([("a", pa.list_(pa.null(), 2_000_000))])),
        word_of(1 << 20),
        pa.RunEndEncodedArray.from_arrays(pa.array([200], pa.int32()), pa.array(["x" * 1000])),
        pa.array([["x" * 1_000_000]] * 20),
    ],
    ids=["fixed list", "in a struct", "word", "run", "texts"],
)
def test_rows_that_are_much_larger_than_the_data_are_not_shown(column: Any) -> None:
    with pytest.raises(NotArrowError, match="TooLarge"):
        arrow_text(written(pa.table({"c": column})))


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_values_of_all_kinds_are_shown(compression: str | None, is_file: bool) -> None:
    table = pa.table(
        {
            "number": [1, 2, None],
            "text": ["x", "y", None],
            "list": [[1], [2, 3], None],
            "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "struct": [{"x": 1, "y": "a"}] * 3,
            "word": pa.array(["q", "q", "w"]).dictionary_encode(),
            "pair": pa.array([[1, 2]] * 3, pa.list_(pa.int8(), 2)),
            "view": pa.array(["a", "b", "c"], pa.string_view()),
        }
    )
    found = json.loads(arrow_text(written(table, compression, is_file=is_file)))
    assert found["row_count"] == 3
    assert [row["list"] for row in found["rows"]] == [[1], [2, 3], None]
    assert found["rows"][0]["map"] == [["k", 1]]
    assert found["rows"][2]["word"] == "w"
