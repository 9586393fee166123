"""All questions about brokers and clients in one run: `make bench`, or python -m benchmarks.

It ends with a table of all rows and with the exit code 1 if a row could not be measured or has become dearer.
"""

from __future__ import annotations

import sys

from benchmarks.client_comparison import run_question
from benchmarks.history import RUN_FILE, load_runs, newest_of_kind
from benchmarks.kafka_jars import newer_server
from benchmarks.recording import Recording
from benchmarks.regression import regressions
from benchmarks.rows import BROKERS, GROUPS
from benchmarks.run import is_wanted, rounds_wanted, rows_wanted, run, seconds_wanted
from benchmarks.summary import summary

from benchmarks import bench_client_consume, bench_client_produce, bench_spark_pipeline


def measure() -> Recording:
    """Group after group; BENCH_ONLY leaves out what has other names."""
    recording = Recording()
    for group in GROUPS:
        if not rows_wanted(group.rows):
            continue
        report = run(group.name, group.rows, starts=group.starts, find_peers=group.find_peers)
        recording.add_group(report)
        if group.name == BROKERS:
            recording.add_starts(report)
    # Here the clients are compared, each in a process of its own.
    for question in (bench_client_produce.QUESTION, bench_client_consume.QUESTION):
        if question.programs_wanted():
            recording.add_clients(run_question(question))
    if is_wanted("spark"):
        bench_spark_pipeline.run()
    return recording


def main() -> int:
    if newer := newer_server():
        print(f"Kafka {newer} is out: raise KAFKA_SERVER_VERSION of kafka_jars.py", file=sys.stderr)
    recording = measure()
    measured = recording.run(rounds_wanted(), seconds_wanted())
    RUN_FILE.parent.mkdir(exist_ok=True)
    RUN_FILE.write_text(measured.text(), encoding="utf-8")
    print(summary(measured))
    print(f"written to {RUN_FILE}; benchmarks/README.md says how it is kept", file=sys.stderr)
    dearer = regressions(measured, newest_of_kind(load_runs(), measured), measured.seconds)
    for title, lines in (
        ("rows that failed", recording.failures),
        ("rows that have become dearer", dearer),
    ):
        if lines:
            print("\n- ".join([f"\n{title}:", *lines]), file=sys.stderr)
    return 1 if recording.failures or dearer else 0


if __name__ == "__main__":
    sys.exit(main())
