"""Apps and the broker are killed, or paused past their session, while orders are worked on; then the output is checked.

`python -m tests.app.faults.kill_run [SCENARIO …] [--orders N] [--seconds S] [--kafka]` runs it by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.app.faults.scenarios import (
    AUDIT,
    DEAD_LETTERS,
    GROUP,
    INPUT,
    OUTPUT,
    PARTITIONS,
    SCENARIOS,
    SESSION_TIMEOUT_MS,
    Outcome,
    Scenario,
    inputs,
    problems,
)
from tests.faults.processes import BrokerProcess, fault_rng

import ottla

ROOT: Final = Path(__file__).parents[3]
SOURCES: Final = Path(ottla.__file__).parents[1]
# No progress for so long is no progress at all.
STALL_SECONDS: Final = 90.0
DRAIN_SECONDS: Final = 30.0
IMPORT_SECONDS: Final = 10.0
BROKER_OPTIONS: Final[dict[str, object]] = {
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 500,
    "offsets_topic_num_partitions": 2,
    "transaction_state_log_num_partitions": 2,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
}


class KillableBroker(Protocol):
    """Ottla or Apache Kafka."""

    address: str

    def start(self) -> Any: ...
    def kill(self) -> None: ...


@dataclass
class Figures:
    """What a run was."""

    scenario: str
    orders: int
    seconds: float = 0.0
    app_kills: int = 0
    app_pauses: int = 0
    broker_kills: int = 0
    app_ends: int = 0
    dead_letters: int = 0
    repeated: int = 0

    def __str__(self) -> str:
        return (
            f"{self.scenario}: {self.orders} orders in {self.seconds:.0f} s over {self.app_kills} kills and "
            f"{self.app_pauses} pauses of apps, {self.broker_kills} kills of the broker, "
            f"{self.app_ends} ends of apps without one; "
            f"{self.dead_letters} dead letters, {self.repeated} repetitions"
        )


class AppProcess:
    """An instance of the app, started again after each kill."""

    def __init__(self, servers: str, scenario: Scenario, log: IO[bytes]) -> None:
        self._command = [sys.executable, "-m", "tests.app.faults.program", servers, scenario.name]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    def start(self) -> None:
        self._started = time.monotonic()
        paths = [str(SOURCES), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "start it first"
        return self._process

    def revive(self) -> bool:
        """Start it again if it has ended by itself, as a supervisor does; whether it had."""
        has_ended = self.process.poll() is not None
        if has_ended:
            self.start()
        return has_ended

    def restart(self) -> None:
        self.kill()
        self.start()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self, seconds: float) -> None:
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def drain(self) -> int:
        """SIGTERM; the exit code. Before the program has begun to run its app, the signal would just end it."""
        time.sleep(max(0.0, self._started + IMPORT_SECONDS - time.monotonic()))
        self.process.terminate()
        return self.process.wait(DRAIN_SECONDS)


@dataclass
class Run:
    """A broker, its apps, and what happened to them."""

    scenario: Scenario
    broker: KillableBroker
    rng: random.Random
    figures: Figures
    apps: list[AppProcess] = field(default_factory=list)

    def prepare(self, orders: Sequence[dict[str, Any]]) -> None:
        """The topics, and the orders as another client's idempotent producer writes them."""
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        topics = [NewTopic(name, PARTITIONS, 1) for name in (INPUT, OUTPUT, AUDIT, DEAD_LETTERS)]
        for future in admin.create_topics(topics).values():
            future.result(30)
        producer = Producer({"bootstrap.servers": self.broker.address, "enable.idempotence": True})
        for order in orders:
            producer.produce(INPUT, json.dumps(order).encode(), order["key"].encode())
        assert producer.flush(60) == 0

    def disturb(self, seconds: float) -> None:
        """Kills and pauses, each at least once, until the time is over."""
        end = time.monotonic() + seconds
        certain = ["kill", "broker", "pause"]
        while certain or time.monotonic() < end:
            time.sleep(self.rng.uniform(0.5, 2.5))
            app = self.rng.choice(self.apps)
            chosen = self.rng.choices(["kill", "pause", "broker", "both"], [5, 2, 2, 1])[0]
            match certain.pop(0) if certain else chosen:
                case "kill":
                    app.restart()
                    self.figures.app_kills += 1
                case "pause":
                    app.pause(SESSION_TIMEOUT_MS / 1000 * self.rng.uniform(0.5, 2.0))
                    self.figures.app_pauses += 1
                case "broker":
                    self._restart_broker()
                case "both":
                    app.kill()
                    self._restart_broker()
                    app.start()
                    self.figures.app_kills += 1

    def _restart_broker(self) -> None:
        self.broker.kill()
        time.sleep(self.rng.uniform(0, 1))
        self.broker.start()
        self.figures.broker_kills += 1

    def wait_until_committed(self) -> None:
        """Until the group has committed everything of the input topic and its retry topics."""
        deadline = time.monotonic() + STALL_SECONDS
        last: object = None
        while (left := self.uncommitted()) != {}:
            # An app that finds no broker for a quarter of a minute does not start.
            self.figures.app_ends += sum(app.revive() for app in self.apps)
            if left != last:
                last, deadline = left, time.monotonic() + STALL_SECONDS
            assert time.monotonic() < deadline, f"no progress: {left}"
            time.sleep(0.3)

    def uncommitted(self) -> dict[str, int]:
        """The partitions that the group reads and has not committed to their end."""
        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": GROUP})
        try:
            names = [
                name
                for name in consumer.list_topics(timeout=10).topics
                if name == INPUT or name.startswith(f"{INPUT}.{GROUP}.retry.")
            ]
            partitions = [TopicPartition(name, p) for name in names for p in range(PARTITIONS)]
            left = {}
            for found in consumer.committed(partitions, timeout=10):
                _, end = consumer.get_watermark_offsets(
                    TopicPartition(found.topic, found.partition), timeout=10
                )
                if max(found.offset, 0) < end:
                    left[f"{found.topic}-{found.partition}"] = end - max(found.offset, 0)
        except KafkaException as error:
            return {f"cannot be read: {error}": 1}
        else:
            return left
        finally:
            consumer.close()

    def stop_apps(self) -> None:
        """SIGTERM; each has to end in an orderly way."""
        codes = [app.drain() for app in self.apps]
        assert set(codes) <= {0}, f"apps ended with {codes}"

    def outcome(self) -> Outcome:
        self._wait_until_stable()
        return Outcome(*(self._committed_values(topic) for topic in (OUTPUT, AUDIT, DEAD_LETTERS)))

    def _wait_until_stable(self) -> None:
        """Until no transaction of a killed app is open any more: its records would hide those behind them."""
        topics = (OUTPUT, AUDIT, DEAD_LETTERS)
        partitions = [TopicPartition(topic, p) for topic in topics for p in range(PARTITIONS)]
        deadline = time.monotonic() + STALL_SECONDS
        while self._ends(partitions, "read_committed") != self._ends(
            partitions, "read_uncommitted"
        ):
            assert time.monotonic() < deadline, "a transaction hangs"
            time.sleep(0.3)

    def _ends(self, partitions: Sequence[TopicPartition], isolation: str) -> list[int]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "verdict",
                "isolation.level": isolation,
            }
        )
        try:
            return [consumer.get_watermark_offsets(each, timeout=10)[1] for each in partitions]
        finally:
            consumer.close()

    def _committed_values(self, topic: str) -> list[bytes]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "verdict",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        found: list[bytes] = []
        try:
            for partition in range(PARTITIONS):
                consumer.assign([TopicPartition(topic, partition, 0)])
                while (message := consumer.poll(30)) is not None and message.error() is None:
                    found.append(message.value() or b"")
                assert message is not None, f"{topic}-{partition} cannot be read to its end"
        finally:
            consumer.close()
        return found

    def rewind(self) -> None:
        """Offsets reset by hand, as an administrator does, while no instance runs."""
        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": GROUP})
        try:
            consumer.commit(
                offsets=[TopicPartition(INPUT, partition, 0) for partition in range(PARTITIONS)],
                asynchronous=False,
            )
        finally:
            consumer.close()


