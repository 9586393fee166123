"""`ottla.Broker(workers=N)`: the processes that a program embeds."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.workers.serving_workers import WAIT_SECONDS, ask_versions, wait_until_gone
from tests.waiting import in_time

import ottla
import ottla.testing
from ottla import Admin, Consumer, Producer
from ottla.admin import NewTopic
from ottla.errors import ConfigError, IllegalStateError, OttlaError
from ottla.ports.errors import InUseError

PROGRAM = """
import os, sys, time, ottla
broker = ottla.Broker(workers=2, data_dir=sys.argv[1]).start()
print(broker.address_of(1), broker._workers.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(workers=2, group_initial_rebalance_delay_ms=0) as found:
        yield found


def test_records_of_all_nodes_are_read_by_a_group(broker: ottla.Broker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("spread", num_partitions=4)])
    leaders = [broker.leader_of("spread", partition) for partition in range(4)]
    assert sorted(leaders) == [1, 1, 2, 2]
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition in range(4):
            producer.send("spread", value=b"%d" % partition, partition=partition).result(30)
    options = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "readers",
        "auto.offset.reset": "earliest",
    }
    with Consumer(options) as consumer:
        consumer.subscribe(["spread"])
        found: set[bytes | None] = set()
        deadline = time.monotonic() + WAIT_SECONDS
        while len(found) < 4 and time.monotonic() < deadline:
            found.update(record.value for record in consumer.poll(1.0))
        assert found == {b"0", b"1", b"2", b"3"}


def test_each_node_has_an_address_and_all_have_one_in_common(broker: ottla.Broker) -> None:
    assert broker.node_ids == [1, 2]
    addresses = [broker.address_of(1), broker.address_of(2), broker.bootstrap_servers]
    assert len(set(addresses)) == 3
    for address in addresses:
        assert ask_versions(address)
    assert repr(broker) == f"<ottla.Broker on {addresses[0]},{addresses[1]}>"


def test_a_killed_node_is_started_again_at_its_address(broker: ottla.Broker) -> None:
    address = broker.address_of(2)
    broker.kill_node(2)
    assert broker.node_ids == [1]
    with pytest.raises(IllegalStateError, match="node 2 is not running"):
        broker.address_of(2)
    broker.start_node(2)
    assert broker.node_ids == [1, 2]
    assert broker.address_of(2) == address
    assert ask_versions(address)


