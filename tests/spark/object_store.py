"""An S3-compatible store on this machine, in an environment of its own, and what Spark needs to use it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import maven
from tests.waiting import in_time

HADOOP_VERSION = "3.5.0"
SDK_VERSION = "2.35.4"
MOTO = ("moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5")
INSTALL_SECONDS = 300
START_SECONDS = 60
BUCKET = "checkpoints"
KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "secret"}
REGION = "us-east-1"


def hadoop_aws(shared_folder: Path) -> list[str]:
    """The jars of s3a://, with those parts of Amazon's library that it uses instead of the 700 MB of all."""
    artifacts = {
        "org.apache.hadoop:hadoop-aws": HADOOP_VERSION,
        "software.amazon.awssdk:s3-transfer-manager": SDK_VERSION,
        "software.amazon.awssdk:sts": SDK_VERSION,
    }
    name = f"hadoop-aws-{HADOOP_VERSION}"
    folder = maven.jars(name, artifacts, shared_folder, without="software.amazon.awssdk:bundle")
    return [str(each) for each in sorted(folder.glob("*.jar"))]


def moto_server() -> Path:
    """The program of the store; the test is skipped where it cannot be installed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "ottla-tests" / f"moto-{sys.version_info.major}.{sys.version_info.minor}"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "environment" / "bin" / "moto_server"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            shutil.rmtree(folder / "environment", ignore_errors=True)
            venv = [sys.executable, "-m", "venv", str(folder / "environment")]
            subprocess.run(venv, check=True)
            pip = [str(folder / "environment/bin/python"), "-m", "pip", "install", "--quiet"]
            try:
                subprocess.run(
                    [*pip, *MOTO], check=True, capture_output=True, timeout=INSTALL_SECONDS
                )
            except subprocess.SubprocessError as error:
                pytest.skip(f"moto cannot be installed: {error}")
            (folder / "installed").touch()
    return program


class ObjectStore:
    """A running store with an empty bucket."""

    def __init__(self, address: str, jars: list[str]) -> None:
        self.address = address
        self._jars = jars

    @property
    def spark_settings(self) -> dict[str, str]:
        """What Spark needs; the keys come from the environment."""
        return {
            "spark.jars": ",".join(self._jars),
            "spark.hadoop.fs.s3a.endpoint": f"http://{self.address}",
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }

    @property
    def storage_options(self) -> dict[str, str]:
        """What the sink needs; the keys come from the environment."""
        return {"endpoint_override": self.address, "scheme": "http", "region": REGION}

    @property
    def sink_options(self) -> dict[str, str]:
        return {"checkpointStorageOptions": json.dumps(self.storage_options)}

    def files(self) -> Any:
        """The store as pyarrow opens it."""
        from pyarrow import fs

        return fs.S3FileSystem(
            access_key=KEYS["AWS_ACCESS_KEY_ID"],
            secret_key=KEYS["AWS_SECRET_ACCESS_KEY"],
            allow_bucket_creation=True,
            **self.storage_options,
        )


@contextmanager
def object_store(folder: Path, jars: list[str]) -> Iterator[ObjectStore]:
    """Runs as long as it is needed."""
    log = folder / "store.log"
    with log.open("wb") as file:
        started = subprocess.Popen(
            [str(moto_server()), "-H", "127.0.0.1", "-p", "0"], stdout=file, stderr=file
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while "Running on http://" not in (said := log.read_text(encoding="utf-8")):
            in_time(deadline, said)
            assert started.poll() is None, said
            time.sleep(0.1)
        address = said.split("Running on http://")[1].split()[0]
        store = ObjectStore(address, jars)
        store.files().create_dir(BUCKET)
        yield store
    finally:
        started.terminate()
        started.wait(30)
