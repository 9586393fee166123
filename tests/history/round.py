"""One run: a broker, a proxy, clients, and somebody who disturbs them; then the question whether all was well."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.history.brokers import (
    DIED,
    SWEEP_MS,
    BrokerProcess,
    ThreeNodes,
    WorkerProcesses,
)
from tests.history.checker import Anomaly, check
from tests.history.client import TRANSACTION_TIMEOUT_MS
from tests.history.crew import Crew
from tests.history.digest import Place, digest
from tests.history.events import READ_COMMITTED, READ_UNCOMMITTED, Recorder, load
from tests.history.final import Inspector, wait_for
from tests.history.proxy import ROUGH, ProxyThread
from tests.history.shared_brokers import SharedBrokers, SharedBrokersWithBucket
from tests.history.shared_faults import SharedFaults
from tests.history.worker import PARTITIONS, SOURCE, Task
from tests.history.workers import HANG_SECONDS

from ottla.broker.crashpoints import CrashPoint

INTERNAL = {"__transaction_state": 5, "__consumer_offsets": 5}
# After healing: the timeout of a transaction, a sweep, and what two crowded cores need.
END_SECONDS = (TRANSACTION_TIMEOUT_MS + SWEEP_MS) / 1000 + 4.0
START_SECONDS, DRAIN_SECONDS = 60.0, 40.0
LONGER_THAN_A_HANG_SECONDS = HANG_SECONDS + 2.0
AT_INIT = (CrashPoint.BEFORE_EMPTY_APPEND, CrashPoint.AFTER_EMPTY_APPEND)


@dataclass(frozen=True)
class Setting:
    """Who takes part."""

    name: str
    broker: type[BrokerProcess]
    producers: tuple[str, ...]
    # A client for each copier, and the group that it copies for.
    copiers: tuple[tuple[str, str], ...]
    reader: str = "confluent"


# Transactions of version 1 by real clients, and of version 2 by raw requests; each group copies everything.
CAST = (
    ("confluent", "raw"),
    (("confluent", "a"), ("confluent", "a"), ("raw", "b")),
)
OTHER_CAST = (
    ("aiokafka", "kafka-python"),
    (("confluent", "a"), ("aiokafka", "b"), ("kafka-python", "c")),
)
# Our own client: producers and copiers, members and all, of which one shares a group with librdkafka's.
OUR_CAST = (
    ("ottla", "confluent"),
    (("ottla", "a"), ("confluent", "a"), ("ottla", "b"), ("ottla", "b")),
)
SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("one", BrokerProcess, *CAST),
        Setting("three", ThreeNodes, *CAST),
        Setting("one-other", BrokerProcess, *OTHER_CAST),
        Setting("three-other", ThreeNodes, *OTHER_CAST),
        Setting("workers", WorkerProcesses, *CAST),
        Setting("workers-other", WorkerProcesses, *OTHER_CAST),
        Setting("workers-ours", WorkerProcesses, *OUR_CAST, reader="ottla"),
        Setting("one-ours", BrokerProcess, *OUR_CAST, reader="ottla"),
        Setting("three-ours", ThreeNodes, *OUR_CAST, reader="ottla"),
        Setting("shared", SharedBrokers, *CAST),
        Setting("shared-s3", SharedBrokersWithBucket, *CAST),
        Setting("shared-other", SharedBrokers, *OTHER_CAST),
        Setting("shared-s3-other", SharedBrokersWithBucket, *OTHER_CAST),
        Setting("shared-ours", SharedBrokers, *OUR_CAST, reader="ottla"),
        Setting("shared-s3-ours", SharedBrokersWithBucket, *OUR_CAST, reader="ottla"),
    )
}


@dataclass
class Report:
    """What came of a run."""

    seed: int
    setting: str
    anomalies: list[Anomaly] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    deeds: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        counts = ", ".join(f"{number} {name}" for name, number in self.counts.items())
        deeds = ", ".join(f"{name} {number}" for name, number in sorted(self.deeds.items()))
        return f"{self.setting} seed {self.seed}: {counts}; {deeds}"


class Round:
    """One run, from an empty folder to the verdict."""

    def __init__(self, setting: Setting, folder: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._setting = setting
        self._seed = seed
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._recorder = Recorder(folder, "round")
        self._broker = setting.broker(folder)
        self._proxy = ProxyThread(self._broker.routes, seed, Recorder(folder, "proxy"))
        self._inspector = Inspector(
            self._broker.direct_addresses, self._broker.bootstrap_servers, self._recorder
        )
        self._groups = list(dict.fromkeys(group for _, group in setting.copiers))
        self._topics = [SOURCE, *(f"copies-{group}" for group in self._groups)]
        self._crew = Crew(self._tasks(), folder, self._recorder)
        self._down_nodes: list[int] = []
        self._armed: CrashPoint | None = None
        self.deeds: Counter[str] = Counter()
        self._shared: SharedFaults | None = None
        if isinstance(self._broker, SharedBrokers):
            self._shared = SharedFaults(self._broker, self._random, self._did)

    def _tasks(self) -> list[Task]:
        plain = Task(
            role="",
            client="confluent",
            name="",
            transactional_id="",
            group="",
            target="",
            isolation=READ_COMMITTED,
            bootstrap_servers=self._broker.bootstrap_servers,
            folder=str(self._folder),
            seed=self._seed,
            is_draining=False,
        )
        tasks = []
        for number, client in enumerate(self._setting.producers):
            name = f"producer{number}-{client}"
            tasks.append(
                replace(plain, role="producer", client=client, name=name, transactional_id=name)
            )
        for number, (client, group) in enumerate(self._setting.copiers):
            name = f"copier{number}-{client}"
            tasks.append(
                replace(
                    plain,
                    role="copier",
                    client=client,
                    name=name,
                    transactional_id=name,
                    group=f"group-{group}",
                    target=f"copies-{group}",
                )
            )
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            tasks.append(
                replace(
                    plain,
                    role="reader",
                    client=self._setting.reader,
                    name=f"reader-{isolation}",
                    group="readers",
                    target=",".join(self._topics[1:]),
                    isolation=isolation,
                )
            )
        return [replace(task, seed=100 * self._seed + n) for n, task in enumerate(tasks)]

    def run(self, seconds: float) -> Report:
        """Everything; the processes are gone afterwards."""
        try:
            self._broker.start()
            self._proxy.start()
            try:
                self._inspector.create_topics(self._topics, PARTITIONS)
                for group in self._groups:
                    self._recorder.note(
                        "copying", group=f"group-{group}", source=SOURCE, target=f"copies-{group}"
                    )
                self._crew.start()
                self._disturb(seconds)
                self._heal()
                self._broker.finish()
            finally:
                self._crew.kill()
                self._proxy.stop()
        finally:
            self._broker.end()
        return self._judge()

    # Faults.

    def _disturb(self, seconds: float) -> None:
        # Some work first, so that there is something to disturb.
        wait_for("first commits", self._has_committed, START_SECONDS)
        self._proxy.set_weather(ROUGH)
        end = time.monotonic() + seconds
        faults = self._faults()
        pause = 0.5
        while time.monotonic() + pause < end:
            time.sleep(pause)
            self._tend()
            (fault,) = self._random.choices(list(faults), list(faults.values()))
            fault()
            pause = self._random.uniform(0.3, 2.5)

    def _has_committed(self) -> bool | None:
        """Whether every role has done something."""
        noted = {
            role: any(
                b'"committed"' in path.read_bytes() for path in self._folder.glob(f"{role}*.jsonl")
            )
            for role in ("producer", "copier")
        }
        return all(noted.values()) or None

    def _faults(self) -> dict[Callable[[], None], int]:
        """What is done, and how often."""
        if self._shared is not None:
            return self._client_faults() | self._shared.faults()
        faults: dict[Callable[[], None], int] = {
            self._kill_broker: 3,
            self._crash_broker: 6,
            self._freeze_broker: 2,
            **self._client_faults(),
        }
        if isinstance(self._broker, ThreeNodes):
            faults |= {self._move_leader: 20, self._kill_node: 4, self._start_node: 5}
            faults |= {self._kill_broker: 1, self._crash_broker: 3}
        if isinstance(self._broker, WorkerProcesses):
            faults |= {self._crash_broker: 10, **self._worker_faults()}
        return faults

    def _client_faults(self) -> dict[Callable[[], None], int]:
        """What is done to clients and their connections."""
        return {
            self._cut: 2,
            self._kill_client: 3,
            self._freeze_client: 2,
            self._make_zombie: 4,
        }

    def _tend(self) -> None:
        if self._shared is not None:
            self._shared.revive()
        elif not self._broker.is_running:
            assert self._armed is not None, "the broker died, and nobody has killed it"
            self._did(f"{DIED}{self._armed.name}")
            self._armed = None
            self._broker.kill()
            self._broker.start()
            self._down_nodes = []
        self._crew.tend()

    def _did(self, deed: str, **more: object) -> None:
        self.deeds[deed] += 1
        self._recorder.note("nemesis", deed=deed, **more)

    def _cut(self) -> None:
        self._did("cut all connections")
        self._proxy.cut_all()

    def _kill_broker(self) -> None:
        self._did(f"kill -9 of the {self._broker.started}")
        self._restart(None)

    def _crash_broker(self) -> None:
        points = list(CrashPoint)
        if isinstance(self._broker, WorkerProcesses):
            # Each process of a worker would die with the first new producer, and none would ever begin.
            points = [point for point in points if point not in AT_INIT]
        point = self._random.choice(points)
        crash = (point, 1 if point in AT_INIT else self._random.randint(1, 12))
        self._did("crash point set", point=point.name, count=crash[1])
        self._restart(crash)
        if point in AT_INIT:  # a broker gets there only with a new producer
            self._kill_client()

    def _restart(self, crash: tuple[CrashPoint, int] | None) -> None:
        self._broker.kill()
        time.sleep(self._random.uniform(0, 0.5))
        self._broker.start(crash)
        self._armed = None if crash is None else crash[0]
        self._down_nodes = []

    def _freeze_broker(self) -> None:
        seconds = self._random.uniform(0.2, 3.0)
        self._did(f"SIGSTOP of the {self._broker.started}", seconds=seconds)
        self._broker.freeze(seconds)

    def _worker_faults(self) -> dict[Callable[[], None], int]:
        """What is done to a supervisor and its workers."""
        return {
            self._kill_worker: 10,
            self._kill_workers: 4,
            self._kill_all: 4,
            self._freeze_worker: 5,
            self._freeze_all: 2,
            self._kill_supervisor_of_stopped_worker: 2,
            self._kill_worker_of_stopped_supervisor: 2,
        }

    def _kill_worker(self) -> None:
        self._did("kill -9 of a worker")
        self._signal(self._some_worker(), signal.SIGKILL)

    def _kill_workers(self) -> None:
        self._did("kill -9 of all workers")
        self._signal(self._workers(), signal.SIGKILL)

    def _kill_all(self) -> None:
        self._did("kill -9 of supervisor and workers")
        everyone = [*self._workers(), self._supervisor()]
        self._random.shuffle(everyone)
        self._signal(everyone, signal.SIGKILL)
        self._restart(None)

    def _freeze_worker(self) -> None:
        seconds = self._random.choice((0.5, 2.0, 2.0, LONGER_THAN_A_HANG_SECONDS))
        self._did("SIGSTOP of a worker", seconds=seconds)
        worker = self._some_worker()
        self._signal(worker, signal.SIGSTOP)
        time.sleep(seconds)
        self._signal(worker, signal.SIGCONT)

    def _freeze_all(self) -> None:
        seconds = self._random.uniform(0.2, 3.0)
        self._did("SIGSTOP of supervisor and workers", seconds=seconds)
        everyone = [*self._workers(), self._supervisor()]
        self._random.shuffle(everyone)
        self._signal(everyone, signal.SIGSTOP)
        time.sleep(seconds)
        self._signal(everyone, signal.SIGCONT)

    def _kill_supervisor_of_stopped_worker(self) -> None:
        """A stopped worker, which has the lock of its store, hears of no end of the supervisor."""
        self._did("kill -9 of the supervisor of a stopped worker")
        self._signal(self._some_worker(), signal.SIGSTOP)
        time.sleep(self._random.uniform(0, 0.5))
        self._restart(None)

    def _kill_worker_of_stopped_supervisor(self) -> None:
        """The other worker goes on alone; changes of the catalog wait."""
        seconds = self._random.uniform(0.2, 3.0)
        self._did("kill -9 of a worker of a stopped supervisor", seconds=seconds)
        supervisor = [self._supervisor()]
        self._signal(supervisor, signal.SIGSTOP)
        self._signal(self._some_worker(), signal.SIGKILL)
        time.sleep(seconds)
        self._signal(supervisor, signal.SIGCONT)

    def _supervisor(self) -> int:
        assert isinstance(self._broker, WorkerProcesses)
        return self._broker.supervisor

    def _workers(self) -> list[int]:
        assert isinstance(self._broker, WorkerProcesses)
        return self._broker.workers()

    def _some_worker(self) -> list[int]:
        """One of the workers; none if none is running now."""
        workers = self._workers()
        return [self._random.choice(workers)] if workers else []

    def _signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _kill_client(self) -> None:
        self._did("kill -9 of a client")
        self._crew.kill_one(self._random)

    def _freeze_client(self) -> None:
        self._did("SIGSTOP of a client")
        self._crew.freeze_one(self._random, self._random.uniform(0.5, 8.0))

    def _make_zombie(self) -> None:
        self._did("zombie")
        self._crew.make_zombie(self._random, self._random.uniform(0.5, 6.0))

    def _move_leader(self) -> None:
        shapes = {**dict.fromkeys(self._topics, PARTITIONS), **INTERNAL}
        topic = self._random.choice(list(shapes))
        partition, node_id = self._random.randrange(shapes[topic]), self._random.randint(1, 3)
        self._tell("move", topic, partition, node_id)

    def _kill_node(self) -> None:
        if not self._down_nodes:
            node_id = self._random.randint(1, 3)
            self._down_nodes.append(node_id)
            self._tell("kill", node_id)

    def _start_node(self) -> None:
        if self._down_nodes:
            self._tell("start", self._down_nodes.pop())

    def _tell(self, *command: str | int) -> None:
        assert isinstance(self._broker, ThreeNodes)
        answer = self._broker.tell(*command)
        self._did(f"{command[0]}: {answer.partition(':')[0]}", command=command, answer=answer)

    # The end.

    def _heal(self) -> None:
        """Ends all faults, lets everybody finish, and looks at what there is."""
        self._did("healing")
        if isinstance(self._broker, ThreeNodes):
            self._start_node()
        if self._shared is not None:
            self._shared.heal()
        self._restart(None)
        self._proxy.heal()
        if isinstance(self._broker, SharedBrokers):
            self._broker.wait_until_settled()
        self._crew.stop("producer")
        self._crew.tell_to_drain()
        sources = [Place(SOURCE, number) for number in range(PARTITIONS)]
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline and any(
            not name.startswith("copier") for name in self._inspector.unfinished()
        ):
            time.sleep(0.2)
        last = {
            place: records[-1][0]
            for place in sources
            if (records := self._inspector.read(place, READ_COMMITTED))
        }
        self._drain(sources, last)
        self._crew.stop("copier", "reader")
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline and self._inspector.unfinished():
            time.sleep(0.2)
        places = [Place(topic, number) for topic in self._topics for number in range(PARTITIONS)]
        groups = [f"group-{group}" for group in self._groups]
        self._inspector.note_all(places, groups, sources)

    def _drain(self, sources: list[Place], last: dict[Place, int]) -> None:
        """Waits until the copiers have copied all that there is."""
        for group in self._groups:

            def look(group: str = f"group-{group}") -> bool | None:
                self._crew.tend_copiers()
                committed = self._inspector.committed(group, sources)
                return all(committed[place] > offset for place, offset in last.items()) or None

            wait_for(f"copies of everything by {group}", look, DRAIN_SECONDS)

    def _judge(self) -> Report:
        history = load(self._folder)
        report = Report(self._seed, self._setting.name, check(history))
        found = digest(history)
        outcomes = Counter(one.outcome.value for one in found.transactions.values())
        report.counts = Counter(
            {
                **outcomes,
                "values sent": len(found.owner),
                "values polled": sum(len(reader.steps) for reader in found.readers.values()),
                "broker starts": self._broker.starts,
                **self._broker.counts(),
            }
        )
        report.deeds = self.deeds + Counter(self._proxy.deeds)
        return report