def test_a_node_that_is_killed_again_and_again_is_started_again_at_once(
    broker: ottla.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The program asked for it, so nothing is wrong with the node."""
    caplog.set_level(logging.INFO, "ottla.broker")
    for _ in range(4):
        broker.kill_node(1)
        broker.start_node(1)

    def pauses() -> list[object]:
        ended = [each for each in caplog.records if getattr(each, "event", "") == "worker_ended"]
        return [each.args["seconds"] for each in ended if isinstance(each.args, dict)]

    deadline = time.monotonic() + WAIT_SECONDS
    while len(pauses()) < 4:  # a thread logs what the processes say
        in_time(deadline, f"pauses: {pauses()}")
        time.sleep(0.01)
    assert pauses() == [0.0] * 4


def test_what_is_not_there_is_an_error(broker: ottla.Broker) -> None:
    with pytest.raises(OttlaError, match="there is no node 7: the nodes are 1, 2"):
        broker.kill_node(7)
    with pytest.raises(OttlaError, match="there is no partition none-0"):
        broker.leader_of("none", 0)
    with pytest.raises(ConfigError, match="its partitions stay with it"):
        broker.move_leader("none", 0, 1)
    with pytest.raises(IllegalStateError, match="there are no metrics"):
        _ = broker.metrics_url
    with pytest.raises(IllegalStateError, match="running already"):
        broker.start()


def test_the_folder_is_in_use_while_it_runs_and_kept_after(
    broker: ottla.Broker, tmp_path: Path
) -> None:
    with pytest.raises(InUseError):
        ottla.Broker(workers=2, data_dir=broker.data_dir).start()
    with ottla.Broker(workers=2, data_dir=tmp_path / "kept") as other:
        assert other.data_dir == str(tmp_path / "kept")
        with Producer(bootstrap_servers=other.bootstrap_servers) as producer:
            producer.send("kept", value=b"x").result(30)
    # A single process has the same data.
    with (
        ottla.Broker(data_dir=tmp_path / "kept") as again,
        Consumer(bootstrap_servers=again.bootstrap_servers) as consumer,
    ):
        assert consumer.end_offsets([("kept", 0)]) == {("kept", 0): 1}


def test_temporary_data_goes_with_the_broker() -> None:
    with ottla.Broker(workers=2) as found:
        folder = Path(found.data_dir)
        assert (folder / "workers" / "2").is_dir()
    assert not folder.exists()


def test_what_the_processes_log_is_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.broker")
    with (
        ottla.Broker(workers=2) as found,
        Admin(bootstrap_servers=found.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("logged", num_partitions=3)])
    (record,) = [each for each in caplog.records if getattr(each, "event", "") == "topic_created"]
    assert record.getMessage() == "topic logged created with 3 partition(s)"
    assert isinstance(record.args, dict)
    assert (record.args["topic"], record.args["partitions"]) == ("logged", 3)
    assert record.args["node"] in (1, 2)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_processes_end_with_the_program(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        address, supervisor = program.stdout.readline().split()
        assert ask_versions(address)
        os.kill(program.pid, number)
    wait_until_gone(int(supervisor))
    with ottla.Broker(workers=2, data_dir=tmp_path / "data") as again:
        assert ask_versions(again.bootstrap_servers)


def test_an_error_of_the_start_is_an_error_here(tmp_path: Path) -> None:
    with ottla.Broker() as other, pytest.raises(OttlaError, match="cannot listen on"):
        ottla.Broker(workers=2, listen=other.bootstrap_servers, data_dir=tmp_path / "d").start()
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"workers": 0}, "workers=0: give a number of processes"),
        ({"workers": True}, "workers=True: give a number of processes"),
        ({"workers": 2, "nodes": 3}, "nodes= are in this process and workers= are processes"),
        ({"workers": 2, "listen": "127.0.0.1:65534"}, "ends above port 65535"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ottla.Broker(**options)  # type: ignore[arg-type]


def test_brokers_for_tests_have_their_nodes_in_the_process() -> None:
    options: dict[str, Any] = {"workers": 2}
    with pytest.raises(ConfigError, match=r"need nodes in this process: give nodes="):
        ottla.testing.Broker(**options)


def page_of(url: str, **headers: str) -> str:
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
        return str(response.read(), "utf-8")


def test_metrics_are_those_of_all_nodes_and_go_on_when_one_is_killed(tmp_path: Path) -> None:
    logins = tmp_path / "logins"
    logins.write_text("a-token-of-a-scraper\n")
    logins.chmod(0o600)
    with ottla.Broker(workers=2, metrics="127.0.0.1:0", metrics_login=logins) as found:
        url, token = found.metrics_url, {"Authorization": "Bearer a-token-of-a-scraper"}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            page_of(url)
        assert 'ottla_worker_up{node="2"} 1' in page_of(url, **token)
        found.kill_node(2)
        found.start_node(2)
        assert found.metrics_url == url
        assert 'ottla_worker_up{node="2"} 1' in page_of(url, **token)
        with pytest.raises(IllegalStateError, match="there is no console"):
            _ = found.console_url
    with pytest.raises(OSError, match="refused"):
        page_of(url, **token)


@pytest.mark.long
def test_a_console_shows_all_nodes_and_ends_with_the_broker() -> None:
    pytest.importorskip("uvicorn")
    with ottla.Broker(workers=2, console="127.0.0.1:0", console_read_only=True) as found:
        url = found.console_url
        rows = json.loads(page_of(f"{url}/api/brokers"))["rows"]
        assert {f"{row['host']}:{row['port']}" for row in rows} == {
            found.address_of(node_id) for node_id in (1, 2)
        }
        with pytest.raises(IllegalStateError, match="there are no metrics"):
            _ = found.metrics_url
    with pytest.raises(OSError, match="refused"):
        page_of(url)


def test_an_address_of_the_metrics_that_is_taken_is_an_error_of_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OttlaError, match=f"cannot listen on {address}") as raised:
            ottla.Broker(workers=2, metrics=address, data_dir=tmp_path / "d").start()
    assert "--" not in str(raised.value)  # no flag of a command that nobody has called


def test_a_login_of_metrics_that_there_are_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="no effect without metrics="):
        ottla.Broker(workers=2, metrics_login="logins")


def test_users_can_be_added_while_it_runs() -> None:
    with ottla.Broker(workers=2, security="scram") as found:
        with Admin(found.client_options()) as admin:
            admin.create_topics([NewTopic("secret", num_partitions=2)])
        # Known at every node as soon as it has its options.
        for node_id in found.node_ids:
            options = {
                **found.client_options("alice"),
                "bootstrap.servers": found.address_of(node_id),
            }
            with Admin(options) as alice:
                assert alice.describe_cluster().nodes
