"""Brokers as processes, `ottla serve --storage`, over one storage."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.processes import ServeProcess
from tests.waiting import in_time

from ottla.storage.shared.cluster_storage import init_storage
from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url
from ottla.storage.shared.sequencer.postgres.postgres_sequencer import open_postgres_sequencer
from ottla.storage.shared.sequencer.records import BrokerDescription, MemberState
from ottla.storage.shared.storage_urls import StorageUrls

START_SECONDS = 60.0
# A lease of three seconds, and time for a busy machine.
TAKEOVER_SECONDS = 30.0


class BrokerProcesses:
    """Several brokers, by number from 0; each keeps its port, and so its node id."""

    def __init__(self, folder: Path, urls: StorageUrls, count: int) -> None:
        self._urls = urls
        self.ports = free_ports(count)
        self.processes = []
        for number in range(count):
            place = folder / f"broker-{number}"
            place.mkdir()
            self.processes.append(ServeProcess(place))

    @property
    def servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, number: int, *arguments: str, protocol: str = "PLAINTEXT") -> None:
        engine = ["--storage", self._urls.storage]
        if self._urls.objects is not None:
            engine += ["--objects", self._urls.objects]
        listen = f"{protocol}://127.0.0.1:{self.ports[number]}"
        self.processes[number].start(*arguments, engine=engine, listen=listen)

    def start_all(self, *arguments: str) -> None:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda each: self.start(each, *arguments), range(len(self.ports))))

    def kill(self, number: int) -> None:
        self.processes[number].kill()

    @contextmanager
    def paused(self, number: int) -> Iterator[None]:
        """The process stands still, as that of a machine that sleeps."""
        self.processes[number].signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes[number].signal(signal.SIGCONT)

    def stop(self, number: int) -> int:
        return self.processes[number].stop()

    def end(self) -> None:
        for each in self.processes:
            each.kill()

    @property
    def log(self) -> str:
        return "\n".join(each.log for each in self.processes if each.log_path.exists())

    # What clients see.

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers})

    def create_topic(self, name: str, partitions: int) -> None:
        admin = self.admin()  # its futures end with it
        (created,) = admin.create_topics(
            [NewTopic(name, partitions, min(3, len(self.ports)))]
        ).values()
        created.result(START_SECONDS)

    def leaders(self, topic: str, number: int) -> dict[int, int]:
        """The leaders of a topic, as one broker tells them; -1 where there is none."""
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ports[number]}"})
        found = admin.list_topics(topic, timeout=10).topics[topic]
        return {each.id: each.leader for each in found.partitions.values()}

    def node_of(self, number: int) -> int:
        """The node id of a broker, by its address."""
        brokers = self.admin().list_topics(timeout=10).brokers.values()
        return next(each.id for each in brokers if each.port == self.ports[number])

    def wait_until_spread(self, topic: str, node_count: int) -> dict[int, int]:
        """Waits until every broker leads a share of a topic, and returns the leaders."""
        found: dict[int, int] = {}

        def is_spread() -> bool:
            nonlocal found
            found = self.leaders(topic, 0)
            counts = [list(found.values()).count(node) for node in set(found.values())]
            return (
                -1 not in found.values()
                and len(counts) == node_count
                and max(counts) - min(counts) <= 1
            )

        wait_until(is_spread)
        return found


def wait_until(is_so: Callable[[], bool], seconds: float = TAKEOVER_SECONDS) -> None:
    """Asks again and again until it is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        in_time(deadline)
        time.sleep(0.05)


def make_storage(storage: str, objects: str | None = None) -> StorageUrls:
    urls = StorageUrls(storage, objects)
    asyncio.run(init_storage(urls, None))
    return urls


def free_ports(count: int) -> Sequence[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


async def members_of(storage: str) -> Sequence[MemberState]:
    """What the storage has told its brokers of each other."""
    sequencer = await open_postgres_sequencer(parse_database_url(storage))
    try:
        made = await sequencer.register(BrokerDescription("looker", None, {}, {}, "", None))
        beat = await sequencer.heartbeat(made.session, 0, 0)
        await sequencer.end_session(made.session)
    finally:
        await sequencer.close()
    return beat.members
