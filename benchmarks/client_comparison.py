"""Client programs against the same brokers in interleaved rounds, and a table of what they did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version
from statistics import median

from benchmarks.client_task import Done
from benchmarks.comparison import say
from benchmarks.history import CONFLUENT, OURS, Figure, MeasuredRow, ratio_name
from benchmarks.kafka_jars import UnavailableError
from benchmarks.measure import commit, machine, other_work
from benchmarks.peers import NO_SETTINGS, Peer, peers_with_one_process
from benchmarks.report import RESULTS
from benchmarks.run import is_wanted
from benchmarks.text_table import number, table

DEFAULT_ROUNDS = 3
DEFAULT_SECONDS = 2.0
PACKAGES = ("confluent-kafka", "aiokafka", "kafka-python", "uvloop")

# Makes what a program needs on a broker: the topic, and how many records are in it.
Prepare = Callable[[Peer], tuple[str, int]]
# Looks at what a program left behind.
Check = Callable[[Peer, str, Done], None]


@dataclass(frozen=True)
class Question:
    """Programs of one module that do the same with different clients."""

    name: str
    module: str
    programs: Sequence[str]
    # The programs that the others are compared with, ours.
    ours: Sequence[str]
    prepare: Prepare
    check: Check
    # Programs of ours, and those of confluent-kafka that do the same.
    twins: Mapping[str, str] = field(default_factory=dict)

    def programs_wanted(self) -> list[str]:
        """Those of BENCH_PROGRAMS, and of the rows that are wanted both programs; without the variables all."""
        word = os.environ.get("BENCH_PROGRAMS", "")
        wanted = {
            each
            for ours, twin in self.twins.items()
            if is_wanted(self.row_name(ours))
            for each in (ours, twin)
        }
        is_chosen = bool(os.environ.get("BENCH_ONLY"))
        return [
            name for name in self.programs if word in name and (name in wanted or not is_chosen)
        ]

    def row_name(self, program: str) -> str:
        """The name of the row that is kept of a program of ours."""
        return f"client {self.name}, {program.removeprefix('ottla').lstrip(' .')}"


@dataclass
class Rounds:
    """What the programs did, by broker and program."""

    done: dict[tuple[str, str], list[Done]] = field(default_factory=dict)

    def rates(self, broker: str, program: str) -> list[float]:
        return [each.records / each.seconds for each in self.done[broker, program]]

    def cpu_us(self, broker: str, program: str) -> float:
        return median(
            each.cpu_seconds * 1e6 / max(1, each.records) for each in self.done[broker, program]
        )

    def ratios(self, broker: str, ours: str, theirs: str) -> list[float]:
        """Round by round: both were measured within seconds."""
        pairs = zip(self.rates(broker, ours), self.rates(broker, theirs), strict=True)
        return [own / max(1e-9, other) for own, other in pairs]

    def ratio(self, broker: str, ours: str, theirs: str) -> float:
        """The median of the rounds' ratios."""
        return median(self.ratios(broker, ours, theirs))

    def figures(self, broker: str, program: str) -> dict[str, Figure]:
        """What is kept of a program."""
        costs = [
            each.cpu_seconds * 1e6 / max(1, each.records) for each in self.done[broker, program]
        ]
        return {
            "throughput": Figure.of(self.rates(broker, program)),
            "cpu_us_per_record": Figure.of(costs),
        }


