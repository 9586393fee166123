"""Our broker behind a proxy that makes it look like Kafka 2.1: it speaks the same, but says that it speaks less."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.client.producer.meddler import own_port

import ottla
from ottla.wire.compile import decode_message, encode_message
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")  # of a request: API key, version, correlation id
_API_VERSIONS = 18

# What Kafka 2.1 answers to ApiVersions.
KAFKA_2_1 = {
    **{0: (0, 7), 1: (0, 10), 2: (0, 4), 3: (0, 7), 8: (0, 6), 9: (0, 5), 10: (0, 2), 11: (0, 3)},
    **{12: (0, 2), 13: (0, 2), 14: (0, 2), 15: (0, 2), 16: (0, 2), 17: (0, 1), 18: (0, 2)},
    **{19: (0, 3), 20: (0, 3), 21: (0, 1), 22: (0, 1), 23: (0, 2), 24: (0, 1), 25: (0, 1)},
    **{26: (0, 1), 27: (0, 0), 28: (0, 2), 32: (0, 2), 33: (0, 1), 34: (0, 1), 35: (0, 1)},
    **{36: (0, 0), 37: (0, 1), 42: (0, 1)},
}


@contextmanager
def old_broker() -> Iterator[str]:
    """The address of such a broker."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with ottla.Broker(advertise=address) as broker:
            port = own_port(broker)
            threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
            yield address
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(client, port), daemon=True).start()


def _serve(client: socket.socket, port: int) -> None:
    versions: dict[int, int] = {}  # of ApiVersions requests, by correlation id
    with client, socket.create_connection(("127.0.0.1", port)) as broker:
        back = threading.Thread(target=_answers, args=(broker, client, versions), daemon=True)
        back.start()
        for frame in _frames(client):
            api_key, version, correlation_id = _HEADER.unpack_from(frame)
            if api_key == _API_VERSIONS:
                versions[correlation_id] = version
            else:
                first, last = KAFKA_2_1[api_key]
                assert first <= version <= last, f"API {api_key} has no version {version} yet"
            broker.sendall(_SIZE.pack(len(frame)) + frame)
        with suppress(OSError):
            broker.shutdown(socket.SHUT_RDWR)
        back.join()


def _answers(broker: socket.socket, client: socket.socket, versions: dict[int, int]) -> None:
    for frame in _frames(broker):
        (correlation_id,) = _SIZE.unpack_from(frame)
        answer = frame
        if correlation_id in versions:
            answer = frame[:4] + _as_of_2_1(frame[4:], versions.pop(correlation_id))
        try:
            client.sendall(_SIZE.pack(len(answer)) + answer)
        except OSError:
            return
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


def _as_of_2_1(body: bytes, version: int) -> bytes:
    found: ApiVersionsResponse = decode_message(ApiVersionsResponse, version, body)
    told = ApiVersionsResponse(
        error_code=found.error_code,
        api_keys=[
            ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in KAFKA_2_1.items()
        ],
    )
    return encode_message(told, version)


def _frames(connection: socket.socket) -> Iterator[bytes]:
    with connection.makefile("rb") as stream, suppress(OSError):
        while len(size := stream.read(_SIZE.size)) == _SIZE.size:
            yield stream.read(_SIZE.unpack(size)[0])
