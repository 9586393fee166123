"""Programs of Apache Kafka: its broker and its tools."""

from __future__ import annotations

import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

from ottla.model import topic_id_text

START_SECONDS = 40.0
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


def java(jars: Path, main_class: str, *arguments: str) -> list[str]:
    # One compiler thread and the plain collector: it shares two cores with the tests.
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m"]
    return ["java", *options, "-cp", f"{jars}/*", main_class, *arguments]


def dump_log(jars: Path, files: Iterable[Path], *options: str) -> str:
    """What kafka-dump-log says of files."""
    names = ",".join(str(path) for path in files)
    command = java(jars, "kafka.tools.DumpLogSegments", *options, "--files", names)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


@contextmanager
def running_kafka(
    jars: Path, folder: Path, options: Mapping[str, object] = MappingProxyType({})
) -> Iterator[str]:
    """Kafka's broker with its data in `folder / "data"`; gives its address, and stops it cleanly."""
    with ExitStack() as stack:
        # Both are held until both are known, or they could be the same.
        ports = []
        for _ in range(2):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports.append(listener.getsockname()[1])
    port, controller_port = ports
    properties = folder / "server.properties"
    text = _PROPERTIES.format(port=port, controller_port=controller_port, data=folder / "data")
    text += "".join(f"{name}={value}\n" for name, value in options.items())
    properties.write_text(text, encoding="utf-8")
    cluster_id = "k" + topic_id_text(uuid.uuid4())[1:]
    format_command = java(
        jars, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)
    )
    subprocess.run(format_command, check=True, capture_output=True, timeout=TOOL_SECONDS)
    with (folder / "kafka.log").open("wb") as log:
        process = subprocess.Popen(
            java(jars, "kafka.Kafka", str(properties)), stdout=log, stderr=log
        )
    try:
        _wait_for(port, process)
        yield f"127.0.0.1:{port}"
        process.terminate()
        process.wait(STOP_SECONDS)
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, "Kafka ended before it began"
            assert time.monotonic() < deadline, "Kafka does not listen"
            time.sleep(0.1)
        else:
            return
