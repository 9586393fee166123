"""A console on a cluster with many topics: what the first view costs, and what looking on costs console and broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import httpx
from benchmarks.measure import cpu_seconds, memory_of
from tests.faults.processes import free_port
from tests.waiting import in_time

import ottla
from ottla.admin import NewTopic

START_SECONDS = 120
STOP_SECONDS = 60
CREATED_AT_ONCE = 500
BUSY_TOPICS = 20
ANSWERS = 30
_REQUESTS = re.compile(r'^ottla_requests_total\{[^}]*\bapi="(\w+)"[^}]*\} (\d+)', re.MULTILINE)


@dataclass
class Looking:
    """What console and broker do while so many browsers listen; shares are of one processor."""

    browsers: int
    seconds: float
    console_share: float
    broker_share: float
    requests_per_second: float
    snapshots: int


@dataclass
class Measured:
    """The numbers of one run."""

    topics: int
    partitions: int
    broker_share_alone: float = 0
    ready_s: float = 0
    """From the start of the process until it serves."""
    first_view_s: float = 0
    """The first answer of the overview, asked as soon as it serves."""
    first_view_console_s: float = 0
    """What the console computed for it, and the broker: together less than the time that an idle machine takes."""
    first_view_broker_s: float = 0
    all_told_s: float = 0
    """Until every part was told once."""
    answers_ms: dict[str, float] = field(default_factory=dict)
    """The median time of an answer, by its path."""
    answers_cpu_ms: dict[str, float] = field(default_factory=dict)
    """What the console computes for an answer."""
    console_mb: float = 0
    looking: list[Looking] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{name}: {value}" for name, value in vars(self).items() if name != "looking"]
        return "\n".join([*lines, *map(str, self.looking)])


class Program:
    """A command of `ottla` that prints where it serves."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ottla", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.pid = self._process.pid

    def line(self, start: str) -> str:
        """What stands behind the beginning of a line."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(start):
                return line.removeprefix(start).strip()
        raise AssertionError(f"the program ended without {start!r}")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(STOP_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def program(*words: str) -> Iterator[Program]:
    running = Program(*words)
    try:
        yield running
    finally:
        running.stop()


def measure(topics: int, partitions: int, seconds: float) -> Measured:
    """Runs broker and console as processes of their own."""
    found = Measured(topics, topics * partitions)
    with ExitStack() as stack:
        door = f"127.0.0.1:{free_port()}"
        broker = stack.enter_context(
            program("serve", "--ephemeral", "--listen", "127.0.0.1:0", "--metrics", door)
        )
        servers, metrics = broker.line("listening on "), f"http://{door}/metrics"
        names = _create(servers, topics, partitions)
        stack.enter_context(_producing(servers, names[:BUSY_TOPICS]))
        found.broker_share_alone = _share(broker.pid, seconds)
        began = time.monotonic()
        console = stack.enter_context(program("console", "-b", servers, "--listen", "127.0.0.1:0"))
        url = console.line("console at ")
        found.ready_s = time.monotonic() - began
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
            began = time.monotonic()
            used, broker_used = cpu_seconds(console.pid), cpu_seconds(broker.pid)
            answer = _first_view(http)
            found.first_view_s = time.monotonic() - began
            found.first_view_console_s = round(cpu_seconds(console.pid) - used, 3)
            found.first_view_broker_s = round(cpu_seconds(broker.pid) - broker_used, 3)
            assert answer.status_code == 200, answer.text
            assert answer.json()["totals"]["topic_count"] >= topics
            with _browsers(url, 1):
                _until_told(http)
            found.all_told_s = time.monotonic() - began
            for path in PATHS:
                used = cpu_seconds(console.pid)
                found.answers_ms[path] = _median_ms(http, path)
                found.answers_cpu_ms[path] = round(
                    (cpu_seconds(console.pid) - used) * 1000 / ANSWERS, 1
                )
            for browsers in (0, 1, 20):
                found.looking.append(
                    _look(http, url, metrics, (console.pid, broker.pid), browsers, seconds)
                )
        found.console_mb = memory_of(console.pid).resident_mb
    return found


PATHS = (
    "/api/overview",
    "/api/overview/history",
    "/api/topics",
    "/api/topics?q=9999",
    "/api/groups",
)


def _create(servers: str, topics: int, partitions: int) -> list[str]:
    names = [f"topic-{number:05}" for number in range(topics)]
    with ottla.Admin(bootstrap_servers=servers) as admin:
        for at in range(0, topics, CREATED_AT_ONCE):
            admin.create_topics(
                NewTopic(name, num_partitions=partitions)
                for name in names[at : at + CREATED_AT_ONCE]
            )
    return names


@contextmanager
def _producing(servers: str, names: list[str]) -> Iterator[None]:
    """A few topics are written to, a hundred records a second in all."""
    is_over = threading.Event()

    def produce() -> None:
        with ottla.Producer(bootstrap_servers=servers) as producer:
            number = 0
            while not is_over.wait(0.01):
                producer.send(names[number % len(names)], b"x" * 100)
                number += 1

    thread = threading.Thread(target=produce, name="producer")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _share(pid: int, seconds: float) -> float:
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return round((cpu_seconds(pid) - before) / seconds, 3)


def _first_view(http: httpx.Client) -> httpx.Response:
    """The console waits some seconds for the cluster; then it says so, and a page asks again."""
    deadline = time.monotonic() + START_SECONDS
    while (answer := http.get("/api/overview")).status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        in_time(deadline, answer.text)
    return answer


def _until_told(http: httpx.Client) -> None:
    deadline = time.monotonic() + START_SECONDS
    while len(http.get("/api/overview").json()["parts"]) < PART_COUNT:
        in_time(deadline, "all parts were told")
        time.sleep(0.1)


PART_COUNT = 11


def _median_ms(http: httpx.Client, path: str) -> float:
    times = []
    for _ in range(ANSWERS):
        began = time.monotonic()
        answer = http.get(path)
        times.append(time.monotonic() - began)
        assert answer.status_code == 200, answer.text
    return round(sorted(times)[len(times) // 2] * 1000, 1)


@contextmanager
def _browsers(url: str, count: int) -> Iterator[list[int]]:
    """Browsers that listen, and ask for the overview after each event as the page does."""
    snapshots = [0] * count
    is_over = threading.Event()

    def look(number: int) -> None:
        with (
            httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
            http.stream("GET", "/api/live") as stream,
        ):
            for line in stream.iter_lines():
                if is_over.is_set():
                    return
                if line == "event: snapshot":
                    snapshots[number] += 1
                    http.get("/api/overview")

    threads = [threading.Thread(target=look, args=(each,), daemon=True) for each in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield snapshots
    finally:
        is_over.set()
        for thread in threads:
            thread.join(START_SECONDS)


def _look(
    http: httpx.Client,
    url: str,
    metrics: str,
    pids: tuple[int, int],
    browsers: int,
    seconds: float,
) -> Looking:
    console, broker = pids
    with _browsers(url, browsers) as snapshots:
        deadline = time.monotonic() + START_SECONDS
        while browsers and not all(snapshots):
            in_time(deadline, "the browsers are told")
            time.sleep(0.1)
        requests = _requests(metrics)
        used = cpu_seconds(console), cpu_seconds(broker)
        seen = sum(snapshots)
        time.sleep(seconds)
        now = cpu_seconds(console), cpu_seconds(broker)
        asked = {api: count - requests.get(api, 0) for api, count in _requests(metrics).items()}
        return Looking(
            browsers,
            seconds,
            console_share=round((now[0] - used[0]) / seconds, 3),
            broker_share=round((now[1] - used[1]) / seconds, 3),
            requests_per_second=round(
                sum(count for api, count in asked.items() if api != "Produce") / seconds, 1
            ),
            snapshots=sum(snapshots) - seen,
        )


def _requests(metrics: str) -> dict[str, int]:
    text = httpx.get(metrics, trust_env=False).text
    found: dict[str, int] = {}
    for api, count in _REQUESTS.findall(text):
        found[api] = found.get(api, 0) + int(count)
    return found


if __name__ == "__main__":
    topics, partitions = (int(each) for each in sys.argv[1:] or (10_000, 3))
    print(measure(topics, partitions, seconds=float(os.environ.get("SECONDS", "30"))))
