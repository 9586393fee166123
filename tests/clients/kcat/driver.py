"""kcat: librdkafka on the command line. Every call is a process; topics are created by somebody else."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Mapping, Sequence
from typing import NoReturn

from tests.clients import broker_side
from tests.clients.driver import (
    DEFAULT_CONSUMER,
    DEFAULT_PRODUCER,
    READ_SECONDS,
    Admin,
    Bounds,
    Consumer,
    ConsumerOptions,
    Driver,
    Producer,
    ProducerOptions,
    RefusedError,
)
from tests.clients.messages import Headers, Message, Received

from ottla.errors import ErrorCode
from ottla.model import TopicPartition

MESSAGE_END = b"<<message>>"
KEY_END = b"<<key>>"
EARLIEST, LATEST = -2, -1

ERROR_TEXTS = {
    "Broker: Message size too large": ErrorCode.MESSAGE_TOO_LARGE,
    "Broker: Broker failed to validate record": ErrorCode.INVALID_RECORD,
    "Broker: Not enough in-sync replicas": ErrorCode.NOT_ENOUGH_REPLICAS,
    "Broker: Invalid topic": ErrorCode.INVALID_TOPIC_EXCEPTION,
    "Broker: Unknown topic or partition": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "Local: Unknown topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "Local: Message timed out": ErrorCode.REQUEST_TIMED_OUT,
    "Offset out of range": ErrorCode.OFFSET_OUT_OF_RANGE,
}


def kcat(*arguments: str, stdin: bytes = b"") -> bytes:
    """What kcat prints."""
    done = subprocess.run(
        ["kcat", *arguments], input=stdin, capture_output=True, timeout=READ_SECONDS, check=False
    )
    if done.returncode != 0:
        _raise(done.stderr.decode())
    return done.stdout


def _raise(text: str) -> NoReturn:
    for known, error in ERROR_TEXTS.items():
        if known in text:
            raise RefusedError(error, text)
    raise AssertionError(f"kcat failed: {text}")


def _settings(**options: object) -> list[str]:
    """-X name=value for those that are set."""
    return [
        argument
        for name, value in options.items()
        if value is not None
        for argument in ("-X", f"{name.replace('_', '.')}={value}")
    ]


class KcatProducer(Producer):
    """kcat -P, once for consecutive messages of the same headers."""

    def __init__(self, bootstrap_servers: str, options: ProducerOptions) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.settings = _settings(
            compression_codec=options.codec,
            acks=options.acks,
            linger_ms=options.linger_ms,
            message_max_bytes=options.max_request_bytes,
            message_timeout_ms=options.give_up_ms,
            retries=None if options.give_up_ms is None else 0,
        )

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        def together(message: Message) -> tuple[Headers, bool]:
            return message.headers, message.value is None

        for (headers, is_null), group in itertools.groupby(messages, together):
            self._send(topic, partition, headers, ["-Z"] if is_null else [], list(group))
        end = query(self.bootstrap_servers, TopicPartition(topic, partition), LATEST)
        return list(range(end - len(messages), end))

    def _send(
        self,
        topic: str,
        partition: int,
        headers: Headers,
        flags: list[str],
        messages: Sequence[Message],
    ) -> None:
        named = [name if value is None else f"{name}={value.decode()}" for name, value in headers]
        stdin = MESSAGE_END.join(
            (b"" if message.key is None and message.value else (message.key or b"") + KEY_END)
            + (message.value or b"")
            for message in messages
        )
        kcat(
            *("-P", "-b", self.bootstrap_servers, "-t", topic, "-p", str(partition), *flags),
            *("-D", MESSAGE_END.decode(), "-K", KEY_END.decode()),
            *(argument for header in named for argument in ("-H", header)),
            *self.settings,
            stdin=stdin,
        )

    def close(self) -> None:
        pass


class KcatConsumer(Consumer):
    """kcat -C, once per partition and call."""

    def __init__(self, bootstrap_servers: str, options: ConsumerOptions) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.settings = _settings(
            auto_offset_reset="error",
            isolation_level=options.isolation,
            fetch_wait_max_ms=options.fetch_wait_ms,
            fetch_min_bytes=options.fetch_min_bytes,
        )
        self.offsets: dict[TopicPartition, int] = {}

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets = dict(offsets)

    def read(self, count: int) -> list[Received]:
        received: list[Received] = []
        for partition, offset in self.offsets.items():
            # A single partition is read until there is enough, several of them as far as they go.
            until = ["-c", str(count)] if len(self.offsets) == 1 else ["-e"]
            printed = kcat(
                *("-C", "-q", "-b", self.bootstrap_servers, "-t", partition.topic),
                *("-p", str(partition.partition), "-o", str(offset), *until),
                *("-f", "%p %o %T %K %S\\n%k%s%h\\n", *self.settings),
            )
            found = parse(printed)
            self.offsets[partition] = found[-1].offset + 1 if found else offset
            received += found
        return received

    def offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        found = query(self.bootstrap_servers, partition, timestamp_ms)
        return None if found < 0 else found

    def bounds(self, partition: TopicPartition) -> Bounds:
        return Bounds(
            query(self.bootstrap_servers, partition, EARLIEST),
            query(self.bootstrap_servers, partition, LATEST),
        )

    def close(self) -> None:
        pass


def query(bootstrap_servers: str, partition: TopicPartition, timestamp_ms: int) -> int:
    """kcat -Q; -1 where there is no such offset."""
    asked = f"{partition.topic}:{partition.partition}:{timestamp_ms}"
    return int(kcat("-Q", "-b", bootstrap_servers, "-t", asked).split()[-1])


def parse(printed: bytes) -> list[Received]:
    """What kcat printed with the format above."""
    received = []
    while printed:
        line, _, rest = printed.partition(b"\n")
        partition, offset, timestamp_ms, key_bytes, value_bytes = map(int, line.split())
        key, rest = _take(rest, key_bytes)
        value, rest = _take(rest, value_bytes)
        headers, _, printed = rest.partition(b"\n")
        received.append(Received(partition, offset, timestamp_ms, key, value, _headers(headers)))
    return received


def _take(printed: bytes, size_bytes: int) -> tuple[bytes | None, bytes]:
    if size_bytes < 0:
        return None, printed
    return printed[:size_bytes], printed[size_bytes:]


def _headers(printed: bytes) -> Headers:
    if not printed:
        return ()
    pairs = [pair.partition(b"=") for pair in printed.split(b",")]
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)


class Kcat(Driver):
    """The driver."""

    name = "kcat"
    keeps_connections = False
    sets_timestamps = False

    def producer(self, options: ProducerOptions = DEFAULT_PRODUCER) -> Producer:
        return KcatProducer(self.bootstrap_servers, options)

    def consumer(self, options: ConsumerOptions = DEFAULT_CONSUMER) -> Consumer:
        return KcatConsumer(self.bootstrap_servers, options)

    def admin(self) -> Admin:
        raise NotImplementedError("kcat has no admin functions")

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        broker_side.create_topic(self.bootstrap_servers, topic, partitions, configs or {})

    def cannot_send(self, message: Message) -> str | None:
        if any(not name for name, _ in message.headers):
            return "kcat refuses a header without a name"
        if any(not (value or b"x").decode("latin-1").isprintable() for _, value in message.headers):
            return "kcat takes headers as command line arguments"
        if any(len(value or b"") > 10_000 for _, value in message.headers):
            return "kcat takes headers as command line arguments"
        return None
