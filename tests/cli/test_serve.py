"""`ottla serve` as its operators meet it: what it logs, what it measures, what it reads."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.exposition_reader import read, value
from tests.config.test_server_file import KAFKAS

import ottla
from ottla import Admin, Consumer, Producer
from ottla.broker.clock import SystemClock
from ottla.broker.network.listen_error import ListenError
from ottla.broker.runtime import BrokerSettings, start_broker
from ottla.broker.security.development_certificates import make_ca, make_server
from ottla.config.broker import BrokerConfig
from ottla.doors.door import Door
from ottla.model import Endpoint
from ottla.ports import StorageError
from ottla.storage.local import open_local_store

WAIT_SECONDS = 30
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "log.retention.check.interval.ms": 200,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "max.connections.per.ip": 20,
}

Event = dict[str, Any]


class Serving:
    """A running `ottla serve` whose log is JSON."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        assert process.stdout is not None
        self.process = process
        self.address = process.stdout.readline().removeprefix("listening on ").strip()
        self.log = log
        assert self.address, log.read_text(encoding="utf-8")

    @property
    def events(self) -> list[Event]:
        # The last line may be half written.
        *lines, _ = self.log.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines]

    def wait_for(self, event: str, **fields: Any) -> Event:
        """The first event of this name with these fields."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            for each in self.events:
                if each["event"] == event and fields.items() <= each.items():
                    return each
            time.sleep(0.02)
        raise TimeoutError(f"no {event} with {fields} in {self.log.read_text(encoding='utf-8')}")


@contextmanager
def serving(folder: Path, *arguments: str, name: str = "log") -> Iterator[Serving]:
    log = folder / name
    command = [sys.executable, "-m", "ottla", "serve", "--log-format", "json", *arguments]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder
        )
    try:
        yield Serving(process, log)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def settings(**more: object) -> list[str]:
    dotted = {name.replace("_", "."): value for name, value in more.items()}
    return [f"--set={name}={value}" for name, value in (SETTINGS | dotted).items()]


def test_the_log_tells_the_story_of_a_broker(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen=127.0.0.1:0", "--data=d", *settings()) as broker:
        started = broker.wait_for("broker_started")
        assert started["listen"] == broker.address
        assert (started["version"], started["data"]) == (ottla.__version__, "d")
        tell_topics(broker)
        tell_groups(broker)
        tell_transactions(broker)
        tell_clients(broker)
        broker.process.kill()
        broker.process.wait()
    arguments = ["--listen=127.0.0.1:0", "--data=d", *settings()]
    with serving(tmp_path, *arguments, name="second") as broker:
        broker.wait_for("recovery_begun")
        recovered = broker.wait_for("partitions_recovered")
        assert recovered["partitions"] > 0
        assert recovered["offline"] == 0
        assert recovered["seconds"] > 0
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(WAIT_SECONDS) == 0
        names = [each["event"] for each in broker.events]
        assert names[-2:] == ["broker_stopping", "broker_stopped"]
        assert broker.wait_for("broker_stopping")["signal"] == "SIGTERM"


def tell_topics(broker: Serving) -> None:
    with Admin(bootstrap_servers=broker.address) as admin:
        admin.create_topics([ottla.admin.NewTopic("orders", num_partitions=2)])
        admin.create_partitions({"orders": 3})
        resource = ottla.admin.ConfigResource.topic("orders")
        admin.incremental_alter_configs({resource: [ottla.admin.AlterConfig("retention.ms", "1")]})
        with Producer(bootstrap_servers=broker.address) as producer:
            producer.send("orders", value=b"x" * 100, partition=0, timestamp_ms=1).result(10)
        broker.wait_for("topic_created", topic="orders", partitions=2)
        broker.wait_for("partitions_added", topic="orders", partitions=3, partitions_before=2)
        broker.wait_for("topic_configured", topic="orders", changes="retention.ms=1")
        deleted = broker.wait_for("retention_applied", topic="orders", partition=0)
        assert (deleted["segments"], deleted["start_offset"]) == (1, 1)
        assert deleted["bytes"] > 100
        broker_resource = ottla.admin.ConfigResource(ottla.admin.ResourceType.BROKER, "")
        change = ottla.admin.AlterConfig("log.retention.ms", "900000")
        admin.incremental_alter_configs({broker_resource: [change]})
        broker.wait_for("broker_configured", broker="(all)", changes="log.retention.ms=900000")
        admin.create_topics([ottla.admin.NewTopic("short-lived")])
        admin.delete_topics(["short-lived"])
        broker.wait_for("topic_deleted", topic="short-lived")


def tell_groups(broker: Serving) -> None:
    options = {"auto.offset.reset": "earliest", "session.timeout.ms": 6000}
    with Producer(bootstrap_servers=broker.address) as producer:
        producer.send("read", value=b"x").result(10)
    with Consumer({"bootstrap.servers": broker.address, "group.id": "g", **options}) as consumer:
        consumer.subscribe(["read"])
        assert list(consumer.poll(10.0))
    forming = broker.wait_for("group_forming", group="g", generation=1, members=1)
    stable = broker.wait_for("group_stable", group="g", generation=1, members=1)
    assert stable["protocol"] == "range"
    left = broker.wait_for("member_left", group="g")
    assert left["member"] == forming["leader"]
    broker.wait_for("group_empty", group="g")


def tell_transactions(broker: Serving) -> None:
    options = {"bootstrap.servers": broker.address, "transactional.id": "till"}
    slow = Producer({**options, "transaction.timeout.ms": 1500})
    slow.init_transactions()
    slow.begin_transaction()
    slow.send("read", value=b"never seen").result(10)
    broker.wait_for("transaction_timed_out", transactional_id="till", timeout_ms=1500, partitions=1)
    slow.close(0)
    first, second = (Producer(options) for _ in range(2))
    first.init_transactions()
    first.begin_transaction()
    first.send("read", value=b"never seen").result(10)
    second.init_transactions()
    broker.wait_for("transaction_fenced", transactional_id="till", partitions=1)
    first.close(0)
    second.close()


def tell_clients(broker: Serving) -> None:
    host, _, port = broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as sent:
        sent.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert sent.recv(100) == b""
    closed = broker.wait_for("connection_closed")
    assert "an HTTP request" in closed["reason"]
    held = [socket.create_connection((host, int(port)), timeout=10) for _ in range(22)]
    assert "max.connections.per.ip=20" in broker.wait_for("connection_refused")["reason"]
    for each in held:
        each.close()


def test_kafkas_own_file_starts_a_broker_and_metrics_are_served(tmp_path: Path) -> None:
    file = KAFKAS.replace("://:9092", "://127.0.0.1:0").replace("/var/lib/kafka", "kafka-logs")
    file = re.sub("^advertised.*\n", "", file, flags=re.MULTILINE)
    (tmp_path / "server.properties").write_text(file, encoding="utf-8")
    arguments = ["--config=server.properties", "--set=num.partitions=2", "--metrics=127.0.0.1:0"]
    with serving(tmp_path, *arguments) as broker:
        with Producer(bootstrap_servers=broker.address) as producer:
            producer.send("orders", value=b"x", partition=0).result(10)
        named = broker.wait_for("options_without_effect", file="server.properties")
        assert "num.io.threads" in named["options"]
        url = broker.wait_for("metrics_served")["url"]
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = read(answer.read().decode())
        assert value(found, "ottla_topic_partitions", topic="orders") == 2
        assert value(found, "ottla_requests_total", api="Produce", node="1") == 1
    assert (tmp_path / "kafka-logs" / "orders-0").is_dir()


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        cwd=folder,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--listen={address}"], 1, ["{address}", "in use", "--listen HOST:PORT"]),
        (["--metrics={address}"], 1, ["{address}", "in use", "--metrics HOST:PORT"]),
        (["--data=d"], 1, ["d is in use by another broker", "--data DIR"]),
        (["--listen=192.0.2.1:9092"], 1, ["192.0.2.1:9092", "must belong to this machine"]),
        (["--metrics=9464"], 2, ["9464", "HOST:PORT"]),
        (["--registry=8081"], 2, ["8081", "HOST:PORT"]),
        (["--metrics=https://127.0.0.1:0"], 2, ["needs a certificate", "PEM file"]),
        (["--certificate=x"], 2, ["--certificate has no effect without --metrics https://"]),
        (["--metrics-login=x"], 2, ["--metrics-login has no effect without --metrics"]),
        (["--registry=127.0.0.1:0", "--registry-login=x"], 2, ["x cannot be read"]),
        (["--config=secure.properties"], 2, ["SASL_SSL", "needs a certificate"]),
    ],
)
def test_a_start_that_fails_is_one_line_that_says_what_to_try(
    taken: Callable[[str], str],
    arguments: list[str],
    code: int,
    words: list[str],
) -> None:
    given = [taken(each) for each in arguments]
    if not any(each.startswith("--listen") for each in given) and code == 1:
        given.append("--listen=127.0.0.1:0")
    folder = Path(taken("{folder}"))
    if not any(each.startswith("--data") for each in given):
        given.append("--ephemeral")
    done = run(folder, *given)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ottla: ")
    for word in words:
        assert taken(word) in line


def test_a_registry_is_served_beside_the_broker(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("group.initial.rebalance.delay.ms=0\n")
    arguments = ("--ephemeral", "--listen=127.0.0.1:0", "--config=server.properties")
    with serving(tmp_path, *arguments, "--registry=127.0.0.1:0") as broker:
        url = broker.wait_for("registry_started")["url"]
        request = urllib.request.Request(
            f"{url}/subjects/orders/versions",
            b'{"schema": "\\"string\\""}',
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
            assert json.load(answer) == {"id": 1}
        with Admin(bootstrap_servers=broker.address) as admin:
            assert "_schemas" in admin.list_topics()
        taken = url.removeprefix("http://")
        done = run(
            tmp_path,
            "--ephemeral",
            "--listen=127.0.0.1:0",
            f"--registry={taken}",
            "--log-level=error",
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert f"cannot listen at {taken}" in done.stderr
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(WAIT_SECONDS) == 0


def test_a_folder_that_cannot_be_used_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as refused:
        open_local_store(tmp_path / "file", clock=SystemClock())
    told = f"cannot use the data folder {tmp_path / 'file'}: File exists"
    assert str(refused.value) == told


def test_doors_for_strangers_cannot_be_missed(tmp_path: Path) -> None:
    arguments = [
        "--ephemeral",
        "--listen=127.0.0.1:0",
        "--registry=0.0.0.0:0",
        "--metrics=0.0.0.0:0",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "serve", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("listening on")
    process.terminate()
    _, errors = process.communicate(timeout=WAIT_SECONDS)
    for words in (
        "WARNING: anybody who reaches http://0.0.0.0:",
        "can read, change and delete schemas.",
        "can read the metrics.",
        "--metrics-login FILE",
    ):
        assert words in errors


def test_every_door_of_a_broker_that_has_only_tls(tmp_path: Path) -> None:
    """The registry needs none of its listeners; metrics and registry have the certificate of the first one."""
    make_ca(tmp_path, days=2)
    make_server(tmp_path, ["127.0.0.1"], days=2)
    (tmp_path / "login").write_text("alice:sesame\n")
    with serving(
        tmp_path,
        "--ephemeral",
        "--listen=SSL://127.0.0.1:0",
        "--set=ssl.keystore.location=127.0.0.1.pem",
        "--set=ssl.client.auth=required",
        "--set=ssl.truststore.location=ca.pem",
        "--registry=https://127.0.0.1:0",
        "--registry-login=login",
        "--metrics=https://127.0.0.1:0",
        "--metrics-login=login",
    ) as broker:
        registry = broker.wait_for("registry_started")["url"]
        metrics = broker.wait_for("metrics_served")["url"]
        trust = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        for url in (f"{registry}/subjects", metrics):
            assert url.startswith("https://")
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(url, timeout=WAIT_SECONDS, context=trust)
            login = base64.b64encode(b"alice:sesame").decode()
            request = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS, context=trust) as answer:
                assert answer.status == 200
        assert "sesame" not in json.dumps(broker.events)


@pytest.mark.parametrize("what", ["listen", "metrics"])
def test_a_port_in_use_leaves_no_folder_behind(tmp_path: Path, what: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        used = Endpoint("127.0.0.1", other.getsockname()[1])
        free = Endpoint("127.0.0.1", 0)
        settings = BrokerSettings(
            config=BrokerConfig.read(
                {"listeners": f"PLAINTEXT://{used if what == 'listen' else free}"}
            ),
            metrics=Door("--metrics", used if what == "metrics" else free),
            data_dir=str(tmp_path / "new"),
        )
        with pytest.raises(ListenError, match="in use"):
            asyncio.run(start_broker(settings))
    assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """A broker that has an address and a folder, which texts can name."""
    folder = tmp_path_factory.mktemp("taken")
    (folder / "secure.properties").write_text("listeners=SASL_SSL://:9092\n", encoding="utf-8")
    with serving(folder, "--listen=127.0.0.1:0", "--data=d") as broker:
        yield lambda text: text.format(address=broker.address, folder=folder)


@pytest.mark.parametrize(("log_format", "lines"), [("text", 8), ("json", 0)])
def test_an_open_door_is_announced_where_nobody_can_miss_it(
    tmp_path: Path, log_format: str, lines: int
) -> None:
    """Programs that read the log get an event instead."""
    command = [sys.executable, "-m", "ottla", "serve", "--ephemeral", "--listen=0.0.0.0:0"]
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [*command, "--log-format", log_format], stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as broker,
    ):
        assert broker.stdout is not None
        address = broker.stdout.readline().removeprefix("listening on ").strip()
        broker.terminate()
    told = log.read_text(encoding="utf-8")
    assert sum(line.startswith("*") for line in told.splitlines()) == lines
    assert f"anybody who reaches {address}" in told
    assert ("listener_open_to_all" in told) == (log_format == "json")
