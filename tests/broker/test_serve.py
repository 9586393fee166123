"""`ottla serve`: how it starts, how it stops, and how it says that it cannot."""

from __future__ import annotations

import logging
import signal
import socket
import struct
import time
from pathlib import Path

import pytest
from tests.broker.conftest import Starter
from tests.broker.processes import ServeProcess
from tests.broker.requests import (
    batch_of,
    create,
    fetch_request,
    fill,
    produce_request,
    read_values,
)

from ottla.broker.network import server
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import ProduceResponse

LONG_MS = 20_000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_answers_what_was_taken_and_stops_within_seconds(
    serve_process: ServeProcess, number: signal.Signals
) -> None:
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        create(connection, "t")
        connection.send(fetch_request("t", 0, max_wait_ms=LONG_MS, min_bytes=1 << 20), 12)
        for _ in range(50):
            connection.send(produce_request("t", batch_of(b"v")), 12)
        with RawConnection(serve_process.address) as other:
            while len(read_values(other, "t")) < 50:
                time.sleep(0.01)
        began = time.monotonic()
        serve_process.signal(number)
        connection.receive(FetchResponse, 12)
        for offset in range(50):
            result = connection.receive(ProduceResponse, 12).responses[0].partition_responses[0]
            assert (result.error_code, result.base_offset) == (ErrorCode.NONE, offset)
        assert serve_process.wait() == 0
        assert time.monotonic() - began < 15
    assert "stopped cleanly" in serve_process.log
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        assert read_values(connection, "t") == [b"v"] * 50


def test_appends_that_wait_for_the_disk_are_answered_before_it_stops(
    serve_process: ServeProcess,
) -> None:
    serve_process.start("--set", "log.flush.interval.messages=1")
    with RawConnection(serve_process.address) as connection:
        create(connection, "t")
        for _ in range(200):
            connection.send(produce_request("t", batch_of(b"v")), 12)
        connection.receive(ProduceResponse, 12)
        serve_process.signal(signal.SIGTERM)
        answered = 1
        try:
            while True:
                result = connection.receive(ProduceResponse, 12).responses[0].partition_responses[0]
                assert (result.error_code, result.base_offset) == (ErrorCode.NONE, answered)
                answered += 1
        except ConnectionError:
            pass
    assert serve_process.wait() == 0
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        # What was not taken any more is not there, what was taken has been answered.
        assert len(read_values(connection, "t")) == answered


def test_a_second_broker_on_the_same_folder_is_refused(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    serve_process.start()
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    second = ServeProcess(other_folder)
    code, log = second.run_to_end("--listen", "127.0.0.1:0", "--data", str(serve_process.data))
    assert code == 1
    assert str(serve_process.data) in log
    assert "Traceback" not in log
    assert len(log.strip().splitlines()) == 1
    with RawConnection(serve_process.address) as connection:
        create(connection, "t")
        fill(connection, "t", b"v")


def test_a_port_in_use_is_a_clear_error(serve_process: ServeProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, log = serve_process.run_to_end("--listen", address, "--data", str(serve_process.data))
    assert code == 1
    assert f"cannot listen on {address}" in log
    assert "Traceback" not in log
    # The folder is free again.
    serve_process.start()
    assert serve_process.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "num.partitionz=3"], "num.partitions"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "num.partitions"], "--set"),
        (["--set", "listeners=PLAINTEXT:9092"], "NAME://HOST:PORT"),
        (["--listen", "9092"], "HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "port"),
        (["--advertise", "nowhere"], "HOST:PORT"),
        (["--ephemeral", "--data", "x"], "exclude each other"),
        (["--no-such-option"], "--no-such-option"),
        (["--set", "log.retention.ms=0"], "log.retention.ms"),
    ],
)
def test_bad_options_are_usage_errors_that_say_what_to_change(
    serve_process: ServeProcess, tmp_path: Path, arguments: list[str], message: str
) -> None:
    folder = [] if "--ephemeral" in arguments else ["--data", str(serve_process.data)]
    code, log = serve_process.run_to_end(*folder, *arguments)
    assert code == 2
    assert message in log
    assert "Traceback" not in log
    assert not serve_process.data.exists()


def test_a_missing_config_file_is_a_clear_error(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    missing = tmp_path / "missing.properties"
    code, log = serve_process.run_to_end("--config", str(missing), "--ephemeral")
    assert code in (1, 2)
    assert str(missing) in log
    assert "Traceback" not in log


def test_options_come_from_a_file_and_the_command_line_wins(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    config = tmp_path / "server.properties"
    config.write_text("# a comment\nnode.id=7\nnum.partitions = 3\nmessage.max.bytes: 4096\n")
    serve_process.start("--config", str(config), "--set", "num.partitions=5")
    with RawConnection(serve_process.address) as connection:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        answer = connection.call(request, MetadataResponse, 9)
        assert [node.node_id for node in answer.brokers] == [7]
        assert len(answer.topics[0].partitions) == 5
    assert serve_process.stop() == 0


def test_a_broker_in_memory_keeps_nothing(serve_process: ServeProcess) -> None:
    for _ in range(2):
        serve_process.start(engine=["--ephemeral"])
        with RawConnection(serve_process.address) as connection:
            create(connection, "t")
            assert fill(connection, "t", b"v") == [0]
        assert serve_process.stop() == 0
    assert not serve_process.data.exists()


def test_it_starts_with_the_data_it_had(serve_process: ServeProcess) -> None:
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        create(connection, "t", 2)
        fill(connection, "t", b"1", b"2", partition=1)
    serve_process.kill()
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        assert read_values(connection, "t", 1) == [b"1", b"2"]
        assert fill(connection, "t", b"3", partition=1) == [2]
    assert serve_process.stop() == 0


def test_what_is_refused_is_in_the_log_of_the_process(serve_process: ServeProcess) -> None:
    serve_process.start(engine=["--ephemeral"])
    with RawConnection(serve_process.address) as connection:
        connection.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ConnectionError):
            connection.receive_frame()
    with RawConnection(serve_process.address) as connection:
        connection.socket.sendall(struct.pack(">ihhih", 10, 62, 1, 1, -1))
        with pytest.raises(ConnectionError):
            connection.receive_frame()
    assert serve_process.stop() == 0
    assert "an HTTP request" in serve_process.log
    assert "API 62 is not served" in serve_process.log
    assert "Traceback" not in serve_process.log


def test_a_stop_says_which_clients_it_waits_for(
    start: Starter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "DRAIN_SECONDS", 0.5)
    monkeypatch.setattr(server, "SLOW_STOP_SECONDS", 0.1)
    broker = start()
    with RawConnection(broker.bootstrap_servers) as connection:
        create(connection, "t")
        fill(connection, "t", *[bytes(900_000)] * 32)  # more than two sockets hold
        for _ in range(4):
            connection.send(
                fetch_request("t", 0, max_bytes=1 << 25, partition_max_bytes=1 << 25), 12
            )
        connection.receive(FetchResponse, 12)
        host, port = connection.socket.getsockname()
        with caplog.at_level(logging.INFO, "ottla"):
            broker.stop()
    assert f"for 1 client(s) to take their answers: {host}:{port}" in caplog.text
