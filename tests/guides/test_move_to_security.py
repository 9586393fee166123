"""The chapter "From plaintext to TLS, SCRAM and ACLs without downtime": its commands, while clients write and read."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.faults.processes import free_port
from tests.guides.console import BLOCK, environment_with_ottla

import ottla
from ottla.config import properties
from ottla.errors import ErrorCode, KafkaError

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "security.md"
HEADING = "## From plaintext to TLS, SCRAM and ACLs without downtime"
RUN_SECONDS = 60
END_SECONDS = 30
# Longer than a restart takes on a busy machine, and much shorter than a client's timeouts.
LONGEST_PAUSE_SECONDS = 15.0


def commands_of(text: str) -> list[str]:
    """The commands of the chapter, whose further lines begin with `>`."""
    chapter = text[text.index(HEADING) :]
    return [
        re.sub(r"^> ", "", command, flags=re.MULTILINE).strip()
        for block in BLOCK.findall(chapter)
        for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]


class Shell:
    """Runs the commands in a folder, with free ports in place of those of the page."""

    def __init__(self, folder: Path) -> None:
        self._work = folder / "work"
        self._work.mkdir()
        self._environment = environment_with_ottla(folder)
        self._ports = {"9092": str(free_port()), "9093": str(free_port())}
        self._broker: subprocess.Popen[str] | None = None
        self.log = folder / "log"

    @property
    def plain(self) -> dict[str, str]:
        """The options of a client of the first listener."""
        return {"bootstrap.servers": f"127.0.0.1:{self._ports['9092']}"}

    def options_of(self, user: str) -> dict[str, str]:
        """The options of a client of the second: those of the administrator, with another name and password."""
        found = dict(properties.load(self._work / "admin.properties"))
        found["sasl.username"] = user
        found["sasl.password"] = (self._work / f"{user}.password").read_text("ascii").strip()
        found["ssl.truststore.location"] = str(self._work / "certs" / "ca.pem")
        return {**found, "bootstrap.servers": f"localhost:{self._ports['9093']}"}

    def run(self, command: str) -> None:
        for port, free in self._ports.items():
            command = command.replace(f":{port}", f":{free}")
        if command.startswith("ottla serve"):
            self._serve(command)
            return
        done = subprocess.run(
            ["bash", "-ec", command],
            capture_output=True,
            text=True,
            cwd=self._work,
            env=self._environment,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"

    def _serve(self, command: str) -> None:
        self.stop()
        with self.log.open("a") as log:
            self._broker = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._work,
                env=self._environment,
            )
        assert self._broker.stdout is not None
        line = self._broker.stdout.readline()
        assert line.startswith("listening on "), self.log.read_text(encoding="utf-8")

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.send_signal(signal.SIGTERM)
            assert self._broker.wait(END_SECONDS) == 0
            assert self._broker.stdout is not None
            self._broker.stdout.close()
            self._broker = None


class Till:
    """Writes numbers, each of which has to be acknowledged, until it is told to stop."""

    def __init__(self) -> None:
        self.written = 0
        self.longest_pause = 0.0
        self.error: BaseException | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, options: Mapping[str, Any]) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, args=(options,))
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        assert self._thread is not None
        self._thread.join()
        assert self.error is None, self.error

    def _run(self, options: Mapping[str, Any]) -> None:
        try:
            with ottla.Producer(options) as producer:
                while not self._stopping.is_set():
                    began = time.monotonic()
                    producer.send("orders", b"%d" % self.written).result(END_SECONDS)
                    self.longest_pause = max(self.longest_pause, time.monotonic() - began)
                    self.written += 1
                    self._stopping.wait(0.002)
        except BaseException as error:
            self.error = error


class Kitchen(Till):
    """Reads the numbers in a group, and commits what it has read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[int] = set()

    def _run(self, options: Mapping[str, Any]) -> None:
        mine = {"group.id": "kitchen", "auto.offset.reset": "earliest"}
        try:
            with ottla.Consumer({**options, **mine}) as consumer:
                consumer.subscribe(["orders"])
                while not self._stopping.is_set():
                    self.read |= {int(record.value) for record in consumer.poll(0.05)}
                    consumer.commit()
        except BaseException as error:
            self.error = error

    def has_read(self, count: int) -> bool:
        deadline = time.monotonic() + END_SECONDS
        while len(self.read) < count and self.error is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.read == set(range(count))


@contextmanager
def shell_in(folder: Path) -> Iterator[Shell]:
    shell = Shell(folder)
    try:
        yield shell
    finally:
        shell.stop()


@pytest.mark.long
def test_clients_write_and_read_while_the_broker_becomes_a_secured_one(tmp_path: Path) -> None:
    commands = commands_of(PAGE.read_text(encoding="utf-8"))
    assert sum(command.startswith("ottla serve") for command in commands) == 4
    till, kitchen = Till(), Kitchen()
    with shell_in(tmp_path) as shell:
        is_moved = False
        for number, command in enumerate(commands):
            if command.startswith("ottla serve") and "authorizer" in command and not is_moved:
                is_moved = True
                for client, user in ((till, "till"), (kitchen, "kitchen")):
                    client.stop()
                    client.start(shell.options_of(user))
            shell.run(command)
            if number == 0:
                till.start(shell.plain)
                kitchen.start(shell.plain)
        before = till.written
        while till.written < before + 20 and till.error is None:
            time.sleep(0.01)
        till.stop()
        assert kitchen.has_read(till.written)
        kitchen.stop()
        assert till.longest_pause < LONGEST_PAUSE_SECONDS
        with (
            ottla.Producer(shell.options_of("kitchen")) as producer,
            pytest.raises(KafkaError) as caught,
        ):
            producer.send("orders", b"forged").result(END_SECONDS)
        assert caught.value.code in (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        )
    assert "Traceback" not in shell.log.read_text(encoding="utf-8")


def test_the_commands_of_a_chapter_are_found() -> None:
    text = f"{HEADING}\n```console\n$ one \\\n>     two\n$ three <<END\n> four\n> END\n```\n"
    assert commands_of(text) == ["one \\\n    two", "three <<END\nfour\nEND"]
