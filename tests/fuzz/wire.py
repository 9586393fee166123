"""Mutated frames against a broker process: it must stay alive, right, small, and free of internal errors."""

from __future__ import annotations

import os
import random
import socket
import struct
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker.processes import ServeProcess
from tests.broker.requests import batch_of, create, delete, produce, read_values
from tests.fuzz.corpus import Seed, build_corpus
from tests.fuzz.mutations import mutate
from tests.wire.every_message import MESSAGES

from ottla.broker.requests.apis import SERVED
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.model import Endpoint
from ottla.wire.compile import decode_message
from ottla.wire.framing import response_header_is_flexible
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

CONTROL_TOPIC = "the-control-topic"
# The control topic keeps its options whatever the broker's are changed to.
CONTROL_OPTIONS = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "max.message.bytes": "1048576",
    "compression.type": "producer",
    "segment.bytes": "1048576",
    "message.timestamp.type": "CreateTime",
    "flush.messages": "9223372036854775807",
}
FRAMES_PER_SEND = 48
SEND_BYTES = 64 * 1024
STALL_SECONDS = 0.03
ANSWER_SECONDS = 20.0
MAX_RESIDENT_GROWTH_BYTES = 256 << 20
MAX_OPEN_FILES = 600
CORPUS_PER_VERSION = 12
DECODED_SHARE = 0.1
WRONG_LOG_LINES = ("this is a bug", "Traceback", "periodic work failed", "MemoryError", "CRITICAL")

RESPONSES = {
    message.__name__.removesuffix("Response"): message
    for message in MESSAGES
    if message.__name__.endswith("Response")
}


class FuzzError(AssertionError):
    """The broker did what it must not do."""


@dataclass
class Tally:
    """What a run has done."""

    frames: int = 0
    answers: int = 0
    decoded: int = 0
    connections: int = 0
    checks: int = 0
    largest_resident_bytes: int = 0
    seconds: float = 0.0
    topics_removed: int = 0
    versions: set[tuple[int, int]] = field(default_factory=set)

    def __str__(self) -> str:
        return (
            f"{self.frames} frames in {self.seconds:.0f} s ({self.frames / self.seconds:.0f}/s), "
            f"{self.answers} answers of which {self.decoded} were decoded, "
            f"{self.connections} connections, {self.checks} checks, "
            f"{len(self.versions)} APIs and versions, {self.topics_removed} topics removed, "
            f"largest resident size {self.largest_resident_bytes >> 20} MB"
        )


class Control:
    """An ordinary client, which must notice nothing."""

    def __init__(self, process: ServeProcess) -> None:
        self._process = process
        self._values: list[bytes | None] = []
        self._log_position = 0
        self._first_resident_bytes = 0

    def topic_ids(self) -> list[uuid.UUID]:
        """Makes the topics that frames are about; answers their ids."""
        with RawConnection(self._process.address) as connection:
            known = connection.call(MetadataRequest(topics=None), MetadataResponse, 12).topics
            names = {topic.name for topic in known}
            if CONTROL_TOPIC not in names:
                create(connection, CONTROL_TOPIC, config=CONTROL_OPTIONS)
            return [
                create(connection, name, 3) for name in ("fuzz-a", "fuzz-b") if name not in names
            ]

    def check(self, tally: Tally) -> None:
        """Produces and reads back; looks at the process and at its log."""
        tally.checks += 1
        if not self._process.is_running:
            raise FuzzError(f"the broker has ended:\n{self._process.log[-4000:]}")
        with RawConnection(self._process.address, timeout_seconds=ANSWER_SECONDS) as connection:
            versions = connection.call(
                ApiVersionsRequest(client_software_name="c", client_software_version="1"),
                ApiVersionsResponse,
                4,
            )
            advertised = {key for key, api in SERVED.items() if not api.needs_metrics_page}
            if {api.api_key for api in versions.api_keys} != advertised:
                raise FuzzError("ApiVersions answered something else than before")
            value = b"control %d" % len(self._values)
            answer = produce(connection, CONTROL_TOPIC, batch_of(value))
            if (answer.error_code, answer.base_offset) != (ErrorCode.NONE, len(self._values)):
                raise FuzzError(f"the control record was not appended: {answer}")
            self._values.append(value)
            if read_values(connection, CONTROL_TOPIC) != self._values:
                raise FuzzError("the control topic does not hold what was written")
            tally.topics_removed += self._remove_topics(connection)
        self._check_process(tally)
        self.check_log()

    def _remove_topics(self, connection: RawConnection) -> int:
        """Deletes what frames have made, so that what is left of memory is what leaks."""
        known = connection.call(MetadataRequest(topics=None), MetadataResponse, 12).topics
        names = [topic.name for topic in known if topic.name != CONTROL_TOPIC]
        for name in names:
            delete(connection, name)
        return len(names)

    def _check_process(self, tally: Tally) -> None:
        resident_bytes = self._process.resident_bytes
        tally.largest_resident_bytes = max(tally.largest_resident_bytes, resident_bytes)
        self._first_resident_bytes = self._first_resident_bytes or resident_bytes
        if resident_bytes > self._first_resident_bytes + MAX_RESIDENT_GROWTH_BYTES:
            raise FuzzError(f"the broker has grown to {resident_bytes >> 20} MB")
        open_files = len(os.listdir(f"/proc/{self._process.pid}/fd"))
        if open_files > MAX_OPEN_FILES:
            raise FuzzError(f"the broker has {open_files} files open")

    def check_log(self) -> None:
        with self._process.log_path.open("rb") as log:
            log.seek(self._log_position)
            added = log.read()
        self._log_position += len(added)
        text = added.decode("utf-8", "replace")
        for wrong in WRONG_LOG_LINES:
            at = text.find(wrong)
            if at >= 0:
                raise FuzzError(f"the broker logged:\n{text[max(0, at - 500) : at + 4000]}")


