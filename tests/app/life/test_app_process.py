"""`ottla app run` with real processes, a real broker and real signals."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.life.processes import Process, ottla
from tests.waiting import in_time

from ottla import Admin, Producer
from ottla.admin import NewTopic
from ottla.testing import Broker

PROGRAM = """
import asyncio, os, time
from ottla.app import App

app = App(
    "shop", bootstrap_servers=os.environ["SERVERS"], auto_offset_reset="earliest",
    missing_topics="create", group_id="of-{topic}",
)

@app.listener("{topic}", errors={{ZeroDivisionError: "stop"}})
async def bill(value: bytes):
    word, _, seconds = value.decode().partition(" ")
    print("began", word, os.getpid(), flush=True)
    if word == "wait":
        await asyncio.sleep(float(seconds))
    elif word == "block":
        time.sleep(float(seconds))
    elif word == "fail":
        1 / 0
    print("done", word, os.getpid(), flush=True)
"""


class Shop:
    """A folder with a program, and the broker with its topic."""

    def __init__(self, folder: Path, broker: Broker, topic: str) -> None:
        self.folder = folder
        self.broker = broker
        self.topic = topic
        self.group = f"of-{topic}"
        (folder / "billing.py").write_text(PROGRAM.format(topic=topic))

    def run(self, *options: str) -> Process:
        return ottla(
            "app",
            "run",
            "billing:app",
            *options,
            folder=self.folder,
            SERVERS=self.broker.bootstrap_servers,
        )

    def send(self, *values: str) -> None:
        with Producer(bootstrap_servers=self.broker.bootstrap_servers) as producer:
            for value in values:
                producer.send(self.topic, value.encode(), partition=0).result(10)

    def committed(self) -> int | None:
        with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            offsets = admin.list_consumer_group_offsets(self.group)[self.group]
            return next(
                (
                    found.offset
                    for (topic, _), found in offsets.items()
                    if topic == self.topic and found is not None
                ),
                None,
            )

    def members(self) -> int:
        with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            return len(admin.describe_consumer_groups([self.group])[self.group].members)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(group_initial_rebalance_delay_ms=0) as running:
        yield running


@pytest.fixture
def shop(tmp_path: Path, broker: Broker, request: pytest.FixtureRequest) -> Shop:
    return Shop(tmp_path, broker, f"orders-{abs(hash(request.node.name)) % 10**8}")


def get(url: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def url_of(line: str) -> str:
    return line.split("health at ")[1].removesuffix("/healthz")


def wait_ready(base: str) -> None:
    deadline = time.monotonic() + 20
    while (answer := get(f"{base}/readyz"))[0] != 200:
        in_time(deadline, answer)
        time.sleep(0.05)


def test_sigterm_lets_handlers_finish_commits_and_leaves_the_group(shop: Shop) -> None:
    shop.send("quick", "wait 0.7")
    with shop.run("--health", "127.0.0.1:0") as running:
        base = url_of(running.wait_for("app shop runs with 1 listener(s)"))
        running.wait_for("began wait")
        wait_ready(base)
        running.send(signal.SIGTERM)
        running.wait_for("SIGTERM: the app stops")
        assert running.end() == 0, running.lines
    assert running.has_line("draining: 1 handler(s) in hand, for at most 30 s")
    assert running.has_line("done wait")
    assert running.has_line("stopped cleanly in")
    assert shop.committed() == 2
    assert shop.members() == 0


def test_a_second_signal_stops_at_once_and_commits_nothing_unfinished(shop: Shop) -> None:
    shop.send("quick", "wait 60")
    with shop.run() as running:
        running.wait_for("began wait")
        running.send(signal.SIGINT)
        running.wait_for("draining")
        running.send(signal.SIGTERM)
        assert running.end() == 128 + signal.SIGTERM
    assert running.has_line("a second signal, SIGTERM: ended at once", f"{shop.topic}-0, offset 1")
    assert not running.has_line("done wait")
    assert shop.committed() in (None, 1)


def test_a_drain_has_a_time_limit(shop: Shop) -> None:
    shop.send("wait 60")
    with shop.run("--drain-timeout", "200ms") as running:
        running.wait_for("began wait")
        running.send(signal.SIGTERM)
        assert running.end() == 1
    assert running.has_line("did not finish", "offset 0", "delivered again")
    assert running.has_line("with 1 handler(s) unfinished, whose records will be handled again")
    assert shop.committed() in (None, 0)


def test_a_handler_that_blocks_the_loop_is_named_and_a_signal_waits_for_it(shop: Shop) -> None:
    shop.send("block 3.5")
    with shop.run() as running:
        line = running.wait_for("the event loop has been blocked")
        assert "by a synchronous call in the handler of listener bill" in line
        assert "billing.py" in line
        assert "time.sleep(float(seconds))" in line
        running.send(signal.SIGTERM)
        # The signal is heard although the loop is blocked.
        running.wait_for("SIGTERM: the app stops")
        assert not running.has_line("done block")
        assert running.end() == 0, running.lines
    assert shop.committed() == 1


def test_a_listener_that_fails_for_good_ends_the_process_with_its_reason(shop: Shop) -> None:
    shop.send("quick", "fail", "quick")
    with shop.run() as running:
        assert running.end() == 1
    assert running.has_line("app shop has failed: ZeroDivisionError: division by zero")
    assert shop.committed() == 1


def test_a_broker_that_goes_away_is_told_once_and_its_return_too(tmp_path: Path) -> None:
    with Broker(group_initial_rebalance_delay_ms=0) as broker:
        shop = Shop(tmp_path, broker, "orders")
        shop.send("quick")
        with shop.run("--health", "127.0.0.1:0") as running:
            base = url_of(running.wait_for("app shop runs"))
            running.wait_for("done quick")
            broker.kill()
            running.wait_for("listener bill", "no broker has answered for")
            status, report = get(f"{base}/healthz")
            assert status == 200, "a restart of the app would not bring the broker back"
            assert any("no broker has answered" in str(each) for each in report["stalls"])  # type: ignore[attr-defined]
            broker.restart()
            running.wait_for("it goes on after")
            shop.send("again")
            running.wait_for("done again")
            running.send(signal.SIGTERM)
            assert running.end() == 0, running.lines


def test_a_program_that_cannot_be_run_is_a_usage_error_with_the_users_frames(
    tmp_path: Path,
) -> None:
    (tmp_path / "failing.py").write_text("1 / 0")
    with ottla("app", "run", "failing:app", folder=tmp_path) as running:
        assert running.end() == 2
    assert running.lines[-1] == (
        "ottla: failing cannot be imported: ZeroDivisionError: division by zero"
    )
    assert running.has_line("failing.py", "line 1")
    assert not running.has_line("importlib")
    assert not running.has_line("ottla/cli")


def test_workers_share_the_partitions_and_drain_together(shop: Shop) -> None:
    with Admin(bootstrap_servers=shop.broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(shop.topic, 4)])
    with shop.run("--workers", "2", "--health", "127.0.0.1:0") as running:
        base = url_of(running.wait_for("health at"))
        wait_ready(base)
        deadline = time.monotonic() + 20
        while shop.members() != 2:
            in_time(deadline)
            time.sleep(0.05)
        shop.send("quick")
        running.wait_for("done quick")
        running.send(signal.SIGTERM)
        assert running.end() == 0, running.lines
    assert sum("stopped cleanly" in line for line in running.lines) == 2
    assert shop.members() == 0


def test_reload_runs_the_new_program_and_waits_while_it_is_broken(shop: Shop) -> None:
    program = shop.folder / "billing.py"
    text = program.read_text()
    with shop.run("--reload") as running:
        shop.send("quick")
        running.wait_for("done quick")
        program.write_text("app = (")
        running.wait_for("billing.py has changed")
        running.wait_for("SyntaxError")
        running.wait_for("waits for a change of the program's files")
        program.write_text(text.replace('"done"', '"finished"'))
        shop.send("quick")
        running.wait_for("finished quick")
        running.send(signal.SIGINT)
        assert running.end() == 0, running.lines
    assert shop.committed() == 2