def run_question(question: Question) -> ClientReport:
    """Starts the brokers, runs the programs, and prints and writes what came out."""
    rounds = int(os.environ.get("BENCH_ROUNDS", DEFAULT_ROUNDS))
    seconds = float(os.environ.get("BENCH_SECONDS", DEFAULT_SECONDS))
    programs = question.programs_wanted()
    load_before = other_work()
    peers, missing = peers_with_one_process(NO_SETTINGS)
    results = Rounds()
    started: list[Peer] = []
    try:
        for peer in peers:
            try:
                peer.start()
            except UnavailableError as error:
                missing[peer.name] = str(error)
            else:
                started.append(peer)
        for name, reason in missing.items():
            print(f"{name} is left out: {reason}", file=sys.stderr)
        # A first round is thrown away: the Java virtual machine compiles in it.
        for turn in range(rounds + 1):
            for peer in started:
                shift = turn % len(programs)
                for program in (*programs[shift:], *programs[:shift]):
                    say(f"round {turn} of {rounds}: {program} on {peer.name}")
                    done = measure_program(question, program, peer, seconds, os.environ)
                    if turn:
                        results.done.setdefault((peer.name, program), []).append(done)
    finally:
        for peer in peers:
            peer.stop()
    report = ClientReport(question, programs, started, rounds, seconds, load_before, results)
    print(report.markdown())
    print(f"written to {report.write(missing)}", file=sys.stderr)
    return report


def measure_program(
    question: Question, program: str, peer: Peer, seconds: float, environment: Mapping[str, str]
) -> Done:
    """Runs a program once, as a process of its own, and checks what it left behind."""
    topic, records = question.prepare(peer)
    command = [
        *(sys.executable, "-m", question.module, program, peer.bootstrap_server),
        *(topic, str(seconds), str(records)),
    ]
    output = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, timeout=300, env=environment
    ).stdout
    done = Done(**json.loads(output))
    question.check(peer, topic, done)
    return done


@dataclass(frozen=True)
class ClientReport:
    """The table of one question, and everything that was measured as JSON."""

    question: Question
    programs: Sequence[str]
    peers: Sequence[Peer]
    rounds: int
    seconds: float
    load_before: float
    results: Rounds

    def markdown(self) -> str:
        where = machine()
        packages = ", ".join(f"{name} {version}" for name, version in self.packages().items())
        brokers = ", ".join(f"{peer.name} = {peer.version}" for peer in self.peers)
        heading = (
            f"{where['processor']}, {where['cores']} cores, Python {where['python']}; {packages}; "
            f"brokers: {brokers}; commit {commit()}; median of {self.rounds} rounds of "
            f"{self.seconds:g} s; load average before: {self.load_before:.1f}."
        )
        return "\n\n".join([heading, *(self._table(peer) for peer in self.peers)])

    def _table(self, peer: Peer) -> str:
        ours = [name for name in self.question.ours if name in self.programs]
        header = [
            *(f"{self.question.name}, broker {peer.name}", "records/s"),
            *(f"{name} / this" for name in ours),
            "client CPU µs/record",
        ]
        lines = [
            [
                program,
                number(median(self.results.rates(peer.name, program))),
                *(f"{self.results.ratio(peer.name, name, program):.2f}" for name in ours),
                number(self.results.cpu_us(peer.name, program)),
            ]
            for program in self.programs
        ]
        return table(header, lines)

    def rows(self) -> list[MeasuredRow]:
        """What is kept over time: our programs beside their twins."""
        return [
            MeasuredRow(
                row=self.question.row_name(program),
                driver=f"client, broker {peer.name}",
                unit="records/s",
                peers={
                    OURS: self.results.figures(peer.name, program),
                    CONFLUENT: self.results.figures(peer.name, twin),
                },
                ratios={
                    ratio_name(OURS, CONFLUENT): Figure.of(
                        self.results.ratios(peer.name, program, twin)
                    )
                },
            )
            for peer in self.peers
            for program, twin in self.question.twins.items()
            if program in self.programs and twin in self.programs
        ]

    def packages(self) -> dict[str, str]:
        return {name: installed_version(name) for name in PACKAGES}

    def write(self, missing: dict[str, str]) -> str:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"client-{self.question.name}.json"
        content = {
            "commit": commit(),
            "machine": machine(),
            "load average before": self.load_before,
            "packages": self.packages(),
            "brokers": {peer.name: peer.version for peer in self.peers},
            "left out": missing,
            "seconds per measurement": self.seconds,
            "rounds": [
                {
                    "broker": broker,
                    "program": program,
                    "rounds": [each._asdict() for each in measured],
                }
                for (broker, program), measured in self.results.done.items()
            ],
        }
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return str(path)
