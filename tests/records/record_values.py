"""Random records for the tests of this folder."""

from hypothesis import strategies as st

from ottla.records.record import Record

BASE_OFFSET = 1000
BASE_TIMESTAMP = 1_700_000_000_000

header_keys = st.text(max_size=12)
nullable_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(header_keys, nullable_bytes), max_size=4).map(tuple)
timestamps = st.integers(BASE_TIMESTAMP - 2**40, BASE_TIMESTAMP + 2**40) | st.just(BASE_TIMESTAMP)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    """Records with offsets from BASE_OFFSET on, with gaps in some lists."""
    offset = BASE_OFFSET
    records = []
    largest_gap = draw(st.sampled_from([0, 0, 3, 100_000]))
    for _ in range(draw(st.integers(0, 8))):
        offset += draw(st.integers(0, largest_gap))
        records.append(
            Record(
                offset,
                draw(timestamps),
                draw(nullable_bytes),
                draw(nullable_bytes),
                draw(headers | st.just(())),
            )
        )
        offset += 1
    return records
