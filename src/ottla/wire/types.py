"""The types of message fields; to type checkers they are plain Python types."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

Buffer = bytes | bytearray | memoryview

ZERO_UUID = uuid.UUID(int=0)

# The value of authorized operations that were not asked for (KIP-430).
OPERATIONS_OMITTED = -(2**31)


class MalformedMessageError(Exception):
    """A peer sent bytes that are not the message they claim to be."""


@dataclass(frozen=True)
class Fixed:
    """A number of a fixed size, by its letter in `struct`."""

    letter: str
    zero: int | float | bool = 0


@dataclass(frozen=True)
class UuidType:
    """Sixteen bytes; Kafka writes zeros for "none"."""


@dataclass(frozen=True)
class StringType:
    """Text with an int16 length, or a compact one in flexible versions."""


@dataclass(frozen=True)
class BytesType:
    """Bytes with an int32 length, or a compact one; decoding copies them."""


@dataclass(frozen=True)
class RecordsType:
    """Record batches: decoded as a view of the receive buffer, encoded without a copy."""


class InPieces:
    """Record batches in several buffers, which are encoded one after the other; meant for large ones."""

    __slots__ = ("_length", "pieces")

    def __init__(self, *pieces: Buffer) -> None:
        self.pieces = pieces
        self._length = sum(map(len, pieces))

    def __len__(self) -> int:
        return self._length


def pieces_of(records: Buffer | InPieces) -> Sequence[Buffer]:
    """The buffers of records."""
    return records.pieces if isinstance(records, InPieces) else (records,)


Int8 = Annotated[int, Fixed("b")]
Int16 = Annotated[int, Fixed("h")]
Uint16 = Annotated[int, Fixed("H")]
Int32 = Annotated[int, Fixed("i")]
Uint32 = Annotated[int, Fixed("I")]
Int64 = Annotated[int, Fixed("q")]
Float64 = Annotated[float, Fixed("d", 0.0)]
Bool = Annotated[bool, Fixed("?", False)]
Uuid = Annotated[uuid.UUID, UuidType()]
String = Annotated[str, StringType()]
Bytes = Annotated[bytes, BytesType()]
Records = Annotated[Buffer, RecordsType()]
