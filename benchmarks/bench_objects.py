"""What do uploads and downloads of the object store's client cost, beside bare HTTP on sockets?

Run: python -m benchmarks.bench_objects [--seconds 2.0] [--size 4194304] [--url 's3://bucket/prefix?…']
Prints JSON; `bare` sends the same bytes by asyncio's streams. Without a URL all talk to a small server in another
process, which stores nothing: it is the floor. With one the client talks to that store, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from statistics import median

from benchmarks.measure import commit, machine

from ottla.storage.shared.objects.s3 import S3Objects

KEY = "00/1-0000000000000000"


def serve(size_bytes: int, started: Connection) -> None:
    """Takes every PUT, and answers every GET with `size_bytes`."""
    body = os.urandom(size_bytes)
    stored = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 0\r\n\r\n'
    found = (
        'HTTP/1.1 206 Partial Content\r\nETag: "1"\r\nLast-Modified: Thu, 19 Nov 2026 20:00:00 GMT\r\n'
        f"Content-Range: bytes 0-{size_bytes - 1}/{size_bytes}\r\nContent-Length: {size_bytes}\r\n\r\n"
    ).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"PUT"):
                    length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
                    await reader.readexactly(int(length))
                    writer.write(stored)
                else:
                    writer.writelines([found, body])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 22)
        started.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def timed(seconds: float, size_bytes: int, step: Callable[[], Awaitable[object]]) -> object:
    """Repeats a step for a while, once more for warmth."""
    await step()
    durations: list[float] = []
    cpu, end = time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        await step()
        durations.append(time.perf_counter() - began)
    cpu = time.process_time() - cpu
    return {
        "p50_ms": round(median(durations) * 1000, 2),
        "cpu_ms_per_mb": round(cpu / len(durations) / size_bytes * 1e9, 3),
    }


async def measure_bare(port: int, data: bytes, seconds: float) -> dict[str, object]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)

    async def put() -> None:
        writer.write(b"PUT / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(data))
        writer.write(data)
        await writer.drain()
        await reader.readuntil(b"\r\n\r\n")

    async def get() -> None:
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(data))

    results: dict[str, object] = {
        "put": await timed(seconds, len(data), put),
        "get": await timed(seconds, len(data), get),
    }
    writer.close()
    return results


async def measure_client(url: str, data: bytes, seconds: float) -> dict[str, object]:
    objects = S3Objects.of_url(url)
    results: dict[str, object] = {
        "put": await timed(seconds, len(data), lambda: objects.put(KEY, [data])),
        "get": await timed(seconds, len(data), lambda: objects.get_ranges(KEY, [(0, len(data))])),
    }
    await objects.close()
    return results


async def measure(port: int, size_bytes: int, seconds: float, url: str) -> dict[str, object]:
    data = os.urandom(size_bytes)
    floor = f"s3://bucket/prefix?endpoint=http://127.0.0.1:{port}&access_key_id=none&secret_access_key=none"
    results: dict[str, object] = {"bare": await measure_bare(port, data, seconds)}
    for checksum in ("sha256", "crc64nvme", "none"):
        results[checksum] = await measure_client(f"{floor}&checksum={checksum}", data, seconds)
    if url:
        results["store"] = await measure_client(url, data, seconds)
        await S3Objects.of_url(url).delete([KEY])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--size", type=int, default=4 << 20)
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(options.size, there), daemon=True)
    server.start()
    try:
        results = asyncio.run(measure(here.recv(), options.size, options.seconds, options.url))
    finally:
        server.terminate()
        server.join()
    about = {"machine": machine(), "commit": commit(), "size_bytes": options.size}
    print(json.dumps({**about, **results}, indent=2))


if __name__ == "__main__":
    main()
