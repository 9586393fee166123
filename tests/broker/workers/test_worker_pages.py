"""Metrics, health and internals of `ottla serve --workers`: those of all workers, and no wait for one that hangs."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.broker.exposition_reader import read
from tests.broker.workers.serving_workers import WAIT_SECONDS, ServingWorkers, ask_versions
from tests.waiting import in_time

import ottla
from ottla.broker.internals.event_ring import EventRing
from ottla.broker.workers.merged_internals import MergedEvents
from ottla.exposition import Metric, Page, merged_pages


class WatchedWorkers(ServingWorkers):
    """Workers with a page of metrics."""

    url = ""

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=WAIT_SECONDS) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def values(self, name: str, **labels: str) -> dict[str, float]:
        """The values of a metric, by their nodes."""
        status, text = self.get("/metrics")
        assert status == 200, text
        return {
            dict(found)["node"]: value
            for family in read(text).values()
            for (sample, found), value in family.samples.items()
            if sample == name and labels.items() <= dict(found).items()
        }

    def becomes(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            in_time(deadline, self.log)
            time.sleep(0.1)

    def is_well(self) -> bool:
        return self.get("/healthz") == (200, "ok\n")

    def newest_events(self, after: int = 0) -> Any:
        return json.loads(self.get(f"/internals/events?after={after}&limit=1000")[1])


@contextmanager
def watched_workers(folder: Path, *arguments: str) -> Iterator[WatchedWorkers]:
    broker = WatchedWorkers(folder)
    try:
        broker.begin(2, "--metrics", "127.0.0.1:0", *arguments)
        broker.url = broker.wait_for("metrics_served")["url"].removesuffix("/metrics")
        yield broker
    finally:
        broker.kill()


def test_every_worker_is_on_the_page_and_a_topic_is_counted_once(tmp_path: Path) -> None:
    with watched_workers(tmp_path) as broker:
        with ottla.Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topics([ottla.admin.NewTopic("orders", 6)])
        with ottla.Producer(bootstrap_servers=broker.address) as producer:
            for number in range(60):
                producer.send("orders", b"v", partition=number % 6)
        broker.becomes(lambda: sum(broker.values("ottla_topic_end_offsets").values()) == 60)
        assert broker.values("ottla_worker_up") == {"1": 1, "2": 1}
        assert broker.values("ottla_topic_partitions", topic="orders") == {"1": 3, "2": 3}
        assert set(broker.values("process_cpu_seconds_total")) == {"1", "2", "supervisor"}
        produced = broker.values("ottla_requests_total", api="Produce")
        assert set(produced) == {"1", "2"}
        assert len(set(broker.values("process_start_time_seconds").values())) == 3
        assert broker.is_well()
        assert broker.get("/nothing")[0] == 404
        assert broker.stop() == 0


def test_a_worker_that_hangs_delays_no_page_and_is_missing_on_it(tmp_path: Path) -> None:
    with watched_workers(tmp_path) as broker:
        pid = broker.pid_of(1)
        os.kill(pid, signal.SIGSTOP)
        try:
            broker.becomes(lambda: broker.values("ottla_worker_up") == {"1": 0, "2": 1})
            # Once it is known to hang, nothing waits for it, until it has answered.
            time_of_page = []
            for _ in range(2):
                began = time.monotonic()
                internals = json.loads(broker.get("/internals")[1])
                time_of_page.append(time.monotonic() - began)
                assert {each["node_id"]: each["answers"] for each in internals["workers"]} == {
                    1: False,
                    2: True,
                }
            assert min(time_of_page) < 1.0
            assert "1" not in broker.values("ottla_connections")
        finally:
            os.kill(pid, signal.SIGCONT)
        broker.becomes(lambda: broker.values("ottla_worker_up") == {"1": 1, "2": 1})
        assert broker.pid_of(1) == pid


def test_a_worker_that_was_killed_is_started_again_and_its_counters_begin_anew(
    tmp_path: Path,
) -> None:
    with watched_workers(tmp_path) as broker:
        first = json.loads(broker.get("/internals")[1])
        assert broker.values("ottla_worker_restarts_total") == {"1": 0, "2": 0}
        ask_versions(broker.addresses()[1])
        broker.becomes(
            lambda: broker.values("ottla_requests_total", api="ApiVersions").get("1") == 1
        )
        began = broker.values("process_start_time_seconds")
        newest = broker.newest_events()["newest"]
        broker.kill_worker(1)
        broker.becomes(lambda: broker.values("ottla_worker_restarts_total") == {"1": 1, "2": 0})
        broker.becomes(broker.is_well)
        broker.becomes(lambda: broker.values("ottla_worker_up") == {"1": 1, "2": 1})
        # As of any process that was started again: Prometheus takes the smaller value for a new beginning.
        assert "1" not in broker.values("ottla_requests_total", api="ApiVersions")
        again = broker.values("process_start_time_seconds")
        assert again["1"] > began["1"]
        assert again["2"] == began["2"]
        # Whoever compares counts learns that these are of another process.
        assert json.loads(broker.get("/internals")[1])["instance"] != first["instance"]
        names = [event["name"] for event in broker.newest_events(newest)["events"]]
        assert "worker_ended" in names


def test_the_events_of_all_workers_are_told_once_each_also_after_a_restart(tmp_path: Path) -> None:
    with watched_workers(tmp_path) as broker:
        for number in (1, 2):
            garbage(broker.addresses()[number])
        broker.becomes(lambda: len(closed_connections(broker)) == 2)
        assert sorted(event["fields"]["node"] for event in closed_connections(broker)) == [1, 2]
        broker.kill_worker(2)
        broker.wait_for("worker_started", count=2, node=2)
        garbage(broker.addresses()[2])
        broker.becomes(lambda: len(closed_connections(broker)) == 3)
        page = broker.newest_events()
        sequences = [event["sequence"] for event in page["events"]]
        assert sequences == list(range(1, page["newest"] + 1))
        assert broker.newest_events(page["newest"])["events"] == []


def garbage(address: str) -> None:
    import socket

    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), WAIT_SECONDS) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        client.recv(1)


def closed_connections(broker: WatchedWorkers) -> list[Any]:
    events = broker.newest_events()["events"]
    return [event for event in events if event["name"] == "connection_closed"]


def test_an_address_for_others_without_a_login_tells_no_internals(tmp_path: Path) -> None:
    broker = WatchedWorkers(tmp_path)
    try:
        broker.begin(2, "--metrics", "0.0.0.0:0")
        url = broker.wait_for("metrics_served")["url"]
        broker.url = url.removesuffix("/metrics").replace("0.0.0.0", "127.0.0.1")
        assert broker.get("/internals")[0] == 403
        assert broker.get("/internals/events")[0] == 403
        assert broker.get("/metrics")[0] == 200
    finally:
        broker.kill()


METRICS = [
    Metric("a_total", "counter", "One."),
    Metric("b", "gauge", "Two: # HELP a_total again\nand\\more."),
    Metric("c", "gauge", "Three."),
]


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(METRICS), st.text(max_size=20)), max_size=6),
        max_size=4,
    )
)
def test_merged_pages_have_every_sample_once_and_those_of_a_metric_together(
    pages: list[list[tuple[Metric, str]]],
) -> None:
    texts, expected = [], {}
    for node, samples in enumerate(pages):
        page = Page(node=str(node))
        for number, (metric, text) in enumerate(samples):
            page.add(metric, number, text=text, number=str(number))
            labels = (("node", str(node)), ("text", text), ("number", str(number)))
            expected[metric.name, tuple(sorted(labels))] = float(number)
        texts.append(page.render())
    merged = b"".join(merged_pages(texts)).decode()
    found = read(merged) if merged else {}
    assert {
        (name, tuple(sorted(labels))): value
        for family in found.values()
        for (name, labels), value in family.samples.items()
    } == expected


def test_a_label_of_a_sample_wins_over_that_of_its_page() -> None:
    page = Page(node="1")
    page.add(METRICS[0], 5, node="7", api="x")
    assert page.render().endswith(b'a_total{node="7",api="x"} 5\n')


def events_page(instance: str, *sequences: int) -> dict[str, Any]:
    events = [{"sequence": each, "name": "e", "fields": {"at": each}} for each in sequences]
    return {"instance": instance, "newest": max(sequences, default=0), "events": events}


def test_events_are_numbered_anew_and_a_worker_that_was_started_again_is_asked_from_its_first() -> (
    None
):
    events = MergedEvents(EventRing())
    assert not events.add(1, events_page("a", 1, 2))
    assert not events.add(2, events_page("b", 1))
    assert not events.add(1, events_page("a", 2, 3))
    assert (events.newest_of(1), events.newest_of(2)) == (3, 1)
    assert events.add(1, events_page("c", 4))
    assert events.newest_of(1) == 0
    assert not events.add(1, events_page("c", 1, 4))
    told = json.loads(events.page(0, 100))["events"]
    assert [each["sequence"] for each in told] == [1, 2, 3, 4, 5, 6]
    assert [(each["fields"]["node"], each["fields"]["at"]) for each in told] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (1, 3),
        (1, 1),
        (1, 4),
    ]
    assert len(json.loads(events.page(4, 100))["events"]) == 2
    assert len(json.loads(events.page(0, 1))["events"]) == 1
