"""Programs of Apache Kafka: its broker and its tools."""

from __future__ import annotations

import re
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from tests.faults.processes import free_port
from tests.lasting import DAY_MS, LASTING
from tests.waiting import in_time

from ottla.model import topic_id_text

START_SECONDS = 100.0
STOP_SECONDS = 30.0
TOOL_SECONDS = 60.0

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
"""
# Half a minute after its start it would look for what is too old, whatever the interval is.
_LASTING = {**LASTING, "log.initial.task.delay.ms": DAY_MS}


def java(jars: Path, main_class: str, *arguments: str) -> list[str]:
    # One compiler thread and the plain collector: it shares two cores with the tests.
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m"]
    return ["java", *options, "-cp", f"{jars}/*", main_class, *arguments]


# It compares the first record of every file that it reads whole with -1.
_FALSE_ALARM = re.compile(
    r"^Non-consecutive offsets in .*\n  -1 is followed by \d+\n", re.MULTILINE
)


def dump_log(tools: Path, files: Iterable[Path], *options: str) -> str:
    """What kafka-dump-log says of files."""
    names = ",".join(str(path) for path in files)
    command = java(tools, "org.apache.kafka.tools.DumpLogSegments", *options, "--files", names)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    complaints = _FALSE_ALARM.sub("", done.stderr)
    assert not complaints, complaints
    return done.stdout


class Kafka:
    """Kafka's broker with its data in `folder / "data"`; it can end and start again at the same address."""

    def __init__(
        self,
        jars: Path,
        folder: Path,
        options: Mapping[str, object] = MappingProxyType({}),
        features: Iterable[str] = (),
        *,
        ports: tuple[int, int] | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.jars = jars
        self.folder = folder
        self.port, controller_port = ports or free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self.properties = folder / "server.properties"
        text = _PROPERTIES.format(
            port=self.port, controller_port=controller_port, data=folder / "data"
        )
        text += "".join(f"{name}={value}\n" for name, value in {**_LASTING, **options}.items())
        self.properties.write_text(text, encoding="utf-8")
        words = ["-t", cluster_id or new_cluster_id(), "-c", str(self.properties)]
        for feature in features:
            words += ["--feature", feature]
        subprocess.run(
            java(jars, "kafka.tools.StorageTool", "format", *words),
            check=True,
            capture_output=True,
            timeout=TOOL_SECONDS,
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "kafka.log").open("ab") as log:
            self.process = subprocess.Popen(
                java(self.jars, "kafka.Kafka", str(self.properties)), stdout=log, stderr=log
            )
        wait_for_port(self.port, self.process)

    def stop(self) -> None:
        """End it in an orderly way."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        """End it without warning, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def new_cluster_id() -> str:
    return "k" + topic_id_text(uuid.uuid4())[1:]


@contextmanager
def running_kafka(
    jars: Path,
    folder: Path,
    options: Mapping[str, object] = MappingProxyType({}),
    features: Iterable[str] = (),
) -> Iterator[str]:
    """A `Kafka` that runs; gives its address, and stops it cleanly."""
    kafka = Kafka(jars, folder, options, features)
    try:
        kafka.start()
        yield kafka.address
        kafka.stop()
    finally:
        kafka.kill()


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until the process listens there."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, "it ended before it began"
            in_time(deadline, "it does not listen")
            time.sleep(0.1)
        else:
            return
