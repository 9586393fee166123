"""The client processes of a run: started, killed, replaced, frozen, and woken as zombies."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from tests.history.brokers import ROOT, environment
from tests.history.events import Recorder
from tests.history.worker import Task

STOP_SECONDS = 12.0


class Slot:
    """One place in the crew; whoever has it goes by the same transactional id."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.process: subprocess.Popen[bytes] | None = None
        self.incarnations = 0
        self.wakes_at: float | None = None


class Crew:
    """All client processes; they are ours, and all of them are reaped."""

    def __init__(self, tasks: list[Task], folder: Path, recorder: Recorder) -> None:
        self._slots = [Slot(task) for task in tasks]
        self._zombies: list[tuple[float, subprocess.Popen[bytes]]] = []
        self._log = folder / "workers.log"
        self._note = recorder.note

    def start(self) -> None:
        for slot in self._slots:
            self._start(slot)

    def _start(self, slot: Slot) -> None:
        slot.incarnations += 1
        slot.wakes_at = None
        name = f"{slot.task.name}-{slot.incarnations}"
        task = replace(slot.task, name=name, seed=slot.task.seed + 1000 * slot.incarnations)
        with self._log.open("ab") as log:
            slot.process = subprocess.Popen(
                [sys.executable, "-m", "tests.history.worker", json.dumps(asdict(task))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                cwd=ROOT,
            )

    def tend(self) -> None:
        """Replaces those that have ended, and wakes those whose time has come."""
        now = time.monotonic()
        for slot in self._slots:
            if slot.process is not None and slot.process.poll() is not None:
                self._start(slot)
            if slot.wakes_at is not None and slot.wakes_at <= now:
                assert slot.process is not None
                slot.process.send_signal(signal.SIGCONT)
                slot.wakes_at = None
        for wakes_at, process in self._zombies:
            if wakes_at <= now and process.poll() is None:
                process.send_signal(signal.SIGCONT)

    def _somebody(self, chance: random.Random) -> Slot:
        return chance.choice([slot for slot in self._slots if slot.task.role != "reader"])

    def kill_one(self, chance: random.Random) -> None:
        """kill -9; another takes its place at once."""
        slot = self._somebody(chance)
        assert slot.process is not None
        self._note("nemesis", deed="kill a client", client=slot.task.name, pid=slot.process.pid)
        slot.process.kill()
        slot.process.wait()
        self._start(slot)

    def freeze_one(self, chance: random.Random, seconds: float) -> None:
        """SIGSTOP for a while; nobody takes its place."""
        slot = self._somebody(chance)
        assert slot.process is not None
        self._note("nemesis", deed="freeze a client", client=slot.task.name, seconds=seconds)
        slot.process.send_signal(signal.SIGSTOP)
        slot.wakes_at = time.monotonic() + seconds

    def make_zombie(self, chance: random.Random, seconds: float) -> None:
        """SIGSTOP; another takes its place, and later the first one wakes and goes on as if nothing had been."""
        slot = self._somebody(chance)
        assert slot.process is not None
        self._note("nemesis", deed="make a zombie", client=slot.task.name, seconds=seconds)
        slot.process.send_signal(signal.SIGSTOP)
        self._zombies.append((time.monotonic() + seconds, slot.process))
        self._start(slot)

    def tell_to_drain(self) -> None:
        """Copiers add nothing of their own any more."""
        for slot in self._slots:
            if slot.task.role == "copier" and slot.process is not None:
                self._wake(slot.process)
                slot.process.send_signal(signal.SIGUSR1)

    def tend_copiers(self) -> None:
        """A copier that has ended is replaced by one that only copies."""
        for slot in self._slots:
            has_ended = slot.process is not None and slot.process.poll() is not None
            if slot.task.role == "copier" and has_ended:
                slot.task = replace(slot.task, is_draining=True)
                self._start(slot)

    def stop(self, *roles: str) -> None:
        """Lets them end what they are at; zombies are woken first."""
        stopping = [
            slot.process
            for slot in self._slots
            if slot.task.role in roles and slot.process is not None
        ]
        zombies, self._zombies = [process for _, process in self._zombies], []
        for process in (*zombies, *stopping):
            self._wake(process)
        for process in (*stopping, *zombies):
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in (*stopping, *zombies):
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._slots = [slot for slot in self._slots if slot.task.role not in roles]

    def _wake(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Whatever happens, nobody is left behind."""
        processes = [process for _, process in self._zombies]
        processes += [slot.process for slot in self._slots if slot.process is not None]
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    @property
    def incarnations(self) -> int:
        return sum(slot.incarnations for slot in self._slots)
