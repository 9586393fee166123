"""The brokers that are compared: each a process of its own on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import confluent_kafka
from benchmarks.frames import append_one, create_topic, delete_topic
from benchmarks.kafka_jars import KAFKA_SERVER_VERSION, UnavailableError, kafka_jars
from benchmarks.measure import Memory, cpu_seconds, memory_of_family
from benchmarks.process_tree import descendants

from ottla.version import VERSION

# librdkafka's mock cluster gives every topic four partitions, and no client can say otherwise.
PARTITIONS_PER_TOPIC = 4
START_SECONDS = 60.0
STOP_SECONDS = 20.0
# Kafka deletes the files of a topic a second later.
DELETE_SECONDS = 20.0
PREPARE_SECONDS = 60.0
POLL_SECONDS = 0.005
FIRST_TOPIC = "first"
NO_SETTINGS: Mapping[str, object] = MappingProxyType({})
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"  # any 16 bytes in base 64


class Peer(ABC):
    """A broker that can be started and stopped again and again, each time with an empty folder.

    `settings` are options by Kafka's names, the same for every peer that has options.
    """

    name: str
    version: str

    def __init__(self, settings: Mapping[str, object] = NO_SETTINGS) -> None:
        self.settings = settings
        self.folder = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        self.process: subprocess.Popen[str] | None = None
        self.bootstrap_server = ""

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not running"
        return self.process.pid

    def start(self) -> float:
        """Seconds from the start of the process to the first acknowledged record."""
        self.prepare()
        started = self.launch()
        assert self.process is not None
        deadline = started + START_SECONDS
        while not append_one(self.bootstrap_server, FIRST_TOPIC):
            if time.perf_counter() > deadline or self.process.poll() is not None:
                self.stop()
                raise UnavailableError(f"it took no record within {START_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - started

    def launch(self) -> float:
        """Starts the process with whatever is in its folder; returns when that was (perf_counter)."""
        assert self.process is None, f"{self.name} is running already"
        started = time.perf_counter()
        self.process = subprocess.Popen(
            self.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environment(),
        )
        self.bootstrap_server = self.address()
        return started

    def prepare(self) -> None:
        """What is done before the clock starts."""
        self.folder.mkdir(exist_ok=True)

    @abstractmethod
    def command(self) -> list[str]: ...

    def environment(self) -> dict[str, str]:
        """The environment variables of its process."""
        return dict(os.environ)

    def address(self) -> str:
        """Where it listens, from what it prints."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self.stop()
            raise UnavailableError(f"it ended before it began: {line!r}")
        return line.split()[-1]

    def stop(self) -> None:
        """Ends the process and removes its data."""
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)

    def halt(self) -> None:
        """Ends the process in an orderly way; its data stay for the next launch."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.communicate(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
            self.process = None

    def pids(self) -> list[int]:
        """Its process, and those that this has started."""
        return [self.pid]

    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, self.pids()))

    def memory(self) -> Memory:
        return memory_of_family(self.pids())

    def create_topic(self, topic: str) -> None:
        create_topic(self.bootstrap_server, topic)

    def delete_topic(self, topic: str) -> None:
        """Returns when the system has the memory of its data back.

        Writing into pages that were used before costs a fifth of writing into fresh ones, which a virtual machine gets
        from its host. So a broker that deletes later would make the next one pay.
        """
        delete_topic(self.bootstrap_server, topic)
        deadline = time.monotonic() + DELETE_SECONDS
        while any(path.is_dir() for path in self.folder.rglob(f"{topic}-*")):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} has not deleted the data of {topic}")
            time.sleep(0.02)


class Ottla(Peer):
    """`ottla serve`, of the environment that runs the benchmark."""

    name = "ottla"
    version = VERSION

    def command(self) -> list[str]:
        settings = {"num.partitions": PARTITIONS_PER_TOPIC, **self.settings}
        return [
            *(sys.executable, "-m", "ottla", "serve", "--listen", "127.0.0.1:0"),
            *("--data", str(self.folder)),
            *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
        ]


class OttlaWorkers(Ottla):
    """`ottla serve --workers 2`: a supervisor and two nodes, each a process."""

    name = "ottla-2"
    version = f"{VERSION}, 2 workers"
    workers = 2

    def command(self) -> list[str]:
        return [*super().command(), "--workers", str(self.workers)]

    def pids(self) -> list[int]:
        return [self.pid, *(process.pid for process in descendants(self.pid))]


class MockCluster(Peer):
    """librdkafka's mock cluster: C, in memory, the newest 5 MB of a partition, no checks of records."""

    name = "mock"
    version = f"librdkafka {confluent_kafka.libversion()[0]}"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.mock_cluster"]

    def delete_topic(self, topic: str) -> None:
        """Cannot be; it forgets old records by itself."""


