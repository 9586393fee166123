"""`make test` runs again what ran out of time, and nothing else (ADR 0021)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]
FIRST_TIME = """
import pathlib
import subprocess
import time

import pytest


def is_first(name):
    seen = pathlib.Path(name).exists()
    pathlib.Path(name).touch()
    return not seen


def test_it():
    if is_first("seen"):
        {failure}
"""


def again() -> list[str]:
    (words,) = re.findall(r"^AGAIN := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return shlex.split(words)


@pytest.mark.parametrize(
    "failure",
    [
        "raise TimeoutError('it did not come')",
        "subprocess.run(['sleep', '9'], timeout=0.01)",
        "assert time.monotonic() < 0, 'it did not come'",
    ],
)
def test_what_ran_out_of_time_has_a_second_chance(pytester: pytest.Pytester, failure: str) -> None:
    pytester.makepyfile(FIRST_TIME.format(failure=failure))
    result = pytester.runpytest_subprocess("-p", "no:xdist", *again())
    result.stdout.fnmatch_lines(["RERUN *::test_it", "*1 passed, 1 rerun*"])
    assert result.ret == 0


@pytest.mark.parametrize(
    "failure",
    [
        "assert [b'one', b'two'] == [b'one']",
        "raise AssertionError('2 records are lost')",
        "raise KeyError('three')",
        "pytest.fail('torn')",
    ],
)
def test_what_saw_something_wrong_has_none(pytester: pytest.Pytester, failure: str) -> None:
    pytester.makepyfile(FIRST_TIME.format(failure=failure))
    pytester.runpytest_subprocess("-p", "no:xdist", *again()).assert_outcomes(failed=1)


def test_a_fourth_has_none(pytester: pytest.Pytester) -> None:
    tests = "\n\n".join(
        f"def test_{number}():\n    if is_first({str(number)!r}):\n        raise TimeoutError"
        for number in range(4)
    )
    pytester.makepyfile(FIRST_TIME.partition("def test_it")[0] + tests)
    result = pytester.runpytest_subprocess("-p", "no:xdist", *again())
    result.stdout.fnmatch_lines(["*1 failed, 3 passed, 3 rerun*"])
