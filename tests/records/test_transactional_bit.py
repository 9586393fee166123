"""The glance at a batch that a produce request gets before it is authorized."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batch import begins_transactional, build_batch, read_header
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Record

BATCH = build_batch([Record(0, 1, b"k", b"v")])


@given(
    st.binary(max_size=80)
    | st.builds(
        lambda at, byte: BATCH[:at] + bytes([byte]) + BATCH[at + 1 :],
        st.integers(12, 23),
        st.integers(0, 255),
    )
)
def test_it_sees_what_the_header_says(data: bytes) -> None:
    try:
        expected = read_header(data, 0).is_transactional
    except CorruptRecordsError:
        # Such a batch is refused whatever it is.
        return
    assert begins_transactional(data) is expected
    assert begins_transactional(memoryview(data)) is expected
