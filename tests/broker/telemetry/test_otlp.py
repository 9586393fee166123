"""Decoding what clients push: what was encoded comes out, and garbage is refused within limits."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.telemetry.otlp_payloads import (
    CUMULATIVE,
    field,
    fixed,
    gauge,
    histogram,
    many_gauges,
    payload,
    point,
    total,
    varint,
)

from ottla.broker.loop.loop_share import at_once
from ottla.broker.telemetry import otlp
from ottla.broker.telemetry.otlp import (
    DecodedMetrics,
    MalformedMetricsError,
    Point,
    PointKind,
    TooManyPointsError,
    decode_metrics,
)

ATTRIBUTES = {"node_id": 1, "topic": "käse", "is_new": True, "ratio": 0.5, "below": -3}
AS_TEXT = (
    ("node_id", "1"),
    ("topic", "käse"),
    ("is_new", "true"),
    ("ratio", "0.5"),
    ("below", "-3"),
)


def decode(data: bytes) -> DecodedMetrics:
    return at_once(decode_metrics(data))


def test_gauges_and_sums_with_their_attributes() -> None:
    data = payload(
        gauge("a.avg", point(0.25, ATTRIBUTES), point(-7)),
        total("a.total", point(3)),
        total("b.total", point(4.5), temporality=CUMULATIVE),
        total("c", point(-1), is_monotonic=False),
        resource={"group_id": "readers"},
    )
    group = ("group_id", "readers")
    assert decode(data) == DecodedMetrics(
        [
            Point("a.avg", PointKind.GAUGE, False, (group, *AS_TEXT), 0.25),
            Point("a.avg", PointKind.GAUGE, False, (group,), -7),
            Point("a.total", PointKind.DELTA, True, (group,), 3),
            Point("b.total", PointKind.CUMULATIVE, True, (group,), 4.5),
            Point("c", PointKind.DELTA, False, (group,), -1),
        ],
        0,
    )


@given(
    st.lists(
        st.tuples(
            st.text(max_size=40),
            st.one_of(
                st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
            ),
            st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=5),
        ),
        max_size=8,
    )
)
def test_what_was_encoded_is_decoded(
    metrics: list[tuple[str, int | float, dict[str, str]]],
) -> None:
    data = payload(*(gauge(name, point(value, labels)) for name, value, labels in metrics))
    found = decode(data)
    assert [(each.metric, each.value, dict(each.attributes)) for each in found.points] == metrics


def test_what_has_no_number_is_counted() -> None:
    empty = field(5, field(1, fixed(3, bytes(8))))
    data = payload(histogram("h"), field(1, "no value") + empty, gauge("g", point(1)))
    decoded = decode(data)
    assert [each.metric for each in decoded.points] == ["g"]
    assert decoded.skipped == 2


def test_a_point_that_says_that_it_has_no_value_has_none() -> None:
    assert decode(payload(gauge("g", point(1) + field(8, 1)))) == DecodedMetrics([], 0)


def test_lists_and_maps_as_attributes_are_left_out() -> None:
    listed = field(5, field(1, field(1, "x")))
    data = payload(gauge("g", point(1, {"list": listed, "bytes": field(7, b"\xff"), "b": "c"})))
    assert decode(data).points[0].attributes == (("b", "c"),)


def test_unknown_fields_are_skipped() -> None:
    unknown = field(500, 7) + field(501, b"x") + fixed(502, bytes(8))
    unknown += varint(503 << 3 | 5) + bytes(4)
    data = unknown + payload(unknown + gauge("g", point(1) + unknown)) + unknown
    assert [each.metric for each in decode(data).points] == ["g"]


def test_the_name_may_follow_the_points() -> None:
    data = field(5, field(1, point(1))) + field(1, "late")
    assert [each.metric for each in decode(payload(data)).points] == ["late"]


def test_text_that_is_not_utf8_is_repaired() -> None:
    data = payload(field(1, b"bad\xff") + field(5, field(1, point(1))))
    assert decode(data).points[0].metric == "bad\ufffd"


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_empty(data: bytes) -> None:
    try:
        decoded = decode(data)
    except MalformedMetricsError:
        return
    assert len(decoded.points) <= len(data)


@given(st.data())
def test_a_damaged_payload_is_refused_or_decoded(data: st.DataObject) -> None:
    whole = bytearray(
        payload(gauge("a", point(1, ATTRIBUTES)), total("b", point(2)), resource={"c": "d"})
    )
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for damaged in (bytes(whole), bytes(whole[:cut])):
        with suppress(MalformedMetricsError):
            decode(damaged)


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05abc",  # ends before its length
        b"\xff" * 20,  # a number without an end
        b"\x0b",  # a group, which protobuf no longer has
        b"\x08\x01",  # resource metrics as a number
        b"\x09\x00\x00",  # eight bytes, of which there are two
        b"\x00\x00",  # field number 0
        field(1, field(2, field(2, field(1, 5)))),  # a name as a number
    ],
)
def test_malformed_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMetricsError):
        decode(data)


def test_there_is_a_limit_on_points() -> None:
    one = field(1, point(1))
    data = payload(field(1, "g") + field(5, one * (otlp.MAX_POINTS + 1)))
    with pytest.raises(TooManyPointsError, match="10000 data points"):
        decode(data)


def test_there_is_a_limit_on_attributes() -> None:
    labels = {f"a{number}": "x" for number in range(otlp.MAX_ATTRIBUTES + 1)}
    with pytest.raises(MalformedMetricsError, match="32 attributes"):
        decode(payload(gauge("g", point(1, labels))))


def test_long_texts_are_cut() -> None:
    data = payload(gauge("n" * 5000, point(1, {"a": "v" * 5000})))
    (found,) = decode(data).points
    assert len(found.metric) == len(found.attributes[0][1]) == otlp.MAX_TEXT_BYTES


@pytest.mark.parametrize(
    "data",
    [
        varint(9 << 3) + b"\x00",  # at the top
        field(1, b""),
        field(1, field(2, b"")),
        field(1, field(2, field(2, b""))),
        field(1, field(2, field(2, field(5, b"")))),
    ],
    ids=["field", "resource", "scope", "metric", "gauge"],
)
def test_many_small_pieces_are_decoded_with_a_pause_at_each(data: bytes) -> None:
    count = 2000
    steps = decode_metrics(data * count)
    assert sum(1 for _ in steps) >= count


def test_there_is_a_limit_on_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MAX_ENTRIES", 1000)
    for data in (field(1, b"") * 1001, payload(*[field(1, "")] * 1000)):
        with pytest.raises(MalformedMetricsError, match="more than 1000"):
            decode(data)


def test_a_point_full_of_fields_is_refused_before_it_takes_long() -> None:
    crowded = point(1) + field(500, 1) * 100_000
    steps = decode_metrics(payload(gauge("g", crowded)))
    with pytest.raises(MalformedMetricsError, match="more than 64 fields"):
        at_once(steps)


def test_no_step_reads_more_than_a_few_thousand_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst point: all attributes, each with as many fields as it may have."""
    value = field(1, "x") * otlp._MAX_VALUE_FIELDS
    entry = field(7, field(2, value) * otlp._MAX_VALUE_FIELDS)
    worst = fixed(6, struct.pack("<q", 1)) + entry * otlp.MAX_ATTRIBUTES
    reads = 0
    fields_of = otlp._Decoder._fields

    def counting(
        self: otlp._Decoder, position: int, end: int, most: int
    ) -> Iterator[tuple[int, int, int, int, int]]:
        nonlocal reads
        for found in fields_of(self, position, end, most):
            reads += 1
            yield found

    monkeypatch.setattr(otlp._Decoder, "_fields", counting)
    most = 0
    for _ in decode_metrics(payload(field(1, "g") + field(5, field(1, worst) * 3))):
        most, reads = max(most, reads), 0
    assert otlp.MAX_ATTRIBUTES * otlp._MAX_VALUE_FIELDS < most < 10_000


def test_a_full_payload_of_gauges_is_decoded() -> None:
    names = [f"org.apache.kafka.producer.metric{number}" for number in range(5000)]
    assert len(decode(many_gauges(names)).points) == 5000
