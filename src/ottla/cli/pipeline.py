"""`ottla pipeline run`: runs a program that creates a Pipeline, and keeps it running."""

from __future__ import annotations

import contextlib
import logging
import os
import runpy
import signal
import sys
import time
import warnings
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import CommandError
from ottla.cli.terminal.progress import Terminal
from ottla.errors import ConfigError, OttlaError
from ottla.spark.pipeline.run_overrides import Run, begin
from ottla.spark.pipeline.user_errors import one_line, own_place
from ottla.spark.runtime.requirement import SparkMissingError, require_spark
from ottla.spark.runtime.session import remove_sockets

if TYPE_CHECKING:
    from ottla.spark.pipeline.failure_policy import DriverLostError
    from ottla.spark.pipeline.pipeline import Pipeline
    from ottla.spark.pipeline.progress_report import Progress

# How often a driver died without a micro-batch in between; passed to the new process in its environment.
_DEATHS: Final = "OTTLA_PIPELINE_DEATHS"
_LONGEST_PAUSE_SECONDS: Final = 60
_MORE: Final = "-v shows the whole trace"
_NO_SESSION: Final = "[SESSION_OR_CONTEXT_NOT_EXISTS]"
_NO_SESSION_YET: Final = (
    "Spark starts when the pipeline runs: make that in transform, or give types of UDFs as StringType() and "
    "not as text"
)


class _Stopped(BaseException):
    """SIGTERM arrived."""


def run(arguments: Arguments) -> int:
    """Runs until the pipeline ends or a signal stops it; returns 0."""
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    # Py4J logs every message to Java, and a traceback for each attempt to reach a Java that is gone. Its errors are
    # raised too, and reported in one line.
    logging.getLogger("py4j").setLevel(logging.WARNING if arguments.verbose else logging.CRITICAL)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_is_not_from_py4j)
    if not arguments.verbose:
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        quieten(os.environ)
    try:
        require_spark()
    except SparkMissingError as error:
        raise OttlaError(str(error)) from error
    from ottla.spark.pipeline.failure_policy import DriverLostError

    if not arguments.verbose:
        _quieten_contexts()
    watch = _Watch()
    signal.signal(signal.SIGTERM, _stop)
    try:
        try:
            begin(_run_of(arguments, watch))
            run_program(arguments.program, arguments.of_program)
        except DriverLostError as error:
            _restart_process(watch, error)
        except (OttlaError, BrokenPipeError):
            raise
        except Exception as error:
            raise program_error(error, "" if arguments.verbose else _MORE) from error
        watch.finished("ended")
    except (KeyboardInterrupt, _Stopped):
        watch.finished("stopped")
    return 0


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    """Whether a log record is not Py4J's, which writes some to the root logger."""
    return Path(record.pathname).parent.name != "py4j"


def quieten(environment: MutableMapping[str, str]) -> None:
    """Let Spark's Java log errors only, from its first line on, unless the user has configured its log."""
    if "SPARK_CONF_DIR" in environment or "log4j" in environment.get("SPARK_SUBMIT_OPTS", ""):
        return
    file = Path(__file__).parent / "spark-log4j2.properties"
    before = environment.get("SPARK_SUBMIT_OPTS", "")
    environment["SPARK_SUBMIT_OPTS"] = (
        f"{before} -Dlog4j2.configurationFile={file.as_uri()}".strip()
    )


def _quieten_contexts() -> None:
    """Keep PySpark from logging each DataFrame error as a page of JSON besides raising it."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def program_error(error: Exception, advice: str) -> CommandError:
    """An error of the user's program: its text, its line in the program, and advice."""
    if _NO_SESSION in str(error):
        advice = _NO_SESSION_YET
    return CommandError(one_line(type(error).__name__, str(error), own_place(error)), advice)


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _run_of(arguments: Arguments, watch: _Watch) -> Run:
    settings = {}
    for text in arguments.settings:
        name, separator, value = text.partition("=")
        if not separator:
            raise ConfigError(f"--conf {text} has no value: write --conf NAME=VALUE")
        settings[name.strip()] = value.strip()
    return Run(
        master=arguments.master,
        bootstrap_servers=arguments.bootstrap_server,
        settings=settings,
        goes_on=_DEATHS in os.environ,
        on_progress=watch.progress,
        on_start=watch.started,
        tell=watch.say,
    )


