"""Several registries on one cluster: no id is given twice, and no registration that was acknowledged is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.waiting import in_time

import ottla
from ottla.client.model import OffsetAndMetadata

PROGRAM = Path(__file__).with_name("registry_process.py")


class RegistryProcess:
    def __init__(self, bootstrap_servers: str, topic: str, session_timeout_ms: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), bootstrap_servers, topic, str(session_timeout_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.url = ""

    def wait(self) -> None:
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url, "the registry did not start"

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def registries(
    bootstrap_servers: str, topic: str, count: int, session_timeout_ms: int
) -> Iterator[list[RegistryProcess]]:
    started = [RegistryProcess(bootstrap_servers, topic, session_timeout_ms) for _ in range(count)]
    try:
        for each in started:
            each.wait()
        yield started
    finally:
        for each in started:
            each.end()


def schema(name: str) -> dict[str, str]:
    return {"schema": json.dumps({"type": "record", "name": name, "fields": []})}


class Registering(threading.Thread):
    """A client that registers schemas of its own, at one registry after the other, until it is told to stop."""

    def __init__(self, number: int, urls: list[str]) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.urls = urls
        self.stopping = threading.Event()
        self.acknowledged: dict[str, int] = {}
        self.refused: list[str] = []

    def run(self) -> None:
        count = 0
        with httpx.Client(timeout=2) as client:
            while not self.stopping.wait(0.02):
                count += 1
                # Every other schema is one that the other clients register, too.
                name = f"Shared{count}" if count % 2 else f"Own{self.number}x{count}"
                url = self.urls[(count + self.number) % len(self.urls)]
                path = f"{url}/subjects/s{self.number % 2}-{name}/versions"
                try:
                    answer = client.post(path, json=schema(name))
                except httpx.HTTPError:
                    continue
                if answer.status_code == 200:
                    self.acknowledged[f"s{self.number % 2}-{name}"] = answer.json()["id"]
                elif answer.status_code != 500:
                    self.refused.append(answer.text)


def leader_of(bootstrap_servers: str, topic: str, other_than: str = "") -> str:
    """The URL that the elected registry has told the others."""
    deadline = time.monotonic() + 60
    group = f"registries-of-{topic}"
    with ottla.Admin(bootstrap_servers=bootstrap_servers) as admin:
        while True:
            found = admin.list_consumer_group_offsets([group])[group]
            committed: OffsetAndMetadata | None = found.get(ottla.TopicPartition(topic, 0))
            url = "" if committed is None else str(json.loads(committed.metadata)["url"])
            if url and url != other_than:
                return url
            in_time(deadline, "no other registry was elected")
            time.sleep(0.1)


def acknowledged_since(clients: list[Registering], count: int) -> None:
    """Wait until the clients go on being served."""
    deadline = time.monotonic() + 60
    target = sum(len(each.acknowledged) for each in clients) + count
    while sum(len(each.acknowledged) for each in clients) < target:
        in_time(deadline, "registrations are not acknowledged any more")
        time.sleep(0.05)


def check(bootstrap_servers: str, topic: str, clients: list[Registering]) -> None:
    """A registry that reads the topic anew has every acknowledged id, and each id is one schema's."""
    assert not [text for each in clients for text in each.refused]
    with (
        ottla.SchemaRegistry(
            bootstrap_servers=bootstrap_servers, topic=topic, group=f"judge-of-{topic}"
        ) as judge,
        httpx.Client(base_url=judge.url, timeout=30) as client,
    ):
        stored = client.get("/schemas").json()
        names: dict[int, str] = {}
        for each in stored:
            name = json.loads(each["schema"])["name"]
            assert names.setdefault(each["id"], name) == name, "an id was given twice"
        assert len(set(names.values())) == len(names), "a schema has two ids"
        ids = {each["subject"]: each["id"] for each in stored}
    for each in clients:
        for subject, schema_id in each.acknowledged.items():
            assert ids.get(subject) == schema_id, "an acknowledged registration is lost"


