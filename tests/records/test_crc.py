"""CRC-32C against its published values, and our implementations against each other."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import crc as crc_module
from ottla.records.crc import (
    CHUNK_BYTES,
    crc32c,
    crc32c_copying,
    crc32c_pure,
    crc32c_shifted,
    crc32c_shifted_pure,
)

try:
    from ottla.records._kernel import crc32c as by_instruction
    from ottla.records._kernel import crc32c_software as by_tables
except ImportError:
    COMPILED: list[Callable[..., int]] = []
else:
    COMPILED = [by_instruction, by_tables]

IMPLEMENTATIONS: list[Callable[..., int]] = [crc32c, crc32c_pure, crc32c_copying, *COMPILED]
LANES_BYTES = 3 * 1024  # from here on the compiled one works on three parts at once


@pytest.fixture(autouse=True)
def _with_google_crc32c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the copying one use google-crc32c also where the kernel makes that unnecessary."""
    monkeypatch.setattr(crc_module, "_extend", crc_module._native_extend())


# RFC 3720, appendix B.4, and the check value of the CRC catalogues.
PUBLISHED = {
    b"": 0,
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(range(31, -1, -1)): 0x113FDB5C,
}


@pytest.mark.parametrize("checksum", IMPLEMENTATIONS)
@pytest.mark.parametrize(("data", "expected"), PUBLISHED.items())
def test_the_published_values_come_out(
    checksum: Callable[..., int], data: bytes, expected: int
) -> None:
    assert checksum(data) == expected


@pytest.mark.parametrize("checksum", IMPLEMENTATIONS)
def test_all_implementations_agree_and_continue(checksum: Callable[..., int]) -> None:
    @given(data=st.binary(max_size=100), split=st.integers(0, 100), repeat=st.integers(0, 200))
    def check(data: bytes, split: int, repeat: int) -> None:
        data = data * repeat
        whole = crc32c_pure(data)
        assert checksum(data) == whole
        assert checksum(data[split:], checksum(data[:split])) == whole

    check()


@pytest.mark.parametrize("checksum", IMPLEMENTATIONS)
@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
@pytest.mark.parametrize(
    "size", [0, 5, LANES_BYTES - 1, LANES_BYTES, LANES_BYTES + 9, CHUNK_BYTES, 3 * CHUNK_BYTES + 17]
)
def test_any_buffer_of_any_size_is_summed(
    checksum: Callable[..., int], wrap: type[bytes], size: int
) -> None:
    data = (b"0123456789abcde" * (size // 15 + 1))[:size]
    assert checksum(wrap(data)) == crc32c_pure(data)


@pytest.mark.parametrize("shifted", [crc32c_shifted, crc32c_shifted_pure])
def test_a_checksum_is_renewed_without_a_look_at_what_follows(
    shifted: Callable[[int, int], int],
) -> None:
    @given(
        before=st.binary(min_size=4, max_size=60),
        change=st.binary(min_size=4, max_size=4),
        rest=st.binary(max_size=80),
        repeat=st.integers(0, 300),
    )
    def check(before: bytes, change: bytes, rest: bytes, repeat: int) -> None:
        rest = rest * repeat
        after = change + before[4:]
        difference = crc32c_pure(before) ^ crc32c_pure(after)
        renewed = crc32c(before + rest) ^ shifted(difference, len(rest))
        assert renewed == crc32c(after + rest)

    check()
