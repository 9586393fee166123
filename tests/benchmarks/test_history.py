"""Runs are kept as files, become one table and charts, and name the rows that have become dearer."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from benchmarks.comparison import Results, Row, compare
from benchmarks.frames import RefusedError
from benchmarks.history import (
    CONFLUENT,
    README,
    Figure,
    MeasuredRow,
    MeasuredRun,
    NotKeptError,
    add,
    load_runs,
    newest_of_kind,
    ratio_name,
    with_summary,
)
from benchmarks.kafka_jars import KAFKA_SERVER_VERSION, UnavailableError, newer_server
from benchmarks.measure import Measurement, Memory
from benchmarks.peers import OttlaWorkers, Peer
from benchmarks.regression import (
    Verdict,
    checkout,
    cost_ratios,
    is_compiled,
    machine_factor,
    regressions,
    suspects,
)
from benchmarks.report import Report
from benchmarks.run import rows_wanted
from benchmarks.summary import LINES, NOTHING, TRANSACTIONAL, TWO_CLIENTS, summary
from tests.benchmarks.test_report import OwnProcess, unused

from benchmarks import (
    bench_client_consume,
    bench_client_produce,
    bench_fetch,
    bench_group_load,
    regression,
    rows,
)

ROOT = Path(__file__).parents[2]
BIG = ("produce, 1 KB x 900", "raw")


def measured_row(
    cost: float, *, kafka: float = 1000.0, name: str = BIG[0], spread: float = 0.01
) -> MeasuredRow:
    """A row in which Ottla is twice as fast as Kafka."""

    def figures(throughput: float, cpu_us: float) -> dict[str, Figure]:
        return {
            "throughput": Figure(throughput, throughput * 0.9, throughput * 1.1),
            "cpu_us_per_request": Figure(cpu_us, cpu_us * (1 - spread), cpu_us * (1 + spread)),
            "cpu_ms_per_mb": Figure(cpu_us / 1000, cpu_us / 1000, cpu_us / 1000),
        }

    return MeasuredRow(
        row=name,
        driver="raw",
        unit="MB/s",
        peers={"ottla": figures(1400.0, cost), "kafka": figures(700.0, kafka)},
        ratios={ratio_name("ottla", "kafka"): Figure(2.0, 1.8, 2.2)},
    )


def measured_run(
    *measured: MeasuredRow, commit: str = "abc1234", date: str = "2026-01-02T03:04:05Z"
) -> MeasuredRun:
    return MeasuredRun(
        commit=commit,
        date=date,
        machine={"processor": "a processor", "cores": 2, "python": "3.11.7", "system": "Linux 6"},
        load_before=0.5,
        load_after=1.5,
        versions={"ottla": "1", "kafka": "Apache Kafka 4"},
        rounds=5,
        seconds=1.2,
        rows=measured,
    )


@pytest.fixture
def kept(tmp_path: Path) -> Callable[[MeasuredRun], Path]:
    """Keeps a run in a folder of its own."""

    def keep(run: MeasuredRun) -> Path:
        source = tmp_path / "run.json"
        source.write_text(run.text(), encoding="utf-8")
        return add(source, tmp_path / "history")

    return keep


def test_a_run_survives_the_round_trip(kept: Callable[[MeasuredRun], Path]) -> None:
    run = measured_run(measured_row(500.0))
    path = kept(run)
    assert path.name == "20260102T030405Z-abc1234.json"
    (loaded,) = load_runs(path.parent)
    assert loaded.text() == run.text()
    row = loaded.row(*BIG)
    assert row is not None
    assert row.ratio("ottla", "kafka") == Figure(2.0, 1.8, 2.2)


def test_figures_are_kept_with_four_digits() -> None:
    assert Figure(1234567.0, 0.0123456, 12.0).as_json() == [1235000.0, 0.01235, 12.0]


def test_a_run_has_a_line_for_each_row() -> None:
    run = measured_run(measured_row(500.0), measured_row(500.0, name="other"))
    assert sum('"row":' in line for line in run.text().splitlines()) == 2


@pytest.mark.parametrize("commit", ["abc1234-dirty", "unknown"])
def test_a_run_without_a_commit_is_not_kept(
    kept: Callable[[MeasuredRun], Path], commit: str
) -> None:
    with pytest.raises(NotKeptError, match="commit first"):
        kept(measured_run(measured_row(500.0), commit=commit))


def test_a_run_is_compared_with_the_newest_on_a_machine_of_its_kind() -> None:
    run = measured_run()
    old, new = (replace(run, date=f"202{year}-01-01T00:00:00Z") for year in (4, 5))
    other_kernel = replace(run, date="2025-06-01", machine={**run.machine, "system": "Linux 7"})
    more_cores = replace(run, date="2026-01-01", machine={**run.machine, "cores": 64})
    assert newest_of_kind([new, old, more_cores], run) is new
    assert newest_of_kind([new, old, more_cores, other_kernel], run) is other_kernel
    assert newest_of_kind([more_cores], run) is None


def test_what_is_kept_has_the_medians_the_extremes_and_the_ratios_of_rounds() -> None:
    row = Row("produce", "raw", "small", "MB/s", unused)
    other = replace(row, name="against", against="small")
    results = Results()
    for ours, theirs in ((100.0, 200.0), (20.0, 10.0), (4.0, 1.0)):
        results.add(row, "ottla", Measurement(ours, cpu_us_per_request=ours))
        results.add(row, "kafka", Measurement(theirs))
        results.add(other, "ottla", Measurement(ours / 4))
    memory = {"ottla": Memory(30.0, 20.0)}
    starts = {"ottla": [0.25, 0.5]}
    report = Report(3, 1.0, 0.0, {"ottla": "1"}, {}, results, starts, memory, memory)
    first, second = report.rows()
    assert first.figure("ottla", "throughput") == Figure(20.0, 4.0, 100.0)
    assert first.ratio("ottla", "kafka") == Figure(2.0, 0.5, 4.0)
    assert first.cost("ottla") == first.figure("ottla", "cpu_us_per_request")
    assert first.cost("kafka") is None
    assert second.ratio("ottla", "produce, small") == Figure(0.25, 0.25, 0.25)
    start = report.starts()
    assert start.figure("ottla", "duration_ms") == Figure(375.0, 250.0, 500.0)
    assert start.figure("ottla", "idle_anonymous_mb") == Figure(20.0, 20.0, 20.0)


def test_a_peer_that_fails_in_a_row_is_left_out_of_it_and_the_others_are_measured() -> None:
    calls: list[str] = []

    def run(peer: Peer, _: float) -> Measurement:
        calls.append(peer.name)
        if peer.name == "b" and len(calls) > 2:
            raise RefusedError("it has lost a record")
        return Measurement(1.0)

    row = Row("produce", "raw", "small", "MB/s", run)
    results = compare([row], [OwnProcess("a"), OwnProcess("b")], rounds=2, seconds=0.1)
    assert len(results.of(row, "a")) == 2
    assert results.of(row, "b") == []
    (failure,) = results.failures
    assert failure.text == "produce, small (raw) failed on b: RefusedError: it has lost a record"
    assert calls.count("b") == 2


# The summary


def test_every_line_of_the_summary_is_a_row_that_is_measured() -> None:
    measured = {(row.title, row.driver) for group in rows.GROUPS for row in group.rows}
    for question in (bench_client_produce.QUESTION, bench_client_consume.QUESTION):
        assert set(question.twins) <= set(question.programs)
        assert set(question.twins.values()) <= set(question.programs)
        measured |= {
            (question.row_name(program), "client, broker ottla") for program in question.twins
        }
    named = {(line.row, line.driver) for line in LINES}
    named |= {
        (name, "raw") for name in (*TWO_CLIENTS, *(each for pair in TRANSACTIONAL for each in pair))
    }
    assert named - measured == set()


def test_the_summary_has_kafka_ours_and_the_ratio() -> None:
    lines = summary(measured_run(measured_row(450.0))).splitlines()
    assert "load average 0.5 before and 1.5 after" in lines[0]
    (rate, cost) = (line.split(" | ") for line in lines if line.startswith("| produce"))
    assert rate == [
        "| produce, 1 KB x 900 (raw), MB/s",
        "700",
        "1,400",
        "2.00",
        *3 * [NOTHING],
        "0.45 |",
    ]
    assert cost[0] == "| produce, 1 KB x 900 (raw), CPU ms/MB, less is better"
    assert cost[1:] == ["1", "0.45", "0.45", *3 * [NOTHING], f"{NOTHING} |"]


def test_requests_of_a_core_are_more_where_a_request_costs_less() -> None:
    row = measured_row(20.0, kafka=80.0, name="produce, 100 B, one per request, pipelined")
    text = summary(measured_run(row))
    assert "pipelined (raw), requests/s of a core | 12,500 | 50,000 | 4.00 |" in text


def test_workers_are_compared_with_one_process_and_their_clients_are_named() -> None:
    name = TWO_CLIENTS[0]
    row = measured_row(1.0, name=name)
    figures = {
        "throughput": Figure(2000.0, 1.0, 1.0),
        "broker_cores": Figure(1.25, 1.0, 1.0),
        "generator_cores": Figure(0.75, 1.0, 1.0),
    }
    both = replace(
        row,
        peers={**row.peers, "ottla-2": figures},
        ratios={**row.ratios, ratio_name("ottla-2", "ottla"): Figure(1.5, 1.4, 1.6)},
    )
    text = summary(measured_run(both))
    assert f"| {name}, MB/s | 1,400 | – | – | 2,000 | 1.25 | 0.75 | 1.50 |" in text  # noqa: RUF001


def test_clients_are_compared_with_confluents() -> None:
    figures = {"throughput": Figure(5.0, 5.0, 5.0), "cpu_us_per_record": Figure(2.0, 2.0, 2.0)}
    row = MeasuredRow(
        "client produce, send",
        "client, broker ottla",
        "records/s",
        {"ottla": figures, CONFLUENT: {**figures, "cpu_us_per_record": Figure(4.0, 4.0, 4.0)}},
        {ratio_name("ottla", CONFLUENT): Figure(1.25, 1.0, 1.5)},
    )
    text = summary(measured_run(row))
    assert "against confluent-kafka), records/s | 5 | 5 | 1.25 |" in text
    assert "against confluent-kafka), CPU µs/record, less is better | 4 | 2 | 0.50 |" in text


# Regressions


@pytest.mark.parametrize(("cost", "is_suspect"), [(450.0, False), (522.0, False), (530.0, True)])
def test_a_row_that_costs_five_percent_more_is_a_suspect(cost: float, is_suspect: bool) -> None:
    found = suspects(measured_run(measured_row(cost)), measured_run(measured_row(500.0)))
    assert bool(found) == is_suspect


def test_a_machine_that_is_slower_for_kafka_too_is_no_regression() -> None:
    base = measured_run(measured_row(500.0, kafka=1000.0))
    slower = measured_run(measured_row(600.0, kafka=1200.0))
    assert machine_factor(slower, base) == pytest.approx(1.2)
    assert suspects(slower, base) == []
    other_kafka = replace(slower, versions={"kafka": "Apache Kafka 5"})
    assert machine_factor(other_kafka, base) == 1.0
    (suspect,) = suspects(other_kafka, base)
    assert suspect.ratio == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("ratios", "is_regression"),
    [
        ([1.06, 1.07, 1.08, 1.09, 1.1, 1.05, 1.06, 1.04, 1.12], True),
        # By the median too dear, but two rounds of nine say the opposite: that is noise.
        ([1.3, 1.2, 1.4, 0.9, 0.8, 1.2, 1.1, 1.2, 1.3], False),
        ([1.04] * 9, False),
        # Of five rounds nothing can be said.
        ([1.2] * 5, False),
    ],
)
def test_a_regression_is_shown_by_most_of_the_rounds(
    ratios: list[float], is_regression: bool
) -> None:
    assert Verdict("a row", ratios).is_regression == is_regression


def test_the_ratios_of_costs_are_those_of_rounds() -> None:
    own = [Measurement(cpu_us_per_request=3.0), Measurement(duration_ms=1.0, cpu_ms=6.0)]
    other = [Measurement(cpu_us_per_request=2.0), Measurement(duration_ms=1.0, cpu_ms=3.0)]
    assert cost_ratios(own, other) == [1.5, 2.0]


def test_a_run_of_the_kept_commit_or_without_a_kept_run_has_no_regression() -> None:
    run = measured_run(measured_row(900.0))
    assert regressions(run, None, 1.0) == []
    assert regressions(run, measured_run(measured_row(100.0)), 1.0) == []


def test_where_the_kept_commit_cannot_be_measured_rounds_that_are_apart_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: str, **__: Path) -> None:
        raise UnavailableError("there is no git")

    monkeypatch.setattr(regression, "_run", fail)
    base = measured_run(measured_row(500.0), commit="fff0000")
    dearer, noisy = (measured_run(measured_row(600.0, spread=each)) for each in (0.01, 0.3))
    (line,) = regressions(dearer, base, 1.0)
    assert line.startswith("produce, 1 KB x 900 (raw): 1.200 of the CPU at fff0000")
    assert regressions(noisy, base, 1.0) == []
    assert "fff0000 cannot be measured: there is no git" in capsys.readouterr().err


def test_suspects_are_measured_in_alternation_and_only_what_is_confirmed_is_a_regression(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def alternate(found: list[regression.Suspect], folder: Path, _: float) -> list[Verdict]:
        asked.extend(suspect.name for suspect in found)
        assert folder == tmp_path
        return [Verdict("confirmed", [1.2] * 9), Verdict("noise", [1.0] * 9)]

    class Folder:
        def __init__(self, commit: str) -> None:
            assert commit == "fff0000"

        def __enter__(self) -> Path:
            return tmp_path

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(regression, "checkout", Folder)
    monkeypatch.setattr(regression, "measured_in_alternation", alternate)
    base = measured_run(measured_row(500.0), commit="fff0000")
    (line,) = regressions(measured_run(measured_row(600.0)), base, 1.0)
    assert asked == ["produce, 1 KB x 900 (raw)"]
    assert line.startswith("confirmed: 1.200")


def test_a_commit_that_does_not_exist_cannot_be_checked_out() -> None:
    with pytest.raises(UnavailableError, match="worktree"), checkout("0" * 40):
        pass


def test_a_checkout_is_compiled_when_every_kernel_is(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "ottla" / "records"
    folder.mkdir(parents=True)
    (folder / "_kernel.pyx").touch()
    assert not is_compiled(tmp_path)
    (folder / "_kernel.cpython-311.so").touch()
    assert is_compiled(tmp_path)
    (folder / "_other_kernel.pyx").touch()
    assert not is_compiled(tmp_path)


# The run


def test_a_newer_kafka_is_noticed_and_a_release_candidate_is_not() -> None:
    def metadata(*versions: str) -> Callable[[], str]:
        return lambda: "".join(f"<version>{each}</version>" for each in ("2.4.0", *versions))

    def fail() -> str:
        raise OSError("no network")

    assert newer_server(metadata("99.10.0", "99.9.1", "100.0.0-rc1")) == "99.10.0"
    assert newer_server(metadata(KAFKA_SERVER_VERSION)) is None
    assert newer_server(metadata()) is None
    assert newer_server(fail) is None


def test_rows_are_chosen_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    all_rows = [row for group in rows.GROUPS for row in group.rows]
    assert rows_wanted(all_rows) == all_rows
    monkeypatch.setenv("BENCH_ONLY", "512 connections; transactions, version 2")
    names = {row.title for row in rows_wanted(all_rows)}
    assert "offset commit, 1 partition, one at a time on 512 connections" in names
    assert len(names) == 5
    assert bench_client_produce.QUESTION.programs_wanted() == []


def test_the_rows_and_programs_of_the_summary_can_be_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question = bench_client_consume.QUESTION
    assert question.programs_wanted() == question.programs
    monkeypatch.setenv("BENCH_ONLY", "summary")
    assert set(question.programs_wanted()) == {
        "ottla poll",
        "ottla.aio poll",
        "ottla poll_arrow",
        "confluent-kafka consume",
    }
    assert {row.title for row in rows_wanted(bench_fetch.ROWS)} == {
        row.title for row in bench_fetch.ROWS
    }
    assert rows_wanted(bench_group_load.ROWS) == []


def test_the_processor_time_of_workers_is_that_of_all_their_processes() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    child = "print('listening on here', flush=True); import sys; sys.stdin.read()"

    class Tree(OttlaWorkers):
        def command(self) -> list[str]:
            return [sys.executable, "-c", script, child]

    tree = Tree()
    tree.launch()
    try:
        assert len(tree.pids()) == 2
        assert tree.cpu_seconds() > 0
        assert tree.memory().resident_mb > 5
    finally:
        # At the end of its input the child ends, and with it what has started it.
        assert tree.process is not None
        tree.process.communicate(timeout=30)
        tree.stop()


# The charts


@pytest.fixture(scope="module")
def charts() -> ModuleType:
    path = ROOT / "docs" / "site" / "benchmark_history.py"
    spec = importlib.util.spec_from_file_location("benchmark_history", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_a_point_for_each_run(charts: ModuleType) -> None:
    runs = [measured_run(measured_row(500.0)), measured_run(measured_row(250.0), commit="fff0000")]
    page = charts.page(runs)
    row = next(line for line in page.splitlines() if "1 KB x 900 (raw), MB/s" in line)
    ratios, costs = row.split("<svg")[1:]
    assert ratios.count("<circle") == costs.count("<circle") == 2
    assert "<title>fff0000, ottla: 2.00</title>" in ratios
    assert "<title>fff0000: 250, 0.25 of the other</title>" in costs
    assert "| 2026-01-02 03:04 | fff0000 | a processor, 2 cores |" in page
    assert "offset commit" not in page


def test_a_run_on_a_busy_machine_has_hollow_points(charts: ModuleType) -> None:
    quiet = measured_run(measured_row(500.0))
    busy = replace(quiet, load_after=2.5)
    assert not quiet.is_busy
    page = charts.page([quiet, busy])
    row = next(line for line in page.splitlines() if "1 KB x 900 (raw), MB/s" in line)
    assert row.count("<circle") == 4
    assert row.count('r="3" fill="none"') == 2


def test_what_is_faster_is_higher(charts: ModuleType) -> None:
    points = [
        charts.Point(at, Figure(ratio, ratio, ratio), "") for at, ratio in enumerate((0.5, 2.0))
    ]
    drawing = charts.chart([charts.Series("ottla", points)], 2, "ratio")
    low, high = (float(part.split('"')[0]) for part in drawing.split('cy="')[1:])
    (one,) = (float(part.split('"')[0]) for part in drawing.split('y1="')[1:2])
    assert low > one > high


def test_the_page_says_when_nothing_is_kept(charts: ModuleType) -> None:
    assert "No run is kept yet" in charts.page([])


def test_the_readme_has_the_tables_of_the_newest_run() -> None:
    text = README.read_text(encoding="utf-8")
    runs = load_runs()
    assert not runs or with_summary(text, summary(runs[-1])) == text
    assert with_summary(text, "| a table |").count("| a table |") == 1
    with pytest.raises(AssertionError, match="the newest run"):
        with_summary("no marks", "| a table |")


def test_what_the_repository_keeps_can_be_read_and_has_known_rows() -> None:
    named = {(line.row, line.driver) for line in LINES}
    for run in load_runs():
        assert named & {row.key for row in run.rows}, run.date
        assert not run.commit.endswith("-dirty")
