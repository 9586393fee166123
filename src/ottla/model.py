"""Names and addresses that every layer uses."""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import NamedTuple, Self
from uuid import UUID

from ottla.errors import ConfigError

NO_TOPIC_ID = UUID(int=0)
"""The id that stands for "none" in the protocol."""

NO_LEADER = -1
"""The leader id that stands for "no leader" in the protocol."""

TOPIC_NAME_CHARS = 249
"""The longest name of a topic."""

_TOPIC_ID_CHARS = 22
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Endpoint(NamedTuple):
    """A host and a port, printed as HOST:PORT with IPv6 addresses in brackets."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `HOST:PORT`, `1.2.3.4:9092` or `[::1]:9092`."""
        host, separator, port = text.strip().rpartition(":")
        if not separator or port.endswith("]"):
            what = "has no host" if text.strip().isdecimal() else "has no port"
            raise ConfigError(f"{text!r} {what}: write HOST:PORT, as in 127.0.0.1:9092")
        if not (port.isascii() and port.isdigit() and int(port) <= 65535):
            raise ConfigError(f"{text!r} has port {port!r}: it must be a number from 0 to 65535")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
            if ":" not in host:
                raise ConfigError(f"{text!r} has brackets: they are only for IPv6 addresses")
        elif ":" in host:
            raise ConfigError(f"{text!r} is ambiguous: write an IPv6 address as [{host}]:{port}")
        if not host:
            raise ConfigError(f"{text!r} has no host: write 0.0.0.0:{port} for every interface")
        if any(char.isspace() or char in "[]/," for char in host):
            raise ConfigError(f"{text!r} is not a host and a port: {host!r} is not a host name")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def topic_name_problem(name: str) -> str | None:
    """Why a topic name is not valid by the rules of Kafka; None if it is."""
    if not name:
        return "a topic name may not be empty"
    if name in (".", ".."):
        return f"a topic name may not be '{name}'"
    if len(name) > TOPIC_NAME_CHARS:
        return f"a topic name has at most {TOPIC_NAME_CHARS} characters, this one has {len(name)}"
    if not _TOPIC_NAME.fullmatch(name):
        return (
            f"topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
        )
    return None


def topic_id_text(topic_id: UUID) -> str:
    """Kafka's text form of an id: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode("ascii")


def parse_topic_id(text: str) -> UUID:
    """The id of which `text` is Kafka's text form."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raw = b""
    # Comparing with the canonical form catches stray bits in the last character.
    if len(text) != _TOPIC_ID_CHARS or len(raw) != 16 or topic_id_text(UUID(bytes=raw)) != text:
        raise ValueError(f"{text!r} is not a topic id: expected 22 characters of URL-safe base64")
    return UUID(bytes=raw)


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode` as an unsigned 32-bit number: a polynomial in 31 over UTF-16 units."""
    units = text.encode("ascii") if text.isascii() else memoryview(_native_units(text)).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def _native_units(text: str) -> bytes:
    # The codec writes a byte order mark, then units in this machine's byte order, which the cast reads.
    return text.encode("utf-16", "surrogatepass")[2:]


@lru_cache(maxsize=4096)
def coordinator_partition(key: str, partition_count: int) -> int:
    """The partition of an internal topic that holds a group or a transactional id."""
    value = java_string_hash(key)
    if value == 1 << 31:
        return 0  # the smallest signed number, whose absolute value overflows in Java
    return min(value, (1 << 32) - value) % partition_count
