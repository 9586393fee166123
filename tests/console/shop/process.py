"""The shop as a process of its own, for tests that drive a browser: serializers do not block an event loop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

CLOSE_SECONDS = 60


@contextmanager
def shop_process(servers: str) -> Iterator[str]:
    """Open as long as the block runs; gives the address of the shop's schema registry."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.console.shop", servers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        word, _, registry_url = process.stdout.readline().strip().partition(" ")
        assert word == "open", f"the shop did not open: {word!r}"
        yield registry_url
        assert process.poll() is None, "the shop closed by itself"
    finally:
        process.stdin.close()
        try:
            process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
