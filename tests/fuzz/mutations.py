"""Small damage to bytes: what a broken client, network or disk makes of them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

INTERESTING = (0, 1, 2, 3, 7, 16, 0x7F, 0x80, 0xFE, 0xFF)
WIDE = (-1, 0, 1, -2, 127, 128, 255, 256, 32767, -32768, 65535, 2**31 - 1, -(2**31), 10_001)

Mutation = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def _position(rng: random.Random, data: bytearray) -> int:
    return int(rng.random() * len(data))


def flip_bit(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    if data:
        data[_position(rng, data)] ^= 1 << int(rng.random() * 8)


def set_byte(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    if data:
        data[_position(rng, data)] = rng.choice(INTERESTING)


def set_int16(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    if len(data) > 2:
        value = rng.choice(WIDE) & 0xFFFF
        struct.pack_into(">H", data, int(rng.random() * (len(data) - 2)), value)


def set_int32(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    if len(data) > 4:
        value = rng.choice(WIDE) & 0xFFFFFFFF
        struct.pack_into(">I", data, int(rng.random() * (len(data) - 4)), value)


def set_int64(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    if len(data) > 8:
        value = rng.choice((*WIDE, 2**63 - 1, -(2**63)))
        struct.pack_into(">q", data, int(rng.random() * (len(data) - 8)), value)


def set_long_varint(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _position(rng, data)
    data[at : at + 1] = rng.choice(
        (
            b"\xff\xff\xff\xff\x07",
            b"\xff\xff\xff\xff\x0f",
            b"\xff" * 11,
            b"\x80\x80\x00",
            b"\xe8\x07",
        )
    )


def truncate(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[_position(rng, data) :]


def delete_range(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _position(rng, data)
    del data[at : at + 1 + int(rng.random() * 8)]


def insert_bytes(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _position(rng, data)
    data[at:at] = rng.randbytes(1 + int(rng.random() * 8))


def duplicate_range(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _position(rng, data)
    data[at:at] = data[at : at + 1 + int(rng.random() * 40)]


def splice(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Goes on as another one does, from the same place or any."""
    other = rng.choice(others)
    at = _position(rng, data)
    start = at if rng.random() < 0.5 else int(rng.random() * len(other))
    data[at:] = other[start:]


MUTATIONS: tuple[Mutation, ...] = (
    flip_bit,
    flip_bit,
    set_byte,
    set_byte,
    set_int16,
    set_int32,
    set_int64,
    set_long_varint,
    truncate,
    delete_range,
    insert_bytes,
    duplicate_range,
    splice,
)

# These keep the length, and so most often the structure behind them.
IN_PLACE = (flip_bit, set_byte, set_int16, set_int32, set_int64)


def mutate(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    """One to four kinds of damage."""
    kinds = IN_PLACE if rng.random() < 0.5 else MUTATIONS
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 4))):
        rng.choice(kinds)(rng, data, others)
