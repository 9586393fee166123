"""A plugin for pytest: a test that ran out of time runs once more, and the summary says so (ADR 0021)."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Iterator

import pytest
from _pytest.runner import runtestprotocol

from ottla.errors import KafkaError

OPTION = "--second-chances"
AGAIN = "rerun"
_left = pytest.StashKey[int]()
# Of each failure of a test, whether time ran out.
_failures = pytest.StashKey[list[bool]]()
_is_second = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION,
        type=int,
        choices=range(100),
        default=0,
        help="how many tests whose wait ran out run once more, in each process",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Who wants to stop at the first failure wants to see it.
    config.stash[_left] = 0 if config.getoption("maxfail") else config.getoption(OPTION)


def ran_out_of_time(error: BaseException) -> bool:
    """Whether a wait was too long, and nothing was found wrong before; an answer of a broker is no wait."""
    return all(
        (isinstance(each, (TimeoutError, subprocess.TimeoutExpired)) or _is_of_browser(each))
        and not isinstance(each, KafkaError)
        for each in _with_reasons(error)
        if isinstance(each, (AssertionError, KafkaError)) or each is error
    )


def _is_of_browser(error: BaseException) -> bool:
    """Whether a page did not show something in time; most test processes never import playwright."""
    kind = type(error)
    return kind.__name__ == "TimeoutError" and kind.__module__.startswith("playwright.")


def _with_reasons(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        hides = error.__suppress_context__
        error = error.__cause__ or (None if hides else error.__context__)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo is not None:
        item.stash.setdefault(_failures, []).append(ran_out_of_time(call.excinfo.value))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not item.config.stash[_left] or item.stash.get(_is_second, False):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failures = item.stash.get(_failures, [])
    has_second_chance = bool(failures) and all(failures)
    for report in reports:
        if has_second_chance and report.failed:
            report.outcome = AGAIN  # type: ignore[assignment] # pytest knows three
        if report.outcome == AGAIN or not has_second_chance:
            item.ihook.pytest_runtest_logreport(report=report)
    if has_second_chance:
        item.config.stash[_left] -= 1
        item.stash[_is_second] = True
        item._report_sections.clear()
        # Through the hook, so that it has a timeout, too.
        item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    else:
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_report_teststatus(
    report: pytest.TestReport,
) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    return (AGAIN, "R", ("RERUN", {"yellow": True})) if report.outcome == AGAIN else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What ran out of time is a finding, whatever came of it afterwards."""
    for report in terminalreporter.stats.get(AGAIN, []):
        terminalreporter.section(f"ran out of time, and runs again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
        for name, text in report.sections:
            terminalreporter.section(name, "-")
            terminalreporter.write_line(text)
