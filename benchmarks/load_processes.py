"""A load that is made by several processes at once, because one generator may be slower than two brokers."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

from benchmarks.load import Sent, Target, drive

START_SECONDS = 60.0


class SentByProcesses(NamedTuple):
    """What all of them sent, the longest time that one took, and their processor time."""

    requests: int
    seconds: float
    cpu_seconds: float


def drive_in_processes(
    targets: Sequence[Target], *, clients: int, seconds: float, bursts_in_flight: int
) -> SentByProcesses:
    """Every client has a connection for each target; all begin when the last of them is ready."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(clients)
    ends: list[Connection] = []
    processes = []
    for _ in range(clients):
        own, other = context.Pipe(duplex=False)
        arguments = (other, barrier, list(targets), seconds, bursts_in_flight)
        process = context.Process(target=_drive, args=arguments, daemon=True)
        process.start()
        other.close()
        ends.append(own)
        processes.append(process)
    try:
        done = [_result(end, seconds) for end in ends]
    finally:
        for process in processes:
            process.join(START_SECONDS)
    requests = sum(sent.requests for sent, _ in done)
    longest = max(sent.seconds for sent, _ in done)
    return SentByProcesses(requests, longest, sum(cpu for _, cpu in done))


def _result(end: Connection, seconds: float) -> tuple[Sent, float]:
    if not end.poll(START_SECONDS + 2 * seconds):
        raise TimeoutError("a client said nothing")
    sent, cpu_seconds = end.recv()  # EOFError if it failed: its traceback is on stderr
    return sent, cpu_seconds


def _drive(
    end: Connection,
    barrier: Barrier,
    targets: Sequence[Target],
    seconds: float,
    bursts_in_flight: int,
) -> None:
    """What a client process does."""
    barrier.wait(START_SECONDS)
    before = time.process_time()
    sent = drive(targets, seconds=seconds, bursts_in_flight=bursts_in_flight)
    end.send((sent, time.process_time() - before))
    end.close()
