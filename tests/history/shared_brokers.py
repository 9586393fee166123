"""The brokers of a run as three processes of `ottla serve --storage`, and the servers that they share, with proxies."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit, urlunsplit

from tests.faults.processes import first_of_free_ports
from tests.history.brokers import OPTIONS, ROOT, START_SECONDS, BrokerProcess, environment
from tests.history.shared_mutants import SHARED_MUTANTS
from tests.history.storage_proxy import StorageProxy, Trouble
from tests.history.storage_verdict import check_storage
from tests.postgres_server import StartedServer, find_newest_binaries, started_server
from tests.storage.shared.postgres_server import SETTINGS
from tests.storage.shared.s3_server import S3Server, s3_server
from tests.storage.shared.sequencer.sql_bugs import SQL_BUGS, put_bug

from ottla.broker.crashpoints import CrashPoint
from ottla.client.raw import RawConnection
from ottla.model import NO_LEADER, Endpoint
from ottla.storage.shared.cluster_storage import init_storage
from ottla.storage.shared.sequencer.postgres.connections import Database
from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url
from ottla.storage.shared.storage_urls import StorageUrls
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

COUNT: Final = 3
LEASE_SECONDS: Final = 3.0
# After a restart of all, leaders move once more when brokers have stopped coming and going.
QUIET_SECONDS: Final = 4.5
SETTLE_SECONDS: Final = 60.0


class Servers:
    """The servers of all rounds of this process; each round has a schema and a prefix of its own."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._postgres: StartedServer | None = None
        self._s3: S3Server | None = None
        self._numbers = itertools.count(1)
        atexit.register(self._stack.close)

    @property
    def postgres(self) -> StartedServer:
        if self._postgres is None:
            self._postgres = self._stack.enter_context(
                started_server(find_newest_binaries(), SETTINGS)
            )
        return self._postgres

    @property
    def s3(self) -> S3Server:
        if self._s3 is None:
            self._s3 = self._stack.enter_context(s3_server())
        return self._s3

    def new_name(self) -> str:
        return f"round_{next(self._numbers)}"


SERVERS: Final = Servers()


