"""Records as text: formats, escapes, and lines of JSON that can be read again."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.commands.escapes import unescaped
from ottla.cli.errors import UsageError
from ottla.cli.records.text import (
    decode_internal_record,
    internal_topic_formatter,
    named_decoder,
    plain_formatter,
    template_formatter,
)
from ottla.client.model import ConsumerRecord
from ottla.inspection import json_lines as json_records
from ottla.inspection.json_lines import JsonRecordFormatter, RecordToSend
from ottla.records.record import TimestampType


def record_of(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> ConsumerRecord:
    sizes = [-1 if data is None else len(data) for data in (key, value)]
    return ConsumerRecord(
        "orders",
        3,
        42,
        1_700_000_000_000,
        TimestampType.CREATE_TIME,
        key,
        value,
        headers,
        0,
        *sizes,
    )


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("%t/%p@%o", b"orders/3@42"),
        ("%k=%s\\n", b"k=v\n"),
        ("%K %S %T\\t", b"1 1 1700000000000\t"),
        ("100%% %% %%%s", b"100% % %v"),
        ("\\x25s\\x41\\\\", b"%sA\\"),
        ("%R", b"\x00\x00\x00\x01"),
        ("%", b"%"),
    ],
)
def test_formats_are_those_of_kcat(template: str, text: bytes) -> None:
    assert template_formatter(template, b"null")(record_of()) == text


def test_what_is_absent_is_the_null_marker_and_minus_one() -> None:
    written = template_formatter("%k,%K,%s,%S,%h", b"NULL")
    record = record_of(None, None, (("a", b"1"), ("b", None)))
    assert written(record) == b"NULL,-1,NULL,-1,a=1,b=NULL"
    assert template_formatter("%k,%K,%s,%S,%h", None)(record) == b",-1,,-1,a=1,b=null"


def test_a_token_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="%q is not a placeholder"):
        template_formatter("%q", b"")


def test_deserialized_values_are_printed_readably() -> None:
    opened = named_decoder("int", "json")
    assert opened is not None
    record = opened(record_of(b"\x00\x00\x01\x00", b'{"a": [1, null]}'))
    assert plain_formatter(b":", b"\n", b"null")(record) == b'256:{"a": [1, null]}\n'
    assert json.loads(JsonRecordFormatter()(record))["value"] == {"a": [1, None]}


@given(st.text())
def test_text_without_escapes_stays_what_it_is(text: str) -> None:
    plain_text = text.replace("\\", "")
    assert unescaped(plain_text) == plain_text.encode("utf-8", "surrogatepass")


data = st.none() | st.binary() | st.text().map(str.encode)
headers = st.lists(st.tuples(st.text(), data), max_size=3).map(tuple)


@given(data, data, headers)
def test_lines_of_json_survive_the_round_trip(
    key: bytes | None, value: bytes | None, some: tuple[tuple[str, bytes | None], ...]
) -> None:
    line = JsonRecordFormatter()(record_of(key, value, some))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json_records.parse(line) == RecordToSend(key, value, some, 3, 1_700_000_000_000)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"tea", "not JSON"),
        (b"[1]", "not an object"),
        (b'{"valeu": "x"}', "'valeu' is not a field"),
        (b'{"value": {"base64": "%"}}', "not base64"),
        (b'{"value": "x", "partition": "1"}', "whole number"),
        (b'{"value": "x", "headers": ["a"]}', "headers are"),
        (b'{"value": "x", "aborted": true}', "consumers do not see"),
    ],
)
def test_lines_that_are_no_records_are_refused(line: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        json_records.parse(line)


def test_a_line_needs_no_more_than_a_value() -> None:
    assert json_records.parse(b'{"value": {"a": 1}}') == RecordToSend(
        None, b'{"a":1}', (), None, None
    )
    found = json_records.parse(b'{"headers": {"a": "b"}, "timestamp": -1}')
    assert found == RecordToSend(None, None, (("a", b"b"),), None, None)


@given(st.binary(max_size=40))
def test_garbage_is_refused_or_read_but_never_breaks(line: bytes) -> None:
    with contextlib.suppress(ValueError):
        json_records.parse(line)


@given(data, data, st.sampled_from(["__consumer_offsets", "__transaction_state"]))
def test_records_of_internal_topics_are_shown_whatever_they_are(
    key: bytes | None, value: bytes | None, topic: str
) -> None:
    record = decode_internal_record(record_of(key, value)._replace(topic=topic))
    assert json.loads(JsonRecordFormatter()(record))["key"]["kind"]
    assert internal_topic_formatter(b"\n", b"null")(record).endswith(b"}\n")


def test_numbers_that_json_does_not_have_are_words() -> None:
    opened = named_decoder("double", "json")
    assert opened is not None
    record = opened(record_of(b"\x7f\xf8" + bytes(6), b'{"a": [Infinity, -Infinity, 1.5]}'))

    def refuse(word: str) -> None:
        raise AssertionError(word)

    found = json.loads(JsonRecordFormatter()(record), parse_constant=refuse)
    assert (found["key"], found["value"]) == ("NaN", {"a": ["Infinity", "-Infinity", 1.5]})
