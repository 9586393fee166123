"""The catalog survives crashes, and damage to it is never passed over."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.ports import JsonValue, StorageError
from ottla.storage.local.folder import catalog_journal
from ottla.storage.local.folder.catalog_journal import Journal, decode_line, encode_line


def written(path: Path) -> list[bytes]:
    """A journal of five changes; answers its lines."""
    journal = Journal(str(path))
    for number in range(5):
        journal.commit({f"topic/{number}": {"partitions": number}}, journal.revision)
    journal.close()
    return path.read_bytes().splitlines(keepends=True)


def reopened(path: Path) -> tuple[int, dict[str, JsonValue]]:
    journal = Journal(str(path))
    journal.close()
    return journal.revision, dict(journal.entries())


def test_the_catalog_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "catalog.journal"
    journal = Journal(str(path))
    assert journal.is_new
    journal.commit({"a": 1, "b": {"c": [1, None]}}, 0)
    journal.commit({"a": None}, 1)
    journal.raise_epoch(7)
    journal.close()
    again = Journal(str(path))
    assert not again.is_new
    assert (again.revision, again.epoch, dict(again.entries())) == (2, 7, {"b": {"c": [1, None]}})
    assert again.commit({"d": "e"}, 2) == 3
    again.close()
    assert reopened(path) == (3, {"b": {"c": [1, None]}, "d": "e"})


def test_a_last_line_torn_at_any_byte_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "catalog.journal"
    lines = written(path)
    kept = b"".join(lines[:-1])
    for cut in range(len(lines[-1]) - 1):
        path.write_bytes(kept + lines[-1][:cut])
        revision, entries = reopened(path)
        assert (revision, len(entries)) == (4, 4)
        assert path.read_bytes() == kept


def test_a_line_that_lacks_only_its_end_counts(tmp_path: Path) -> None:
    path = tmp_path / "catalog.journal"
    lines = written(path)
    path.write_bytes(b"".join(lines)[:-1])
    journal = Journal(str(path))
    assert journal.revision == 5
    journal.commit({"more": 1}, 5)
    journal.close()
    assert reopened(path)[0] == 6


def test_zeros_after_the_last_line_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "catalog.journal"
    data = b"".join(written(path))
    path.write_bytes(data + b"\0" * 300)
    assert reopened(path)[0] == 5
    assert path.read_bytes() == data


def test_damage_in_the_middle_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "catalog.journal"
    lines = written(path)
    rng = random.Random(11)
    for _ in range(100):
        data = bytearray(b"".join(lines))
        data[rng.randrange(len(data) - len(lines[-1]) - 1)] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        with pytest.raises(StorageError, match=r"catalog\.journal is damaged in line"):
            Journal(str(path))
        assert path.read_bytes() == data, "nothing is changed"


def test_a_missing_line_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "catalog.journal"
    lines = written(path)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(StorageError, match="revision 4 follows 2"):
        Journal(str(path))


def test_a_journal_that_has_grown_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "catalog.journal"
    journal = Journal(str(path))
    journal.raise_epoch(3)
    revision = journal.commit({"kept": "value"}, 0)
    largest = 0
    for number in range(300):
        revision = journal.commit({"state": [number] * 500}, revision)
        largest = max(largest, path.stat().st_size)
    journal.close()
    assert 200 * 1024 < largest < 300 * 1024, "300 changes of 2 KB each"
    assert path.stat().st_size < largest
    again = Journal(str(path))
    assert (again.revision, again.epoch) == (revision, 3)
    assert again.entries() == {"kept": "value", "state": [299] * 500}
    again.close()


def test_a_journal_of_many_entries_is_not_encoded_with_every_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 50,000 ACLs each change, of whatever, held the event loop for a tenth of a second."""
    path = tmp_path / "catalog.journal"
    journal = Journal(str(path))
    journal.commit({f"acl/{number}": "x" * 100 for number in range(3000)}, 0)
    encoded_bytes = 0

    def counting(revision: int, epoch: int, changes: Mapping[str, JsonValue]) -> bytes:
        nonlocal encoded_bytes
        line = encode_line(revision, epoch, changes)
        encoded_bytes += len(line)
        return line

    monkeypatch.setattr(catalog_journal, "encode_line", counting)
    for number in range(60):
        journal.commit({f"acl/{number % 5}": "y" * 10_000}, journal.revision)
    journal.commit(dict.fromkeys(journal.entries()), journal.revision)
    for _ in range(60):
        journal.commit({"acl/1": "z" * 10_000}, journal.revision)
    journal.close()
    written_bytes = 3000 * 115 + 120 * 10_060
    assert encoded_bytes < 2 * written_bytes
    assert path.stat().st_size < written_bytes / 2
    assert reopened(path) == (122, {"acl/1": "z" * 10_000})


json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.integers(0), st.integers(0), st.dictionaries(st.text(), json_values, max_size=4))
def test_lines_are_read_as_they_were_written(
    revision: int, epoch: int, changes: dict[str, JsonValue]
) -> None:
    line = encode_line(revision, epoch, changes)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_line(line[:-1]) == (revision, epoch, changes)


@given(st.binary(max_size=80))
def test_garbage_is_no_line(data: bytes) -> None:
    with pytest.raises(ValueError, match="checksum"):
        decode_line(data)
