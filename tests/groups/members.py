"""Members of a group, each a process of its own with somebody else's client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.groups.checker import incomplete_assignment
from tests.groups.history import DIED, KILLED, PAUSED, RESUMED, Event, History

from ottla.model import TopicPartition

ROOT = Path(__file__).parents[2]
LEAVE_SECONDS = 20.0
CONFIG_SECONDS = 20.0
SETTLE_SECONDS = 30.0
# A group is stable when nothing was assigned or revoked for so long: more than two heartbeats.
QUIET_SECONDS = 0.6


@dataclass(frozen=True)
class Client:
    """A client library and how it assigns."""

    command: tuple[str, ...]
    # Of the members; with the protocol "consumer", of the broker.
    assignor: str
    is_cooperative: bool = False
    protocol: str = "classic"

    @property
    def has_new_protocol(self) -> bool:
        """KIP-848: the broker assigns, and says how long sessions are."""
        return self.protocol == "consumer"


def _python(module: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"tests.groups.workers.{module}")


CLIENTS = {
    "ottla-range": Client(_python("ottla_worker"), "range"),
    "ottla-roundrobin": Client(_python("ottla_worker"), "roundrobin"),
    "ottla-sticky": Client(_python("ottla_worker"), "sticky"),
    "ottla-cooperative": Client(_python("ottla_worker"), "cooperative-sticky", True),
    "ottla-aio": Client(_python("ottla_aio_worker"), "range"),
    "ottla-aio-cooperative": Client(_python("ottla_aio_worker"), "cooperative-sticky", True),
    "confluent-range": Client(_python("confluent_worker"), "range"),
    "confluent-roundrobin": Client(_python("confluent_worker"), "roundrobin"),
    "confluent-cooperative": Client(_python("confluent_worker"), "cooperative-sticky", True),
    "kafka-python": Client(_python("kafka_python_worker"), "range"),
    "kafka-python-cooperative": Client(_python("kafka_python_worker"), "cooperative-sticky", True),
    "aiokafka": Client(_python("aiokafka_worker"), "roundrobin"),
    "aiokafka-sticky": Client(_python("aiokafka_worker"), "sticky"),
    # Their command is known when the worker is compiled.
    "java-range": Client((), "range"),
    "java-cooperative": Client((), "cooperative-sticky", True),
    **{
        f"{name}-consumer": Client(command, "uniform", True, "consumer")
        for name, command in {
            "ottla": _python("ottla_worker"),
            "ottla-aio": _python("ottla_aio_worker"),
            "confluent": _python("confluent_worker"),
            "java": (),
        }.items()
    },
}

# Nobody who is well should ever miss it, on a busy machine neither.
PATIENT_MS = 10_000
# For those who are away for a while and have to be taken back.
LONG_SESSION_MS = 25_000
# For those whom the test kills or pauses; until then they should not miss it either.
IMPATIENT_MS = 4_000


def change_group_config(bootstrap_servers: str, group_id: str, **changes: object) -> None:
    """Sets options of a group (KIP-848)."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    resource = ConfigResource(
        ResourceType.GROUP,
        group_id,
        incremental_configs=[
            ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
            for name, value in changes.items()
        ],
    )
    (changed,) = admin.incremental_alter_configs([resource]).values()
    changed.result(CONFIG_SECONDS)


