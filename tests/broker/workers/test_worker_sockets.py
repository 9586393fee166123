"""The ports of a supervisor and its workers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import pytest

from ottla.broker.network.listen_error import ListenError
from ottla.broker.workers.worker_sockets import WorkerSockets, bind_workers, check_ports
from ottla.config.listeners import ListenerSettings
from ottla.errors import ConfigError
from ottla.model import Endpoint


def listener(name: str, port: int, host: str = "127.0.0.1") -> ListenerSettings:
    return ListenerSettings(name, "PLAINTEXT", Endpoint(host, port), None)


def bound(listeners: Sequence[ListenerSettings], count: int) -> WorkerSockets:
    return asyncio.run(bind_workers(listeners, count))


def free_ports(count: int) -> int:
    """The first of so many ports in a row that are free."""
    for first in range(20_000, 30_000, count + 1):
        found = []
        try:
            for port in range(first, first + count):
                each = socket.socket()
                found.append(each)
                each.bind(("127.0.0.1", port))
        except OSError:
            continue
        else:
            return first
        finally:
            for each in found:
                each.close()
    raise AssertionError("no free ports")


def test_workers_listen_on_the_ports_after_the_common_one() -> None:
    first = free_ports(3)
    sockets = bound([listener("PLAINTEXT", first)], 2)
    try:
        assert sockets.common.endpoints == {"PLAINTEXT": Endpoint("127.0.0.1", first)}
        assert {number: own.endpoints["PLAINTEXT"].port for number, own in sockets.own.items()} == {
            1: first + 1,
            2: first + 2,
        }
        inherited = [(name, each.getsockname()[1]) for name, each in sockets.of_worker(2)]
        assert inherited == [("PLAINTEXT", first), ("PLAINTEXT", first + 2)]
    finally:
        sockets.close()


def test_any_port_is_any_for_each_worker() -> None:
    sockets = bound([listener("PLAINTEXT", 0)], 3)
    try:
        ports = [
            each.getsockname()[1] for number in sockets.own for _, each in sockets.of_worker(number)
        ]
        assert 0 not in ports
        assert len(set(ports)) == 4
    finally:
        sockets.close()


def test_connections_wait_for_a_worker_that_does_not_accept_yet() -> None:
    sockets = bound([listener("PLAINTEXT", 0)], 1)
    try:
        sockets.listen()
        with socket.create_connection(sockets.own[1].endpoints["PLAINTEXT"], 10) as client:
            client.sendall(b"hello")
            (_, (_, own)) = sockets.of_worker(1)
            accepted, _ = own.accept()
            with accepted:
                assert accepted.recv(5) == b"hello"
    finally:
        sockets.close()


def test_a_port_of_a_worker_that_is_taken_is_named_and_no_port_stays_bound() -> None:
    first = free_ports(3)
    with socket.socket() as other:
        other.bind(("127.0.0.1", first + 2))
        other.listen()
        with pytest.raises(
            ListenError, match=rf"cannot listen on 127.0.0.1:{first + 2}, the port of worker 2:"
        ):
            bound([listener("PLAINTEXT", first)], 2)
    bound([listener("PLAINTEXT", first)], 2).close()


@pytest.mark.parametrize(
    ("ports", "reason"),
    [
        ([9092, 9094], "port 9094 would be of listener ONE and of TWO"),
        ([65534], "ends above port 65535"),
    ],
)
def test_ports_that_cannot_be_are_refused(ports: list[int], reason: str) -> None:
    names = ["ONE", "TWO"]
    with pytest.raises(ConfigError, match=reason):
        check_ports([listener(name, port) for name, port in zip(names, ports, strict=False)], 2)


def test_ports_that_are_far_enough_apart_are_accepted() -> None:
    check_ports([listener("ONE", 9092), listener("TWO", 9095), listener("ANY", 0)], 2)