def play(
    bootstrap_servers: str,
    topic: str,
    faults: list[signal.Signals],
    count: int,
    session_timeout_ms: int = 3_000,
) -> list[Registering]:
    """Clients register in parallel while leaders are killed or paused, one after the other."""
    with registries(bootstrap_servers, topic, len(faults) + 1, session_timeout_ms) as started:
        clients = [Registering(number, [each.url for each in started]) for number in range(4)]
        for each in clients:
            each.start()
        leader = leader_of(bootstrap_servers, topic)
        paused = []
        for fault in faults:
            acknowledged_since(clients, count)
            victim = next(each for each in started if each.url == leader)
            victim.signal(fault)
            if fault is signal.SIGSTOP:
                paused.append(victim)
            leader = leader_of(bootstrap_servers, topic, other_than=leader)
            acknowledged_since(clients, count)
        for victim in paused:
            # It wakes up as a leader, with requests in hand that it received before.
            victim.signal(signal.SIGCONT)
        acknowledged_since(clients, count)
        for each in clients:
            each.stopping.set()
        for each in clients:
            each.join(30)
    return clients


@pytest.mark.long
@pytest.mark.timeout(280)
def test_no_id_is_given_twice_when_leaders_are_killed_and_paused(
    registry_broker: ottla.Broker,
) -> None:
    servers, topic = registry_broker.bootstrap_servers, "_schemas-faults"
    clients = play(servers, topic, [signal.SIGSTOP, signal.SIGKILL], 10)
    check(servers, topic, clients)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_no_id_is_given_twice_over_many_leaders(registry_broker: ottla.Broker) -> None:
    servers, topic = registry_broker.bootstrap_servers, "_schemas-many-faults"
    faults = [signal.SIGSTOP, signal.SIGKILL, signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL]
    # In the end five of six addresses are dead or hang, and clients try one after the other.
    clients = play(servers, topic, faults, 12)
    check(servers, topic, clients)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_no_id_is_given_twice_on_apache_kafka(kafka_address: str) -> None:
    topic = f"_schemas-{uuid.uuid4().hex[:8]}"
    faults = [signal.SIGSTOP, signal.SIGKILL, signal.SIGSTOP]
    # Kafka takes no session of less than 6 s.
    clients = play(kafka_address, topic, faults, 50, session_timeout_ms=6_000)
    check(kafka_address, topic, clients)


def test_a_follower_forwards_and_reads_its_own_writes(registry_broker: ottla.Broker) -> None:
    servers, topic = registry_broker.bootstrap_servers, "_schemas-two"
    options = {"bootstrap.servers": servers}
    with (
        ottla.SchemaRegistry(options, topic=topic, group="two", users={"ann": "secret"}) as first,
        ottla.SchemaRegistry(options, topic=topic, group="two", users={"ann": "secret"}) as second,
        httpx.Client(timeout=30, auth=("ann", "secret")) as client,
    ):
        for number in range(10):
            url = (first.url, second.url)[number % 2]
            answer = client.post(f"{url}/subjects/s{number}/versions", json=schema(f"R{number}"))
            assert answer.json() == {"id": number + 1}
            assert client.get(f"{url}/subjects/s{number}/versions/1").status_code == 200
            # The other registry reads on before it says that it does not know an id.
            other = (first.url, second.url)[1 - number % 2]
            assert client.get(f"{other}/schemas/ids/{number + 1}").status_code == 200
        assert [first.is_leader, second.is_leader].count(True) == 1
        answer = client.put(f"{second.url}/config", json={"compatibility": "FULL"})
        assert answer.json() == {"compatibility": "FULL"}
        assert client.get(f"{second.url}/config").json() == {"compatibilityLevel": "FULL"}
        answer = client.put(f"{second.url}/config", json={"compatibility": "SOME"})
        assert answer.json()["error_code"] == 42203
        assert client.get(f"{second.url}/subjects", auth=("ann", "wrong")).status_code == 401
