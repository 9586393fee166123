"""A plugin for pytest: a test that ran out of time runs once more, and the summary says so (ADR 0021)."""

from __future__ import annotations

import subprocess
from collections.abc import Generator

import pytest
from _pytest.runner import runtestprotocol

OPTION = "--second-chances"
AGAIN = "rerun"
_left = pytest.StashKey[int]()
_has_run_out = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION,
        type=int,
        default=0,
        help="how many tests whose wait ran out run once more, in each process",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_left] = config.getoption(OPTION)


def ran_out_of_time(error: BaseException) -> bool:
    """Whether a wait was too long, or a comparison with the clock failed; what was seen is right as far as it goes."""
    if isinstance(error, AssertionError):
        return "function monotonic>()" in str(error)
    return isinstance(error, (TimeoutError, subprocess.TimeoutExpired))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo is not None and ran_out_of_time(call.excinfo.value):
        item.stash[_has_run_out] = True
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not item.config.stash[_left]:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if item.stash.get(_has_run_out, False):
        item.config.stash[_left] -= 1
        for report in reports:
            if report.failed:
                report.outcome = AGAIN  # type: ignore[assignment] # one of pytest's own, and ours
                item.ihook.pytest_runtest_logreport(report=report)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_report_teststatus(
    report: pytest.TestReport,
) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    return (AGAIN, "R", ("RERUN", {"yellow": True})) if report.outcome == AGAIN else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What ran out of time and passed afterwards is a finding: it is shown like a failure."""
    for report in terminalreporter.stats.get(AGAIN, []):
        terminalreporter.section(f"ran out of time, and runs again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