# The options of kafka-server-start.sh and kafka-run-class.sh.
JAVA_OPTIONS = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)


class ApacheKafka(Peer):
    """One node that is broker and controller (KRaft), with Kafka's defaults."""

    name = "kafka"
    version = f"Apache Kafka {KAFKA_SERVER_VERSION}"

    def __init__(self, settings: Mapping[str, object] = NO_SETTINGS) -> None:
        self.jars = kafka_jars()
        super().__init__(settings)
        self.port = 0

    def prepare(self) -> None:
        super().prepare()
        self.port, controller_port = free_ports(2)
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": self.folder / "data",
            "num.partitions": PARTITIONS_PER_TOPIC,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            # Deleted topics give their disk space back before the next row needs it.
            "log.segment.delete.delay.ms": 1000,
            "log.initial.task.delay.ms": 1000,
            **self.settings,
            **own_settings(),
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        self.settings_file.write_text(text, encoding="utf-8")
        command = [
            *("java", "-cp", f"{self.jars}/*", "kafka.tools.StorageTool", "format"),
            *("-t", CLUSTER_ID, "-c", str(self.settings_file)),
        ]
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PREPARE_SECONDS,
                check=True,
            )
        except subprocess.SubprocessError as error:
            self.stop()
            raise UnavailableError(f"its storage could not be formatted: {error}") from error

    @property
    def settings_file(self) -> Path:
        return self.folder / "server.properties"

    def command(self) -> list[str]:
        return [
            *("java", *JAVA_OPTIONS, "-cp", f"{self.jars}/*"),
            *("kafka.Kafka", str(self.settings_file)),
        ]

    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def own_settings() -> dict[str, str]:
    """Options for Kafka alone, from the variable BENCH_KAFKA_SET: name=value, and so on behind blanks."""
    words = os.environ.get("BENCH_KAFKA_SET", "").split()
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


# Which peers a run has, and why others are left out of it.
FoundPeers = tuple[list[Peer], dict[str, str]]


def available_peers() -> FoundPeers:
    """Ours first, then the peers that can run here, and why the others cannot."""
    return found_peers(Ottla, OttlaWorkers, MockCluster, ApacheKafka)


def peers_with_options(settings: Mapping[str, object]) -> FoundPeers:
    """As `available_peers`, with options set; the mock cluster has none and speaks old versions of the group APIs."""
    return found_peers(Ottla, OttlaWorkers, ApacheKafka, settings=settings)


def peers_with_one_process(settings: Mapping[str, object]) -> FoundPeers:
    """As `peers_with_options`, but for our workers."""
    return found_peers(Ottla, ApacheKafka, settings=settings)


def found_peers(
    ours: type[Peer], *others: type[Peer], settings: Mapping[str, object] = NO_SETTINGS
) -> FoundPeers:
    """The peers that can run here; ours is the first and has to."""
    peers, missing = [ours(settings)], {}
    for kind in others:
        try:
            peers.append(kind(settings))
        except UnavailableError as error:
            missing[kind.name] = str(error)
    return peers, missing
