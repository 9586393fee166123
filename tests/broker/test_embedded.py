"""ottla.Broker: what it says of itself, what it is given, where it listens."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.broker.requests import BROKER
from tests.broker.test_describe_configs import options_of

import ottla
from ottla.broker import embedded
from ottla.client.raw import RawConnection
from ottla.storage.local.folder import layout
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse


def test_its_examples_run() -> None:
    found = doctest.testmod(embedded)
    assert (found.failed, found.attempted) == (0, 1)


def test_it_says_where_it_is() -> None:
    broker = ottla.Broker()
    assert repr(broker) == "<ottla.Broker not running>"
    with broker:
        assert repr(broker) == f"<ottla.Broker on {broker.bootstrap_servers}>"


def test_options_that_are_no_dict_are_refused() -> None:
    with pytest.raises(ottla.ConfigError, match="options are a dict"):
        ottla.Broker("num.partitions=3")  # type: ignore[arg-type]


@pytest.mark.parametrize(("keyword", "meant"), [("datadir", "data_dir"), ("port", "listen")])
def test_what_people_try_first_is_answered_with_what_they_mean(keyword: str, meant: str) -> None:
    with pytest.raises(ottla.ConfigError, match=f"did you mean {meant}"):
        ottla.Broker(None, **{keyword: "x"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "delay_ms"),
    [
        ({}, "0"),
        ({"options": {"group.initial.rebalance.delay.ms": "70"}}, "70"),
        ({"group_initial_rebalance_delay_ms": 3000}, "3000"),
    ],
)
def test_new_groups_wait_for_more_members_only_where_it_is_asked_for(
    options: dict[str, Any], delay_ms: str
) -> None:
    with (
        ottla.Broker(**options) as broker,
        RawConnection(broker.bootstrap_servers) as connection,
    ):
        shown = options_of(connection, BROKER, "1")["group.initial.rebalance.delay.ms"]
        assert shown.value == delay_ms


@pytest.mark.parametrize("host", ["localhost", "[::]", "0.0.0.0"])
def test_every_address_of_a_host_has_the_same_port(host: str) -> None:
    try:
        broker = ottla.Broker(listen=f"{host}:0").start()
    except ottla.OttlaError as error:
        pytest.skip(f"no such addresses here: {error}")
    try:
        port = broker.bootstrap_servers.rpartition(":")[2]
        with RawConnection(f"127.0.0.1:{port}") as connection:
            answer = connection.call(MetadataRequest(topics=[]), MetadataResponse, 9)
        assert [(found.host, found.port) for found in answer.brokers] == [("127.0.0.1", int(port))]
    finally:
        broker.stop()


def test_a_broker_that_nobody_stopped_stops_with_the_process(tmp_path: Path) -> None:
    program = (
        "import ottla, pathlib, sys\n"
        "broker = ottla.Broker().start()\n"
        "pathlib.Path(sys.argv[1]).write_text(broker.data_dir)\n"
    )
    note = tmp_path / "where"
    subprocess.run([sys.executable, "-c", program, str(note)], check=True, timeout=60)
    assert not Path(note.read_text()).exists()


# Writes to several partitions and forgets to close anything.
FORGETFUL = """
import ottla, sys
options = {"log.flush.interval.messages": 1} if sys.argv[2:] else {}
broker = ottla.Broker(options, data_dir=sys.argv[1] or None, num_partitions=3).start()
producer = ottla.Producer(bootstrap_servers=broker.bootstrap_servers)
for n in range(30):
    sent = producer.send("orders", value=b"%d" % n, partition=n % 3)
sent.result(30)
producer.send("orders", value=b"last", partition=0)
"""


@pytest.mark.parametrize("option", [(), ("flush",)], ids=["default", "flush.messages=1"])
@pytest.mark.parametrize("keeps", [True, False], ids=["data_dir", "temporary"])
def test_a_forgotten_broker_stops_quietly_and_leaves_its_data_whole(
    tmp_path: Path, option: tuple[str, ...], keeps: bool
) -> None:
    folder = str(tmp_path / "data") if keeps else ""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGETFUL, folder, *option],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    if not keeps:
        return
    assert (tmp_path / "data" / layout.CLEAN_SHUTDOWN_FILE).exists()
    with (
        ottla.Broker(data_dir=folder) as broker,
        ottla.Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer,
    ):
        ends = consumer.end_offsets([("orders", n) for n in range(3)])
    assert sorted(ends.values()) == [10, 10, 11]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:0"])
def test_a_forked_child_does_not_stop_the_broker_of_its_parent(listen: str) -> None:
    program = (
        "import os, sys, ottla\n"
        f"broker = ottla.Broker(listen={listen!r}).start()\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        broker.leader_of('t', 0)\n"
        "    except ottla.IllegalStateError as error:\n"
        "        print(error, flush=True)\n"
        "    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:\n"
        "        print(producer.send('t', b'child').result(10).offset, flush=True)\n"
        "    broker.stop()\n"
        "    sys.exit(0)\n"
        "print('status', os.wait()[1], os.path.isdir(broker.data_dir))\n"
        "with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:\n"
        "    print(producer.send('t', b'parent').result(10).offset)\n"
        "broker.stop()\n"
    )
    # Since 3.12 Python warns of forks beside threads, which is what is looked at here.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "the broker runs in the parent of this process: connect to its address, and let the parent control it",
        "0",
        "status 0 True",
        "1",
    ]


def test_a_broker_in_the_process_is_silent_and_leaves_the_clients_warnings_alone() -> None:
    program = (
        "import logging, ottla\n"
        "with ottla.Broker():\n"
        "    logging.getLogger('ottla.broker.node').warning('of the broker')\n"
        "    logging.getLogger('ottla.storage.local.log.partition_log').error('of the storage')\n"
        "    logging.getLogger('ottla.client').warning('of the client')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("", "of the client\n")