def run(
    scenario: Scenario,
    broker: KillableBroker,
    folder: Path,
    *,
    orders: int,
    seconds: float,
    instances: int = 2,
    rewinds: bool = False,
) -> Figures:
    """One scenario; raises an AssertionError that says what is wrong."""
    figures = Figures(scenario.name, orders)
    began = time.monotonic()
    run = Run(scenario, broker, fault_rng(), figures)
    with ExitStack() as stack:
        log = stack.enter_context((folder / "apps.log").open("ab"))
        broker.start()
        stack.callback(broker.kill)
        expected = inputs(orders)
        run.prepare(expected)
        run.apps = [AppProcess(broker.address, scenario, log) for _ in range(instances)]
        for app in run.apps:
            stack.callback(app.kill)
            app.start()
        run.disturb(seconds)
        run.wait_until_committed()
        run.stop_apps()
        outcome = run.outcome()
        found = problems(scenario, expected, outcome)
        if rewinds and not found:
            run.rewind()
            for app in run.apps:
                app.start()
            run.wait_until_committed()
            run.stop_apps()
            outcome = run.outcome()
            found = problems(scenario, expected, outcome, times=2)
        figures.dead_letters = len(outcome.dead_letters)
        figures.repeated = len(outcome.output) + len(outcome.dead_letters) - orders
    figures.seconds = time.monotonic() - began
    assert not found, f"{len(found)} problems, the first: {found[:10]}\n{figures}"
    return figures


def ottla_broker(folder: Path, scenario: Scenario) -> KillableBroker:
    """`ottla serve`, with the scenario's limit of metadata."""
    options = {**BROKER_OPTIONS, "offset_metadata_max_bytes": scenario.max_metadata_bytes}
    return BrokerProcess(folder, **options)


def kafka_broker(folder: Path, scenario: Scenario) -> KillableBroker:
    """Apache Kafka with the same options."""
    from benchmarks.kafka_jars import KAFKA_SERVER_VERSION
    from tests import maven
    from tests.apache_kafka.programs import Kafka

    version = os.environ.get("OTTLA_TEST_KAFKA_VERSION", KAFKA_SERVER_VERSION)
    jars = maven.kafka_server(folder, version)
    options = {name.replace("_", "."): value for name, value in BROKER_OPTIONS.items()}
    options["offset.metadata.max.bytes"] = scenario.max_metadata_bytes
    return Kafka(jars, folder, options)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenarios", nargs="*", default=list(SCENARIOS))
    parser.add_argument("--orders", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--kafka", action="store_true")
    arguments = parser.parse_args()
    new_broker = kafka_broker if arguments.kafka else ottla_broker
    failed = False
    for name in arguments.scenarios:
        folder = Path(tempfile.mkdtemp(prefix=f"ottla-kill-{name}-"))
        scenario = SCENARIOS[name]
        try:
            figures = run(
                scenario,
                new_broker(folder, scenario),
                folder,
                orders=arguments.orders,
                seconds=arguments.seconds,
                rewinds=scenario.is_exact,
            )
        except AssertionError as error:
            failed = True
            print(f"FAILED {name} (files in {folder}): {error}", flush=True)
        else:
            print(figures, flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
