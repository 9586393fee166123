from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config import properties
from ottla.errors import ConfigError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.text(
    " \t\f\r\n\\=:#!uab0", max_size=12
)


@given(st.dictionaries(texts, texts))
def test_properties_survive_writing_and_reading(given_properties: dict[str, str]) -> None:
    assert properties.parse(properties.render(given_properties)) == given_properties


@given(st.text(" \t\f\r\n\\=:#!uab0", max_size=40) | st.text(max_size=40))
def test_garbage_is_properties_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parsed = properties.parse(text)
        assert properties.parse(properties.render(parsed)) == parsed


# What java.util.Properties makes of these texts.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a \t:\t b=c", {"a": "b=c"}),
        ("a==b", {"a": "=b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("  # comment\n ! other\n\n \t\nx=1 # not a comment", {"x": "1 # not a comment"}),
        ("# comment \\\nx=1", {"x": "1"}),
        ("a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\\n# data", {"a": "b# data"}),
        ("a=b\\", {"a": "b"}),
        ("a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}),
        (r"a\ b\=c\:d=e", {"a b=c:d": "e"}),
        (r"a=\t\n\r\f\\\q\u00e9", {"a": "\t\n\r\f\\qé"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=x\x0by\u2028z", {"a": "x\x0by\u2028z"}),
    ],
)
def test_the_format_is_javas(text: str, expected: dict[str, str]) -> None:
    assert properties.parse(text) == expected


def test_a_bad_escape_is_located(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("a=1\nb=\\u12g4\n")
    with pytest.raises(ConfigError, match=r"server.properties: line 2: \\u must be followed by"):
        properties.load(path)


def test_files_are_utf_8_with_or_without_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    path.write_bytes(b"\xef\xbb\xbfname=\xc3\xa9")
    assert properties.load(path) == {"name": "é"}
    path.write_bytes(b"name=\xe9")
    with pytest.raises(ConfigError, match="not UTF-8"):
        properties.load(path)
    with pytest.raises(ConfigError, match="cannot read"):
        properties.load(tmp_path / "absent")
