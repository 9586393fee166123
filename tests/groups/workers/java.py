"""Compiles the worker with Apache Kafka's own client; skips where that cannot be."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests import maven

SOURCE = Path(__file__).with_name("GroupWorker.java")
COMPILE_SECONDS = 60


def java_is_here() -> bool:
    return all(shutil.which(program) for program in ("java", "javac", "mvn"))


def java_worker(folder: Path, shared_folder: Path) -> tuple[str, ...]:
    """The command of the worker, compiled into the folder."""
    if shutil.which("javac") is None:
        pytest.skip("the Java client needs javac, which is not installed")
    jars = maven.kafka_client(shared_folder)
    subprocess.run(
        ["javac", "-cp", f"{jars}/*", "-d", str(folder), str(SOURCE)],
        check=True,
        timeout=COMPILE_SECONDS,
    )
    # One compiler thread and the plain collector: it shares two cores with the tests.
    options = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m")
    return ("java", *options, "-cp", f"{folder}:{jars}/*", "GroupWorker")
