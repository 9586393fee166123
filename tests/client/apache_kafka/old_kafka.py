"""Releases of Apache Kafka before 4.0, the oldest of which need ZooKeeper."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import maven
from tests.apache_kafka.programs import free_ports, java, running_kafka, wait_for_port
from tests.apache_kafka.sharing import OPTIONS
from tests.maven import NO_LOGGING

ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_ZOOKEEPER_PROPERTIES = """\
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
"""
_PROPERTIES = """\
broker.id=1
listeners=PLAINTEXT://127.0.0.1:{port}
zookeeper.connect=127.0.0.1:{zookeeper_port}
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
"""


@dataclass(frozen=True)
class Release:
    """A release of Kafka, for a version of Scala."""

    text: str
    scala: str = "2.13"
    zookeeper: str | None = None
    """Another ZooKeeper than it came with."""

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.text.split("."))

    @property
    def has_zookeeper(self) -> bool:
        return self.version < (3, 3)

    def jars(self, shared_folder: Path) -> Path:
        artifacts = {f"org.apache.kafka:kafka_{self.scala}": self.text, **NO_LOGGING}
        if self.zookeeper is not None:
            artifacts["org.apache.zookeeper:zookeeper"] = self.zookeeper
        return maven.jars(f"kafka-{self.text}", artifacts, shared_folder)


# With Java 17, the client of ZooKeeper 3.4 takes 127.0.0.1 for a host name that nobody could resolve.
RELEASES = [
    Release("2.1.1", "2.12", zookeeper="3.5.10"),
    Release("2.4.1"),
    Release("2.8.2"),
    Release("3.3.2"),
    Release("3.9.1"),
]


@contextmanager
def running_release(release: Release, jars: Path, folder: Path) -> Iterator[str]:
    """The address of a broker of this release."""
    if not release.has_zookeeper:
        with running_kafka(jars, folder, OPTIONS) as address:
            yield address
        return
    port, zookeeper_port = free_ports(2)
    zookeeper = folder / "zookeeper.properties"
    zookeeper.write_text(
        _ZOOKEEPER_PROPERTIES.format(data=folder / "zookeeper", port=zookeeper_port),
        encoding="utf-8",
    )
    server = folder / "server.properties"
    text = _PROPERTIES.format(port=port, zookeeper_port=zookeeper_port, data=folder / "data")
    text += "".join(f"{name}={value}\n" for name, value in OPTIONS.items())
    server.write_text(text, encoding="utf-8")
    with (
        _running(java(jars, ZOOKEEPER, str(zookeeper)), zookeeper_port),
        _running(java(jars, "kafka.Kafka", str(server)), port),
    ):
        yield f"127.0.0.1:{port}"


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, process)
        yield
    finally:
        # Nobody will read its data again.
        process.kill()
        process.wait()
