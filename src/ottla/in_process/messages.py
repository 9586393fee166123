"""The messages between a process and its child: requests for connections, and their answers.

A request is the number of the request and the name of a server, an answer is the number, and with it the client's end
of a connection. An answer without one says that there is no such server, or that it takes no more connections.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ottla.in_process.servers import DOMAIN, NAME_CHARS

_REQUEST: Final = struct.Struct(f">Q{NAME_CHARS}s")
_ANSWER: Final = struct.Struct(">Q")
REQUEST_BYTES: Final = _REQUEST.size
ANSWER_BYTES: Final = _ANSWER.size
_HEX: Final = frozenset(b"0123456789abcdef")


class MalformedRequestError(ValueError):
    """What the child sent is no request."""


class Request(NamedTuple):
    """A child wants a connection to the server of this host name."""

    number: int
    host: str

    def encode(self) -> bytes:
        """As bytes; the host is one that `serve` made, else ValueError."""
        name = self.host.removesuffix(DOMAIN)
        if len(name) != NAME_CHARS or not name.isascii():
            raise ValueError(f"{self.host} is no host of a process")
        return _REQUEST.pack(self.number, name.encode())

    @classmethod
    def decode(cls, data: bytes) -> Request:
        """Of REQUEST_BYTES bytes."""
        number, name = _REQUEST.unpack(data)
        if not _HEX.issuperset(name):
            raise MalformedRequestError("a request names no server")
        return cls(number, f"{name.decode()}{DOMAIN}")


def encode_answer(number: int) -> bytes:
    """The answer to the request of this number."""
    return _ANSWER.pack(number)


def decode_answer(data: bytes) -> int:
    """The number of the request that is answered."""
    (number,) = _ANSWER.unpack(data)
    return int(number)
