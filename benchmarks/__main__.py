"""All questions about brokers and clients in one run: `make bench`, or python -m benchmarks."""

from __future__ import annotations

from benchmarks.client_comparison import run_question
from benchmarks.run import run

from benchmarks import (
    bench_client_consume,
    bench_client_produce,
    bench_commit_latency,
    bench_fetch,
    bench_group_load,
    bench_groups,
    bench_latency,
    bench_offset_commit,
    bench_produce,
    bench_spark_pipeline,
    bench_start,
    bench_transactional_produce,
    bench_transactions,
)

if __name__ == "__main__":
    rows = [*bench_produce.ROWS, *bench_fetch.ROWS, *bench_latency.ROWS]
    run("brokers", rows, starts=bench_start.STARTS)
    # Groups have peers of their own, without the delay of first rebalances.
    group_rows = [*bench_groups.ROWS, *bench_offset_commit.ROWS]
    run("groups", group_rows, starts=1, find_peers=bench_groups.find_peers)
    # And once more: a restart reads whatever was committed before.
    run("group-load", bench_group_load.ROWS, starts=1, find_peers=bench_groups.find_peers)
    transaction_rows = [
        *bench_transactions.ROWS,
        *bench_transactional_produce.ROWS,
        *bench_commit_latency.ROWS,
    ]
    run("transactions", transaction_rows, starts=1, find_peers=bench_transactions.find_peers)
    # Here the clients are compared, each in a process of its own.
    run_question(bench_client_produce.QUESTION)
    run_question(bench_client_consume.QUESTION)
    bench_spark_pipeline.run()