class Member:
    """One process."""

    def __init__(self, name: str, command: Iterable[str], history: History, log: IO[bytes]) -> None:
        self.name = name
        self.history = history
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )
        self._is_asked_to_end = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # A killed process may leave half a line.
            if line.endswith(b"\n"):
                self.history.add(Event.parse(self.name, line.decode()))
        if not self._is_asked_to_end:
            self.history.note(self.name, DIED)

    def leave(self) -> None:
        """Commits, leaves the group and ends."""
        self.begin_to_leave()
        self.wait_left()

    def begin_to_leave(self) -> None:
        self._is_asked_to_end = True
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait_left(self) -> None:
        code = self.process.wait(LEAVE_SECONDS)
        self._reader.join(LEAVE_SECONDS)
        assert code == 0, f"{self.name} ended with {code}"

    def kill(self) -> None:
        self._is_asked_to_end = True
        self.process.kill()
        self.process.wait()
        # What it wrote before is before.
        self._reader.join(LEAVE_SECONDS)
        self.history.note(self.name, KILLED)

    def expect_end(self) -> None:
        """From now on it may end by itself."""
        self._is_asked_to_end = True

    def wait_ended(self) -> int:
        """Waits until it ends by itself; its exit code."""
        code = self.process.wait(LEAVE_SECONDS)
        self._reader.join(LEAVE_SECONDS)
        self.history.note(self.name, KILLED)
        return code

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.history.note(self.name, PAUSED)

    def doze(self, seconds: float) -> None:
        """For less than its session: it keeps what it has."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def resume(self) -> None:
        self.history.note(self.name, RESUMED)
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Whatever state it is in."""
        self._is_asked_to_end = True
        self.process.kill()
        self.process.wait()
        self._reader.join(LEAVE_SECONDS)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class Group:
    """A consumer group of one client's members, and their story."""

    def __init__(self, bootstrap_servers: str, client: Client, log: IO[bytes]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.client = client
        self.group_id = f"group-{uuid.uuid4().hex[:12]}"
        self.history = History()
        self.members: list[Member] = []
        self._session_timeout_ms = PATIENT_MS
        self._log = log

    def start(
        self,
        topics: Iterable[str] = (),
        *,
        client: Client | None = None,
        session_timeout_ms: int = PATIENT_MS,
        **options: object,
    ) -> Member:
        """Another member; options are the workers' with `_` for `.`."""
        client = client or self.client
        if client.has_new_protocol:
            self._limit_sessions(session_timeout_ms)
        name = f"m{len(self.members)}"
        settings: dict[str, object] = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.group_id,
            "client.id": name,
            "group.protocol": client.protocol,
            "assignor": client.assignor,
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": 200,
            "max.poll.interval.ms": max(PATIENT_MS, session_timeout_ms),
            "metadata.max.age.ms": 1000,
        }
        if topics:
            settings["topics"] = ",".join(topics)
        settings |= {key.replace("_", "."): value for key, value in options.items()}
        words = [f"{key}={value}" for key, value in settings.items()]
        member = Member(name, [*client.command, *words], self.history, self._log)
        self.members.append(member)
        return member

    def _limit_sessions(self, session_timeout_ms: int) -> None:
        """With the new protocol the group's members all have the shortest that one of them asked for."""
        if session_timeout_ms != self._session_timeout_ms and (
            self._session_timeout_ms == PATIENT_MS or session_timeout_ms < self._session_timeout_ms
        ):
            self._session_timeout_ms = session_timeout_ms
            change_group_config(
                self.bootstrap_servers,
                self.group_id,
                **{"consumer.session.timeout.ms": session_timeout_ms},
            )

    def settle(self, partitions: Iterable[TopicPartition], *members: Member) -> None:
        """Waits until these members share the partitions, and nothing moves any more."""
        partitions, names = list(partitions), {member.name for member in members}
        quiet_since = time.monotonic()
        last: object = None

        def is_settled() -> bool:
            nonlocal quiet_since, last
            owners = self.history.owners
            if owners != last:
                last, quiet_since = owners, time.monotonic()
            return (
                owners.keys() == names
                and not incomplete_assignment(owners, partitions)
                and time.monotonic() - quiet_since > QUIET_SECONDS
            )

        self.history.wait(f"settled with {sorted(names)}", is_settled, SETTLE_SECONDS)

    def check(self, problems: list[str]) -> None:
        """Fails with the story if there are any."""
        print(self.history.tail())
        assert not problems, "\n".join(problems)

    def leave(self, *members: Member) -> None:
        """These leave at the same time."""
        for member in members:
            member.begin_to_leave()
        for member in members:
            member.wait_left()

    def end(self) -> None:
        for member in self.members:
            member.end()


@contextmanager
def group_of(bootstrap_servers: str, client: Client, folder: Path) -> Iterator[Group]:
    """A group whose processes are gone afterwards; what they wrote to stderr is printed."""
    log_file = folder / f"workers-{uuid.uuid4().hex[:8]}.log"
    with log_file.open("wb") as log:
        group = Group(bootstrap_servers, client, log)
        try:
            yield group
        finally:
            group.end()
            print(log_file.read_text(encoding="utf-8", errors="replace")[-6000:])
