"""One Spark session per process, for the tests that need Spark itself."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.runtime.session import socket_settings

SOURCES = str(Path(__file__).parents[2] / "src")
FAST_CHECKPOINTS = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def needs_spark() -> None:
    """Skip the test where PySpark or Java is not installed."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java")


@cache
def spark_session() -> Any:
    """The session; it ends with the process."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Workers find the package as this process does, installed or not.
    paths = [SOURCES, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    builder = SparkSession.builder.master("local[2]").appName("ottla tests")
    settings = {
        **FAST_CHECKPOINTS,
        **socket_settings(),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    atexit.register(session.stop)
    return session
