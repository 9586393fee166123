"""Behind pgbouncer, which gives each transaction another session of the server.

It has to be on PATH, or named by OTTLA_TEST_PGBOUNCER (Debian's package pgbouncer).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.postgres_server import unprivileged
from tests.storage.shared.sequencer.backends import (
    LEASE_MS,
    Place,
    PostgresBackend,
    broker,
    claim_all,
    refs,
)
from tests.storage.shared.sequencer.test_takeovers import race
from tests.waiting import in_time

from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url
from ottla.storage.shared.sequencer.postgres.postgres_sequencer import (
    PostgresSequencer,
    open_postgres_sequencer,
)

pytestmark = pytest.mark.campaign


@pytest.fixture(
    params=[
        "",
        "statement_timeout,idle_in_transaction_session_timeout,jit,default_transaction_isolation",
    ]
)
def pooler(request: pytest.FixtureRequest, shared_postgres: str) -> Iterator[str]:
    """host:port of a pgbouncer that refuses settings, and of one that ignores them."""
    program = os.environ.get("OTTLA_TEST_PGBOUNCER") or shutil.which("pgbouncer")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    account = unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="ottla-pgbouncer-"))
    folder.chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = [
        "[databases]",
        f"* = host=127.0.0.1 port={urlsplit(shared_postgres).port}",
        "[pgbouncer]",
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 200",
        f"ignore_startup_parameters = extra_float_digits{',' if request.param else ''}{request.param}",
    ]
    (folder / "pgbouncer.ini").write_text(
        "\n".join(settings).replace("* = host", "postgres = user=ottla host")
    )
    process = subprocess.Popen(
        [program, folder / "pgbouncer.ini"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **account,  # type: ignore[call-overload]
    )
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            in_time(deadline, "pgbouncer did not start")
            time.sleep(0.05)
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait()
    shutil.rmtree(folder)


class PooledBackend(PostgresBackend):
    pooler = ""

    async def connect(self) -> PostgresSequencer:
        url = parse_database_url(
            f"postgresql://ottla@{self.pooler}/postgres?schema={self.url.schema}"
        )
        made = await open_postgres_sequencer(url, LEASE_MS)
        self._opened.append(made)
        return made


def test_the_sequencer_works_behind_a_pooler(postgres: Place, pooler: str) -> None:
    async def story(backend: PostgresBackend) -> None:
        pooled = PooledBackend(backend.url)
        pooled.pooler = pooler
        try:
            await race(pooled, 100, seed=5)
            sequencer = await pooled.connect()
            session = (await sequencer.register(broker("listener"))).session
            news = sequencer.notifications()
            assert await anext(news) == "lost"
            revision = (await sequencer.load_catalog()).revision
            await sequencer.commit_catalog(session, uuid.uuid4(), {"x": 1}, revision)
            await claim_all(sequencer, session, refs(9)[8:], revision + 1)
            assert {await anext(news), await anext(news)} == {"catalog", "holders"}
            await news.aclose()  # type: ignore[attr-defined]
        finally:
            await pooled.close()

    postgres.play(story)
