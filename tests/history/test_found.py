"""What the history runs have found, each as a test of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from tests.faults.processes import first_of_free_ports
from tests.history.client import FailedError
from tests.history.confluent_client import ConfluentClient
from tests.history.digest import Place
from tests.history.events import READ_COMMITTED, Recorder
from tests.history.final import Inspector, wait_for
from tests.history.frames import PRODUCE
from tests.history.proxy import CALM, Fault, ProxyThread, Route, Weather

import ottla
from ottla.model import Endpoint

PLACE = Place("topic", 0)
WAIT_SECONDS = 20.0


@contextmanager
def behind_a_proxy(folder: Path) -> Iterator[tuple[Route, ProxyThread]]:
    """A broker that is reached through a proxy only."""
    ports = first_of_free_ports(2)
    route = Route(Endpoint("127.0.0.1", ports), Endpoint("127.0.0.1", ports + 1))
    proxy = ProxyThread([route], 1, Recorder(folder, "proxy"))
    with ottla.Broker(listen=str(route.broker), advertise=str(route.listen)):
        proxy.start()
        yield route, proxy
        proxy.stop()


class Slow(ConfluentClient):
    """librdkafka that takes its time before it sends something again."""

    network: ClassVar[dict[str, object]] = {
        **ConfluentClient.network,
        "retry.backoff.ms": 1_000,
        "retry.backoff.max.ms": 1_000,
    }


def test_a_commit_confirms_nothing_that_was_dropped_for_numbers_used_twice(tmp_path: Path) -> None:
    # The first value is written, its answer is lost, and librdkafka drops it when the transaction is aborted before it
    # has been sent again. The next one goes by the same sequence number.
    with behind_a_proxy(tmp_path) as (route, proxy):
        inspector = Inspector([str(route.broker)], str(route.listen), Recorder(tmp_path, "test"))
        inspector.create_topics([PLACE.topic], 1)
        client = Slow(str(route.listen), "id")
        client.begin()
        client.send(PLACE, "committed first", lambda offset, error: None)
        client.commit()
        proxy.set_weather(Weather({Fault.LOSE_ANSWER: 1.0}, {}, apis=(PRODUCE,)))
        client.begin()
        client.send(PLACE, "aborted", lambda offset, error: None)
        wait_for("a lost answer", lambda: proxy.deeds.get("LOSE_ANSWER"), WAIT_SECONDS)
        proxy.set_weather(CALM)
        client.abort()
        committed = ["committed first"]
        for attempt in range(2):
            value = f"after the abort, attempt {attempt}"
            client.begin()
            try:
                client.send(PLACE, value, lambda offset, error: None)
                client.commit()
                committed.append(value)
            except FailedError:
                client.abort()
        visible = [value for _, value in inspector.read(PLACE, READ_COMMITTED)]
    assert visible == committed
    assert len(committed) > 1