class OneBroker:
    """A process, which serves as soon as the store lets it."""

    def __init__(self, command: list[str], log_path: Path, armed: CrashPoint | None) -> None:
        with log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
                cwd=ROOT,
            )
        self.armed = armed
        self.has_served = False
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.has_served = self.has_served or line.startswith("listening on ")
        self.process.stdout.close()

    @property
    def is_dead(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()


class SharedBrokers(BrokerProcess):
    """Three brokers on PostgreSQL alone."""

    node_count = COUNT
    started = "brokers"
    has_bucket: ClassVar[bool] = False
    mutant: ClassVar[str] = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        name = SERVERS.new_name()
        database = f"{SERVERS.postgres.url}?schema={name}"
        bucket = SERVERS.s3.url(name) if self.has_bucket else None
        self.direct_urls = StorageUrls(database, bucket)
        self.postgres_proxy, database = _proxy_before(database)
        self.proxies = [self.postgres_proxy]
        self.s3_proxy: StorageProxy | None = None
        if bucket is not None:
            endpoint = SERVERS.s3.endpoint
            self.s3_proxy, proxied = _proxy_before(endpoint)
            self.proxies.append(self.s3_proxy)
            bucket = bucket.replace(endpoint, proxied)
        self.urls = StorageUrls(database, bucket)
        self.brokers: list[OneBroker | None] = [None] * COUNT
        self._is_made = False
        self._stored: Counter[str] = Counter()

    @property
    def is_running(self) -> bool:
        """Whether all are that should be; `dead` says which are not."""
        return not self.dead()

    def dead(self) -> list[int]:
        return [n for n, each in enumerate(self.brokers) if each is not None and each.is_dead]

    def live(self) -> list[int]:
        """Those that serve; one that starts is left alone."""
        return [
            number
            for number, each in enumerate(self.brokers)
            if each is not None and each.has_served and not each.is_dead
        ]

    def start(self, crash: tuple[CrashPoint, int] | None = None) -> None:
        """Starts all that are down; returns when all serve."""
        if not self._is_made:
            asyncio.run(self._make_storage())
            for proxy in self.proxies:
                proxy.start()
            self._is_made = True
        for number in range(COUNT):
            if self.brokers[number] is None:
                self.start_one(number, crash)
        deadline = time.monotonic() + START_SECONDS
        while len(self.live()) < COUNT:
            if self.dead() or time.monotonic() > deadline:
                text = self.log_path.read_text(encoding="utf-8")
                raise AssertionError(f"brokers {self.dead()} did not start:\n{text[-3000:]}")
            time.sleep(0.02)

    async def _make_storage(self) -> None:
        await init_storage(self.direct_urls, None)
        if self.mutant in SQL_BUGS:
            url = parse_database_url(self.direct_urls.storage)
            connection = await Database(url).connect()
            try:

                async def run(sql: str) -> Any:
                    return await connection.fetch(sql.replace("@", url.schema))

                await put_bug(run, self.mutant)
            finally:
                await connection.close()

    def kill(self) -> None:
        """kill -9 of all, at the same time."""
        for number in range(COUNT):
            self.signal_one(number, signal.SIGKILL)
        for number in range(COUNT):
            self.kill_one(number)

    def finish(self) -> None:
        """Stops all brokers cleanly, and compares the database with the bucket."""
        for number in range(COUNT):
            self.stop_one(number)
        self._stored = asyncio.run(check_storage(self.direct_urls))

    def end(self) -> None:
        self.kill()
        if self._is_made:
            for proxy in self.proxies:
                proxy.stop()

    def counts(self) -> dict[str, int]:
        log = self.log_path.read_text(encoding="utf-8")
        return {
            "sessions lost": log.count("was away for so long"),
            "answers of storage lost": sum(proxy.lost_answers for proxy in self.proxies),
            "requests to S3 refused": sum(proxy.refused for proxy in self.proxies),
            "bugs logged": log.count("this is a bug"),
            **self._stored,
        }

    # One broker.

    def start_one(self, number: int, crash: tuple[CrashPoint, int] | None = None) -> None:
        """Does not wait until it serves."""
        route = self.routes[number]
        options = {**OPTIONS, "node.id": number + 1}
        arming = [] if crash is None else [crash[0].name, str(crash[1])]
        command = [
            *(sys.executable, "-m", "tests.history.shared_serve"),
            *([self.mutant] if self.mutant in SHARED_MUTANTS else []),
            *(*arming, "serve", "--storage", self.urls.storage),
            *(["--objects", self.urls.objects] if self.urls.objects else []),
            *("--listen", str(route.broker), "--advertise", str(route.listen)),
            *(part for item in options.items() for part in ("--set", f"{item[0]}={item[1]}")),
        ]
        self.brokers[number] = OneBroker(
            command, self.log_path, None if crash is None else crash[0]
        )
        self.starts += 1

    def kill_one(self, number: int) -> None:
        broker, self.brokers[number] = self.brokers[number], None
        if broker is not None:
            broker.kill()

    def stop_one(self, number: int) -> None:
        """A clean stop, which hands the partitions over."""
        broker = self.brokers[number]
        assert broker is not None
        broker.process.send_signal(signal.SIGTERM)
        code = broker.process.wait(START_SECONDS)
        self.kill_one(number)
        assert code == 0, f"broker {number} ended with {code}"

    def signal_one(self, number: int, what: signal.Signals) -> None:
        broker = self.brokers[number]
        if broker is not None:
            with suppress(ProcessLookupError):
                broker.process.send_signal(what)

    # The servers.

    def crash_postgres(self, seconds_down: float) -> None:
        """kill -9 of all its processes; it recovers from its log when it starts again."""
        server = SERVERS.postgres
        server.kill()
        time.sleep(seconds_down)
        server.start()

    def heal_servers(self) -> None:
        for proxy in self.proxies:
            proxy.begin(Trouble.NONE)

    # Whether they have found their balance.

    def wait_until_settled(self) -> None:
        """Until all brokers tell the same leader of every partition, and none has moved for a while."""
        deadline = time.monotonic() + SETTLE_SECONDS
        before, since = None, time.monotonic()
        while True:
            found = self._leaders()
            now = time.monotonic()
            if found is None or found != before:
                before, since = found, now
            elif now - since > QUIET_SECONDS:
                return
            if now > deadline:
                raise TimeoutError(f"the leaders were not settled in {SETTLE_SECONDS} s: {found}")
            time.sleep(0.2)

    def _leaders(self) -> dict[tuple[str, int], int] | None:
        """What all of them say; None if they differ, or a partition has no leader."""
        told = []
        for address in self.direct_addresses:
            try:
                with RawConnection(address) as connection:
                    answer = connection.call(MetadataRequest(topics=None), MetadataResponse, 12)
            except OSError:
                return None
            told.append(
                {
                    (topic.name, partition.partition_index): partition.leader_id
                    for topic in answer.topics
                    for partition in topic.partitions
                }
            )
        agreed = all(each == told[0] for each in told) and NO_LEADER not in told[0].values()
        return told[0] if agreed else None


class SharedBrokersWithBucket(SharedBrokers):
    """Three brokers on PostgreSQL and S3."""

    has_bucket = True


def _proxy_before(url: str) -> tuple[StorageProxy, str]:
    """A proxy before the server of a URL, and the URL of the proxy."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    listen = Endpoint("127.0.0.1", first_of_free_ports(1))
    user, at, _ = parts.netloc.rpartition("@")
    proxied = urlunsplit(parts._replace(netloc=f"{user}{at}{listen}"))
    return StorageProxy(listen, Endpoint(parts.hostname, parts.port)), proxied