class Wire:
    """A connection that sends frames ahead of their answers, and is made anew when it is closed."""

    def __init__(self, address: str, tally: Tally, rng: random.Random) -> None:
        endpoint = Endpoint.parse(address)
        self._address = (endpoint.host, endpoint.port)
        self._tally = tally
        self._rng = rng
        self._socket: socket.socket | None = None
        self._received = bytearray()

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, ANSWER_SECONDS)
            self._received = bytearray()
            self._tally.connections += 1
        return self._socket

    def exchange(self, frames: list[bytes]) -> int:
        """Sends frames that are numbered from 0; says how many of them the broker has handled."""
        connected = self._connected()
        answered = -1
        try:
            connected.sendall(b"".join(frames))
            if not is_framed(frames[-1]):
                answered = self._finish(connected, frames)
            else:
                connected.settimeout(STALL_SECONDS)
                answered = self._read_answers(connected, frames)
        except TimeoutError:
            # An answer that waits for its time: a fetch.
            answered = self._finish(connected, frames)
        except ConnectionError:
            self.close()
        # The one behind the last answer is what the connection was closed for.
        return min(answered + 2, len(frames))

    def _read_answers(self, connected: socket.socket, frames: list[bytes]) -> int:
        while self._answered + 1 < len(frames):
            piece = connected.recv(1 << 18)
            if not piece:
                self.close()
                break
            self._received += piece
            self._take_answers(frames)
        answered, self._answered = self._answered, -1
        return answered

    _answered = -1

    def _finish(self, connected: socket.socket, frames: list[bytes]) -> int:
        """Sends no more, and reads what comes until the broker closes."""
        try:
            connected.settimeout(ANSWER_SECONDS)
            connected.shutdown(socket.SHUT_WR)
            while piece := connected.recv(1 << 18):
                self._received += piece
                self._take_answers(frames)
        except TimeoutError as error:
            raise FuzzError("the broker neither answers nor closes") from error
        except ConnectionError:
            pass
        self.close()
        answered, self._answered = self._answered, -1
        return answered

    def _take_answers(self, frames: list[bytes]) -> None:
        """Checks that answers are whole frames in the order of the requests."""
        received, position = self._received, 0
        while len(received) - position >= 8:
            size, number = struct.unpack_from(">ii", received, position)
            if size < 4:
                raise FuzzError(f"an answer has size {size}")
            if len(received) - position - 4 < size:
                break
            self._tally.answers += 1
            if not self._answered < number < len(frames):
                if is_framed(frames[-1]):
                    raise FuzzError(f"answer {number} after {self._answered} of {len(frames)}")
                self._answered = len(frames) - 1  # to what was in the frame with the wrong size
                break
            self._answered = number
            if self._rng.random() < DECODED_SHARE:
                self._decode(frames[number], bytes(received[position + 4 : position + 4 + size]))
            position += 4 + size
        del received[:position]

    def _decode(self, request: bytes, answer: bytes) -> None:
        api_key, version = struct.unpack_from(">hh", request, 4)
        api = SERVED[api_key]
        if not api.first_version <= version <= api.last_version:
            version = 0  # ApiVersions says at version 0 what it may be asked at
        flexible = response_header_is_flexible(api_key, version >= api.flexible_since)
        decode_message(RESPONSES[api.name], version, answer, 5 if flexible else 4)
        self._tally.decoded += 1

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def is_framed(frame: bytes) -> bool:
    """Whether a frame's size is right."""
    return int.from_bytes(frame[:4], "big") == len(frame) - 4


