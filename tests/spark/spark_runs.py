"""Runs of the Spark program in a process of its own, and what has to be true of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.spark.pipelines import Pipe
from tests.spark.program import CRASH

from ottla.spark.offsets import SourceOffset

RUN_SECONDS = 200.0


def run_spark(
    pipe: Pipe, crash: Sequence[Any] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run the program to its end; `crash` is (step, visit, die or go on)."""
    settings = {
        "servers": pipe.servers,
        "source": pipe.source,
        "sink": pipe.sink,
        "pipeline": pipe.name,
        "checkpoint": str(checkpoint_of(pipe)),
        "read": {"pipeline": pipe.name},
        **more,
    }
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop(CRASH, None)
    if crash is not None:
        environment[CRASH] = json.dumps([*crash, str(pipe.folder)])
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.program", json.dumps(settings)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def checkpoint_of(pipe: Pipe) -> Path:
    return pipe.folder / "checkpoint"


def finish(pipe: Pipe, **more: Any) -> None:
    """Run the program to its end; on a busy machine Spark gives up on Python workers that are slow to start."""
    for _ in range(3):
        run = run_spark(pipe, **more)
        if "failed to connect back" not in run.stdout:
            break
    assert run.returncode == 0, run.stdout + run.stderr[-4000:]
    assert "done" in run.stdout


def crash(pipe: Pipe, point: str, visit: int, deed: str, **more: Any) -> None:
    """Run the program until it is killed at that step; see `finish` for why it may need several runs."""
    for _ in range(3):
        run = run_spark(pipe, crash=(point, visit, deed), **more)
        assert run.returncode != 0, run.stdout
        if "failed to connect back" not in run.stdout:
            break
    wait_until(pipe, "died" if deed == "die" else "woke")


def wait_until(pipe: Pipe, name: str) -> None:
    """Until a file is there that the dying driver makes."""
    deadline = time.monotonic() + 30
    while not (pipe.folder / name).exists():
        assert time.monotonic() < deadline, f"no {name}"
        time.sleep(0.05)


def check_agreement(pipe: Pipe) -> None:
    """Output, offsets and marker are of the same transaction: whole micro-batches, each record once."""
    marker, offsets, values = pipe.marker(), pipe.group_offsets(), pipe.output()
    if marker is None:
        assert offsets == {}
        assert values == []
        return
    planned = (checkpoint_of(pipe) / "offsets" / str(marker.batch)).read_text().splitlines()
    end = SourceOffset.from_json(json.loads(planned[2]))
    assert offsets == {each.partition: at for each, at in end.offsets.items()}
    seen = Counter(int(value.split()[1]) for value in values)
    assert seen == Counter(pipe.inputs_before(offsets))


def all_through(pipe: Pipe) -> None:
    """Every record of the source is in the output, once."""
    check_agreement(pipe)
    assert Counter(int(value.split()[1]) for value in pipe.output()) == Counter(range(pipe.count))
