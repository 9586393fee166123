"""Starts the peers, runs rows against them, stops them, and reports."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.comparison import Results, Row, compare
from benchmarks.kafka_jars import UnavailableError
from benchmarks.measure import Memory, other_work
from benchmarks.peers import FoundPeers, Peer, available_peers
from benchmarks.report import Report, write_json
from benchmarks.summary import ROWS_OF_SUMMARY

FindPeers = Callable[[], FoundPeers]

DEFAULT_ROUNDS = 3
DEFAULT_SECONDS = 1.2
IDLE_SECONDS = 1.0
SUMMARY = "summary"


@dataclass
class Starts:
    """Seconds to the first acknowledged record and memory a moment later, per peer."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    idle: dict[str, Memory] = field(default_factory=dict)

    def start(self, peer: Peer) -> None:
        self.seconds.setdefault(peer.name, []).append(peer.start())

    def rest(self, peers: Sequence[Peer]) -> None:
        time.sleep(IDLE_SECONDS)
        self.idle = {peer.name: peer.memory() for peer in peers}


def rounds_wanted() -> int:
    return int(os.environ.get("BENCH_ROUNDS", DEFAULT_ROUNDS))


def seconds_wanted() -> float:
    return float(os.environ.get("BENCH_SECONDS", DEFAULT_SECONDS))


def is_wanted(title: str) -> bool:
    """Whether a row has one of the words of BENCH_ONLY in its title, which have semicolons between them.

    Without the variable all rows are wanted; the word `summary` means those of the last table.
    """
    words = [word.strip() for word in os.environ.get("BENCH_ONLY", "").split(";") if word.strip()]
    if SUMMARY in words and title in ROWS_OF_SUMMARY:
        return True
    return not words or any(word in title for word in words)


def rows_wanted(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if is_wanted(row.title)]


def run(
    name: str, rows: Sequence[Row], *, starts: int, find_peers: FindPeers = available_peers
) -> Report:
    """The whole course; `starts` is how often every peer is started, the last time for the load."""
    rounds, seconds = rounds_wanted(), seconds_wanted()
    rows = rows_wanted(rows)
    load_before = other_work()
    peers, missing = find_peers()
    started = Starts()
    try:
        for _ in range(starts - 1):
            for peer in list(peers):
                _start_or_leave_out(peer, peers, missing, started)
                peer.stop()
        for peer in list(peers):
            _start_or_leave_out(peer, peers, missing, started)
        for peer_name, reason in missing.items():
            print(f"{peer_name} is left out: {reason}", file=sys.stderr)
        started.rest(peers)
        results = compare(rows, peers, rounds=rounds, seconds=seconds) if rows else Results()
        loaded = {peer.name: peer.memory() for peer in peers}
    finally:
        for peer in peers:
            peer.stop()
    report = Report(
        rounds=rounds,
        seconds=seconds,
        load_before=load_before,
        versions={peer.name: peer.version for peer in peers},
        missing=missing,
        results=results,
        start_seconds=started.seconds,
        idle=started.idle,
        loaded=loaded,
    )
    path = write_json(name, report)
    print(report.markdown())
    print(f"written to {path}", file=sys.stderr)
    return report


def _start_or_leave_out(
    peer: Peer, peers: list[Peer], missing: dict[str, str], started: Starts
) -> None:
    """A peer that does not start is left out; ours has to."""
    try:
        started.start(peer)
    except UnavailableError as error:
        if peer is peers[0]:
            raise
        missing[peer.name] = str(error)
        peers.remove(peer)


def run_alone(name: str, rows: Sequence[Row]) -> None:
    """One question by itself."""
    run(name, rows, starts=1)
