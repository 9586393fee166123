"""`ottla demo` as people see it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.spark.sessions import needs_spark

RUN_SECONDS = 280


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_demo_kills_a_pipeline_and_finds_every_order_once() -> None:
    needs_spark()
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "demo", "--records", "15000"],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert "kill -9" in done.stdout
    assert lines["in"] == "15,000 orders"
    assert lines["out"].startswith("15,000 receipts")
    assert (lines["lost"], lines["duplicated"]) == ("0", "0")
    committed = re.match(r"(\d+) transactions", lines["committed"])
    assert committed is not None
    assert int(committed[1]) >= 3
    assert lines["verdict"].startswith("exactly once")