def mutated_frame(rng: random.Random, seed: Seed, bodies: list[bytes]) -> bytes:
    """A seed with damage behind its first twelve bytes, rarely in them, and a size that mostly fits.

    One with extreme values may go as it is: it passes the decoder, and tries the handler.
    """
    data = bytearray(seed.frame)
    if not seed.is_extreme or rng.random() < 0.6:
        body = data[12:]
        mutate(rng, body, bodies)
        data[12:] = body
        if rng.random() < 0.03:
            data[4 + int(rng.random() * 4)] = int(rng.random() * 24)
    if rng.random() < 0.98:
        struct.pack_into(">i", data, 0, len(data) - 4)
    else:
        size = rng.choice(
            (len(data), len(data) - 6, -1, 0, 7, 2**31 - 1, 100 << 20, len(data) + 99)
        )
        struct.pack_into(">i", data, 0, size)
    return bytes(data)


def fuzz_wire(process: ServeProcess, seed: int, frames: int, check_every: int) -> Tally:
    """Sends that many mutated frames to a broker that runs, checking it now and then."""
    rng = random.Random(seed)
    tally = Tally()
    control = Control(process)
    began = time.monotonic()
    while tally.frames < frames:
        corpus = build_corpus(rng, control.topic_ids(), CORPUS_PER_VERSION)
        bodies = [entry.frame[12:] for entry in corpus]
        wire = Wire(process.address, tally, rng)
        until = min(tally.frames + check_every, frames)
        try:
            _send_until(rng, wire, corpus, bodies, tally, until)
        finally:
            wire.close()
        control.check(tally)
    tally.seconds = time.monotonic() - began
    return tally


def _send_until(
    rng: random.Random,
    wire: Wire,
    corpus: list[Seed],
    bodies: list[bytes],
    tally: Tally,
    until: int,
) -> None:
    waiting: list[bytes] = []
    while tally.frames < until:
        size_bytes = sum(map(len, waiting))
        # A frame with a wrong size is the last one of its send: it takes what follows for its own.
        while (
            len(waiting) < FRAMES_PER_SEND
            and size_bytes < SEND_BYTES
            and (not waiting or is_framed(waiting[-1]))
        ):
            seed = rng.choice(corpus)
            waiting.append(mutated_frame(rng, seed, bodies))
            tally.versions.add((seed.api_key, seed.version))
            size_bytes += len(waiting[-1])
        numbered = [
            frame[:8] + number.to_bytes(4, "big") + frame[12:]
            for number, frame in enumerate(waiting)
        ]
        handled = wire.exchange(numbered)
        tally.frames += handled
        del waiting[:handled]


def run_wire(folder: Path, seed: int, frames: int, check_every: int) -> Tally:
    """As `fuzz_wire`, with a broker of its own that must stop and start in order afterwards."""
    process = ServeProcess(folder)
    process.start("--set", "log.flush.offset.checkpoint.interval.ms=1000")
    try:
        tally = fuzz_wire(process, seed, frames, check_every)
        if process.stop() != 0:
            raise FuzzError("the broker did not stop in order")
        process.start()
        Control(process).check_log()
        with RawConnection(process.address) as connection:
            values = read_values(connection, CONTROL_TOPIC)
        if values != [b"control %d" % number for number in range(tally.checks)]:
            raise FuzzError("the control topic does not survive a restart")
    finally:
        process.kill()
    return tally
