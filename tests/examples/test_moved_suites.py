"""The test suites of examples/testing that came from other kits run as their users run them: with pytest alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "testing"
RUN_SECONDS = 120


@pytest.mark.parametrize(
    ("path", "count", "needs"),
    [
        ("from_testcontainers/test_screening.py", 6, "confluent_kafka"),
        ("from_faststream/test_with_fakes.py", 5, "faststream"),
        ("from_faststream/test_with_broker.py", 8, "faststream"),
    ],
)
def test_a_moved_suite_passes(path: str, count: int, needs: str) -> None:
    pytest.importorskip(needs)
    suite = EXAMPLES / path
    # Without the settings of this project; warnings are errors all the same.
    arguments = ["-q", "-W", "error", "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, "--rootdir", str(suite.parent), str(suite)],
        cwd=suite.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path[1:]])},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout
