"""`make test` runs again what ran out of time, and nothing else (ADR 0021)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.second_chances import OPTION

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]
FIRST_TIME = """
import pathlib
import subprocess
import time

import pytest
from ottla.errors import TimedOutError
from tests.waiting import in_time


def is_first(name):
    seen = pathlib.Path(name).exists()
    pathlib.Path(name).touch()
    return not seen


@pytest.fixture
def fragile():
    yield
    if is_first("torn down"):
        {at_the_end}


def test_it(fragile):
    if is_first("seen"):
        {failure}


def test_another():
    pass
"""


@pytest.fixture
def again(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}")
    monkeypatch.setenv("PYTEST_ADDOPTS", f"-p tests.second_chances -p no:cacheprovider {OPTION}=1")
    return pytester


@pytest.mark.parametrize("how", [("-p", "no:xdist"), ("-n", "1")])
@pytest.mark.parametrize(
    "failure",
    [
        "raise TimeoutError('it did not come')",
        "subprocess.run(['sleep', '9'], timeout=0.01)",
        "in_time(0.0)",
        "raise pytest.importorskip('playwright.sync_api').TimeoutError('it is not on the page')",
    ],
)
def test_what_ran_out_of_time_has_a_second_chance(
    again: pytest.Pytester, failure: str, how: tuple[str, ...]
) -> None:
    again.makepyfile(FIRST_TIME.format(failure=failure, at_the_end="pass"))
    result = again.runpytest_subprocess(*how)
    result.stdout.fnmatch_lines(
        ["*ran out of time, and runs again: *::test_it*", "*2 passed, 1 rerun*"]
    )
    assert result.ret == 0


def test_so_has_what_ran_out_of_time_at_its_end(again: pytest.Pytester) -> None:
    again.makepyfile(FIRST_TIME.format(failure="pass", at_the_end="raise TimeoutError"))
    result = again.runpytest_subprocess("-p", "no:xdist")
    result.stdout.fnmatch_lines(["*2 passed, 1 rerun*"])


def test_who_fails_again_has_failed(again: pytest.Pytester) -> None:
    again.makepyfile("def test_it():\n    raise TimeoutError('it never comes')")
    result = again.runpytest_subprocess("-p", "no:xdist")
    result.stdout.fnmatch_lines(["*1 failed, 1 rerun*"])
    assert result.ret == 1


@pytest.mark.parametrize(
    "failure",
    [
        "assert [b'one', b'two'] == [b'one']",
        "raise AssertionError('2 records are lost')",
        "raise KeyError('three')",
        "pytest.fail('torn')",
        "raise TimedOutError('the broker says so')",
        "assert time.monotonic() < 0, 'earlier than it should be, or later'",
    ],
)
def test_what_saw_something_wrong_has_none(again: pytest.Pytester, failure: str) -> None:
    again.makepyfile(FIRST_TIME.format(failure=failure, at_the_end="pass"))
    again.runpytest_subprocess("-p", "no:xdist").assert_outcomes(failed=1, passed=1)


def test_what_saw_something_wrong_has_none_if_it_runs_out_of_time_as_well(
    again: pytest.Pytester,
) -> None:
    wrong = "assert [b'one', b'two'] == [b'one']"
    again.makepyfile(FIRST_TIME.format(failure=wrong, at_the_end="raise TimeoutError"))
    result = again.runpytest_subprocess("-p", "no:xdist")
    result.assert_outcomes(failed=1, passed=1, errors=1)


def test_what_ran_out_of_time_because_something_was_wrong_has_none(again: pytest.Pytester) -> None:
    again.makepyfile(
        """
        def test_it():
            try:
                assert [b"one", b"two"] == [b"one"]
            finally:
                raise TimeoutError
        """
    )
    again.runpytest_subprocess("-p", "no:xdist").assert_outcomes(failed=1)


def test_a_second_chance_has_its_own_timeout(again: pytest.Pytester) -> None:
    again.makepyfile(
        FIRST_TIME.format(failure="raise TimeoutError\n    time.sleep(60)", at_the_end="pass")
    )
    result = again.runpytest_subprocess("-p", "no:xdist", "--timeout=2", timeout=30)
    result.stdout.fnmatch_lines(["*1 failed, 1 passed, 1 rerun*"])


def test_nobody_has_one_unless_it_is_asked_for(
    again: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p tests.second_chances -p no:cacheprovider")
    again.makepyfile(FIRST_TIME.format(failure="raise TimeoutError", at_the_end="pass"))
    again.runpytest_subprocess("-p", "no:xdist").assert_outcomes(failed=1, passed=1)


def test_a_second_test_has_none(again: pytest.Pytester) -> None:
    tests = "".join(
        f"\n\ndef test_{number}():\n    if is_first({str(number)!r}):\n        raise TimeoutError\n"
        for number in range(2)
    )
    again.makepyfile(FIRST_TIME.partition("@pytest.fixture")[0] + tests)
    result = again.runpytest_subprocess("-p", "no:xdist")
    result.stdout.fnmatch_lines(["*1 failed, 1 passed, 1 rerun*"])
