"""CRC-32C against its published values, and our two implementations against each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.crc import CHUNK_BYTES, crc32c, crc32c_pure

# RFC 3720, appendix B.4, and the check value of the CRC catalogues.
PUBLISHED = {
    b"": 0,
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(range(31, -1, -1)): 0x113FDB5C,
}


@pytest.mark.parametrize("checksum", [crc32c, crc32c_pure])
@pytest.mark.parametrize(("data", "expected"), PUBLISHED.items())
def test_the_published_values_come_out(checksum: type[int], data: bytes, expected: int) -> None:
    assert checksum(data) == expected


@given(data=st.binary(max_size=100), split=st.integers(0, 100))
def test_both_implementations_agree_and_continue(data: bytes, split: int) -> None:
    whole = crc32c(data)
    assert crc32c_pure(data) == whole
    assert crc32c(data[split:], crc32c(data[:split])) == whole
    assert crc32c_pure(data[split:], crc32c_pure(data[:split])) == whole


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
@pytest.mark.parametrize("size", [0, 5, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 17])
def test_any_buffer_of_any_size_is_summed(wrap: type[bytes], size: int) -> None:
    data = (b"0123456789abcde" * (size // 15 + 1))[:size]
    assert crc32c(wrap(data)) == crc32c(data)
    assert crc32c_pure(wrap(data)) == crc32c(data)
