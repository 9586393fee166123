"""One Kafka for all processes of a test run: the first that asks starts it, and it ends after the last.

Whoever uses it holds the writing end of a named pipe. The keeper, a process of its own, has the reading end and stops
Kafka when there is no writer left, whatever became of them.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from tests.apache_kafka.programs import running_kafka

ROOT = Path(__file__).parents[2]

# What the tests of all folders can live with. Sessions may be short, and timeouts are seen soon.
OPTIONS: dict[str, object] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.max.session.timeout.ms": 1_800_000,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.assignment.interval.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
}
# Everything is allowed to everybody, and ACLs can be tested. Old releases have no such class.
AUTHORIZER: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@contextmanager
def shared_kafka(
    jars: Path, folder: Path, options: Mapping[str, object] = MappingProxyType({})
) -> Iterator[str]:
    """The address of the Kafka of this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        pipe = _pipe_to_keeper(folder)
        if pipe is None:
            _start_keeper(jars, folder, options)
            pipe = _pipe_to_keeper(folder)
            assert pipe is not None
        address = (folder / "address").read_text(encoding="utf-8")
    try:
        yield address
    finally:
        os.close(pipe)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _pipe_to_keeper(folder: Path) -> int | None:
    """The writing end; none if nobody has the reading end."""
    try:
        return os.open(folder / "users", os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return None
        raise


def _start_keeper(jars: Path, folder: Path, options: Mapping[str, object]) -> None:
    words = [str(jars), str(folder), json.dumps(dict(options))]
    with (folder / "keeper.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.apache_kafka.sharing", *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    with process:
        assert process.stdout is not None
        started = process.stdout.readline()
    assert started, (folder / "keeper.log").read_text(encoding="utf-8")


def keep(jars: Path, folder: Path, options: Mapping[str, object]) -> None:
    """Run Kafka until nobody uses it."""
    pipe = folder / "users"
    if not pipe.exists():
        os.mkfifo(pipe)
    users = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    home = folder / str(os.getpid())
    home.mkdir()
    with running_kafka(jars, home, options) as address:
        (folder / "address").write_text(address, encoding="utf-8")
        os.write(1, b"started\n")
        os.dup2(2, 1)
        waiting = select.poll()
        waiting.register(users, select.POLLIN)
        while True:
            waiting.poll()
            with _locked(folder):
                # Somebody may have come just now; after this, they will find nobody to read, and start another.
                if any(event & select.POLLHUP for _, event in waiting.poll(0)):
                    os.close(users)
                    break


if __name__ == "__main__":
    # The child outlives the test process that happened to be the first.
    if os.fork() == 0:
        keep(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