def run_program(program: str, arguments: Sequence[str] = ()) -> None:
    """Run a file or module as the main program, and then its pipeline unless it has run one itself."""
    from ottla.spark.pipeline.run_overrides import overrides

    place, name = split_program(program)
    sys.argv = [place, *arguments]
    path = Path(place)
    if path.suffix == ".py" or path.exists():
        if not path.is_file():
            raise ConfigError(f"{place} is not a file")
        folder = str(path.resolve().parent)
        sys.path.insert(0, folder)
        # Tasks on this machine find the same modules.
        paths = [folder, os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(each for each in paths if each)
        found = runpy.run_path(place, run_name="__main__")
    else:
        sys.path.insert(0, os.getcwd())
        found = _run_module(place)
    noted = overrides()
    if noted.ran and name is not None:
        raise ConfigError(
            f"{place} runs a pipeline by itself, so that {name} is not run: leave out :{name}, or the call of run()"
        )
    if not noted.ran:
        choose(program, name, found, noted.offered).run()


def _run_module(name: str) -> dict[str, Any]:
    import importlib.util

    try:
        known = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        known = False
    if not known:
        raise ConfigError(f"{name} is neither a file nor a module: give a file that ends with .py")
    return runpy.run_module(name, run_name="__main__", alter_sys=True)


def split_program(program: str) -> tuple[str, str | None]:
    """A file or module, and the name of a variable in it if one is given."""
    place, separator, name = program.rpartition(":")
    if separator and place and name.isidentifier():
        return place, name
    return program, None


def choose(
    program: str, name: str | None, found: Mapping[str, Any], offered: Sequence[Pipeline]
) -> Pipeline:
    """The pipeline to run, of those that a program has created."""
    from ottla.spark.pipeline.pipeline import Pipeline

    if name is not None:
        chosen = found.get(name)
        if not isinstance(chosen, Pipeline):
            raise ConfigError(f"{program}: there is no Pipeline in the variable {name}")
        return chosen
    if not offered:
        raise ConfigError(f"{program} makes no Pipeline: from ottla.spark import Pipeline")
    if len(offered) > 1:
        names = [each for each, value in found.items() if isinstance(value, Pipeline)]
        raise ConfigError(
            f"{program} makes {len(offered)} pipelines: choose one, as in {program}:{(names or ['NAME'])[0]}, or let "
            "the program call run()"
        )
    return offered[0]


class _Watch:
    """Shows the progress of a pipeline on the terminal."""

    def __init__(self) -> None:
        self._terminal = Terminal()
        self._name = "pipeline"
        self._rows = 0
        self._is_idle = False

    def say(self, text: str) -> None:
        self._terminal.say(f"{self._name}: {text}")

    def finished(self, how: str) -> None:
        self.say(f"{how} after {self._rows:,} records" if self._rows else how)

    def started(self, pipeline: Pipeline) -> None:
        self._name = pipeline.name
        source = pipeline.source if isinstance(pipeline.source, str) else "its source"
        self.say(f"{source} → {pipeline.sink} on {pipeline.servers}; starting")

    def progress(self, progress: Progress) -> None:
        os.environ.pop(_DEATHS, None)
        self._rows += progress.input_rows
        was_idle, self._is_idle = self._is_idle, not progress.input_rows
        if was_idle and self._is_idle:
            return
        lag = "" if progress.lag is None else f", lag {progress.lag:,}"
        if self._is_idle:
            # An idle report has the number of the next micro-batch.
            self._terminal.show(f"{self._name}: waiting for records, {self._rows:,} so far{lag}")
            return
        self._terminal.show(
            f"{self._name}: batch {progress.batch}, {self._rows:,} records so far, "
            f"{progress.rows_per_second:,.0f}/s, {progress.duration_ms} ms{lag}"
        )


def _restart_process(watch: _Watch, error: DriverLostError) -> None:
    """Replace this process: one whose Java died cannot start another. All progress is stored."""
    # Spark's handler would call the Java that is gone.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    deaths = int(os.environ.get(_DEATHS, "0"))
    if error.max_restarts is not None and deaths >= error.max_restarts:
        raise error
    pause = min(2**deaths, _LONGEST_PAUSE_SECONDS)
    watch.say(f"{error}; a new driver starts in {pause} s")
    time.sleep(pause)
    os.environ[_DEATHS] = str(deaths + 1)
    _reap_children()
    remove_sockets()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _reap_children() -> None:
    """Wait for dead child processes, which would remain as zombies."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
