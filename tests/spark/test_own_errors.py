"""What people are told of errors in their own code: what it said, and on which line."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ottla.cli.pipeline import program_error
from ottla.spark.pipeline.failure_policy import Failure, NextStep, judge
from ottla.spark.pipeline.user_errors import own_error, own_place

SPARK = (
    "[STREAM_FAILED] Query [id = 6] terminated with exception: [PYTHON_EXCEPTION] An exception was thrown from the "
    "Python worker: {} SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 6]\n"
)
IN_TASK = (
    "Traceback (most recent call last):\n"
    '  File "/home/me/fraud.py", line 9, in half\n'
    "    return str(100 // int(value))\n"
    "               ~~~~^^~~~~~~~~~~~\n"
    "{}\n"
)
INSTALLED = (
    "Traceback (most recent call last):\n"
    '  File "/v/lib/python3.11/site-packages/pyspark/worker.py", line 9, in main\n'
    "    process()\n"
    '  File "/home/me/fraud.py", line 7, in rate\n'
    "    return lookup(value)\n"
    '  File "/v/lib/python3.11/site-packages/rates/table.py", line 70, in lookup\n'
    "    raise LookupError(value)\n"
    "LookupError: EUR\n"
)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ZeroDivisionError: by zero", "ZeroDivisionError: by zero"),
        # Not every class is called so.
        ("fraud.Unknown: zero\nof two lines", "Unknown: zero"),
        ("Unknown", "Unknown"),
    ],
)
def test_an_error_in_a_task_is_told_with_its_line(line: str, reason: str) -> None:
    found = judge("StreamingQueryException", SPARK.format(IN_TASK.format(line)))
    assert found == Failure(NextStep.STOP, f"{reason} (fraud.py, line 9, in half)")


def test_the_users_line_is_told_and_not_that_of_a_library() -> None:
    assert own_error(SPARK.format(INSTALLED)) == "LookupError: EUR (fraud.py, line 7, in rate)"


def test_of_errors_that_follow_each_other_the_last_one_of_the_user_is_told() -> None:
    both = (
        IN_TASK.format("KeyError: 'x'")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + IN_TASK.format("ValueError: no rate")
        + "\n"
        + IN_TASK.format("pyspark.errors.PythonException: wrapped")
    )
    assert own_error(SPARK.format(both)) == "ValueError: no rate (fraud.py, line 9, in half)"


def test_what_was_judged_before_is_not_judged_again() -> None:
    """With the low-latency engine the micro-batch's error is told to Spark in one line."""
    reason = "KeyError: 'x' (fraud.py, line 9, in half)"
    text = SPARK.format(
        IN_TASK.format(f"ottla.spark.pipeline.failure_policy.PipelineError: {reason}")
    )
    assert judge("StreamingQueryException", text).reason == reason


def test_what_is_no_traceback_has_no_line() -> None:
    assert own_error("[UNRESOLVED_COLUMN] no column `amount`") is None


def test_a_failure_has_its_line_once_and_only_if_it_is_final() -> None:
    final = Failure(NextStep.STOP, "no column x")
    assert final.at("fraud.py, line 3").reason == "no column x (fraud.py, line 3)"
    assert final.at("fraud.py, line 3").at("fraud.py, line 3") == final.at("fraud.py, line 3")
    assert final.at(None) is final
    passing = Failure(NextStep.RESTART, "away")
    assert passing.at("fraud.py, line 3") is passing


def test_an_error_of_a_program_is_told_with_its_line(tmp_path: Path) -> None:
    program = tmp_path / "fraud.py"
    program.write_text("def clean():\n    return {}['silver']\n\n\nclean()\n")
    with pytest.raises(KeyError) as caught:
        runpy.run_path(str(program))
    assert own_place(caught.value) == "fraud.py, line 2, in clean"
    assert str(program_error(caught.value, "-v shows more")) == (
        "KeyError: 'silver' (fraud.py, line 2, in clean): -v shows more"
    )


def test_a_program_that_needs_a_session_too_early_is_told_what_to_do() -> None:
    error = RuntimeError("[SESSION_OR_CONTEXT_NOT_EXISTS] SparkSession should be created first.")
    assert "make that in transform" in str(program_error(error, "-v shows more"))
