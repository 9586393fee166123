"""Spark sessions with defaults for streaming on one machine; the user's settings win."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ottla.config import properties
from ottla.errors import ConfigError
from ottla.spark.runtime.java import find_java
from ottla.spark.runtime.requirement import require_spark
from ottla.worker_python import choose_this_python, withdraw_choice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*]"

# Only for checkpoints on local files: for other stores Spark's own choice renames atomically.
FAST_LOCAL_CHECKPOINTS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
FILES_SETTING: Final = "spark.hadoop.fs.file.impl"
# Spark's progress bars would mix with our own lines.
NO_BARS: Final = {"spark.ui.showConsoleProgress": "false"}
QUIET: Final = {"spark.ui.enabled": "false"}
# A shuffle of a small stream in Spark's 200 partitions is 200 tasks and 200 state stores on two cores.
LOCAL: Final = {"spark.sql.shuffle.partitions": "{cores}"}

SOCKETS_SETTING: Final = "spark.python.unix.domain.socket.enabled"
SOCKET_FOLDER_SETTING: Final = "spark.python.unix.domain.socket.dir"
DAEMON_SETTING: Final = "spark.python.daemon.module"
# The longest name of a Unix socket that all systems accept (macOS has the lowest limit), and the length of Spark's own
# names: a dot, a UUID, ".sock".
_MAX_SOCKET_PATH: Final = 103
_SOCKET_NAME_LENGTH: Final = 42
_SOCKET_FOLDER_PREFIX: Final = "ottla-spark-"


def is_local(master: str) -> bool:
    """Whether driver and executors are one process on this machine."""
    return master == "local" or master.startswith("local[")


def is_on_this_machine(master: str) -> bool:
    """Whether driver and executors see the same files."""
    return is_local(master) or master.startswith("local-cluster[")


def is_local_path(location: str) -> bool:
    """Whether a checkpoint is on files of this machine."""
    return urlsplit(location).scheme in ("", "file")


def defaults(
    name: str, master: str, checkpoint: str | None, cores: int | None = None
) -> dict[str, str]:
    """The default settings of a session."""
    found = {"spark.app.name": name, "spark.master": master, **NO_BARS}
    if is_local(master):
        count = cores or os.cpu_count() or 1
        found |= {key: value.format(cores=count) for key, value in LOCAL.items()}
    if is_on_this_machine(master):
        found |= QUIET
        if checkpoint is None or is_local_path(checkpoint):
            found |= FAST_LOCAL_CHECKPOINTS
    return found


@cache
def socket_settings() -> dict[str, str]:
    """Settings that let Spark's Java and its Python processes talk through Unix sockets; empty where there are none.

    Spark's default is TCP, where Nagle's algorithm and delayed acknowledgements made every task with a Python worker
    wait for 40 ms: three quarters of the time of a small micro-batch.

    The folder is accessible to this user only, which replaces Spark's authentication secret. It is removed with this
    process.
    """
    longest = Path(
        tempfile.gettempdir(), _SOCKET_FOLDER_PREFIX + 8 * "x", _SOCKET_NAME_LENGTH * "x"
    )
    if not hasattr(socket, "AF_UNIX") or len(bytes(longest)) > _MAX_SOCKET_PATH:
        return {}
    folder = tempfile.mkdtemp(prefix=_SOCKET_FOLDER_PREFIX)
    atexit.register(_remove_folder, folder, os.getpid())
    return {
        SOCKETS_SETTING: "true",
        SOCKET_FOLDER_SETTING: folder,
        DAEMON_SETTING: "ottla.spark.runtime.daemon",
    }


def _remove_folder(folder: str, owner: int) -> None:
    # Not in a forked child. Java may be removing its own files at the same time.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def remove_sockets() -> None:
    """Remove the folder before this process executes another program, which makes its own."""
    if socket_settings.cache_info().currsize and (
        folder := socket_settings().get(SOCKET_FOLDER_SETTING)
    ):
        shutil.rmtree(folder, ignore_errors=True)


def settings_elsewhere(environment: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """The user's settings for every program: spark-defaults.conf and PYSPARK_SUBMIT_ARGS."""
    folder = Path(environment.get("SPARK_CONF_DIR") or spark_home / "conf")
    file = folder / "spark-defaults.conf"
    found = properties.load(file) if file.is_file() else {}
    return found | _submitted(environment.get("PYSPARK_SUBMIT_ARGS", ""))


def _submitted(arguments: str) -> dict[str, str]:
    """The settings in arguments of spark-submit."""
    found = {}
    words = shlex.split(arguments)
    for word, value in pairwise(words):
        if word == "--master":
            found["spark.master"] = value
        if word in ("--conf", "-c") and "=" in value:
            key, _, text = value.partition("=")
            found[key] = text
    return found


def set_python(environment: MutableMapping[str, str], settings: Mapping[str, str]) -> None:
    """Make workers run this Python: otherwise they run the first on the PATH, which may lack our packages.

    With an environment that is shipped to the executors, the user names its Python. Only spark-submit reads the setting
    spark.pyspark.python; a session that is started from Python needs the variable.
    """
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if "spark.pyspark.python" in settings:
        environment["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    elif "spark.archives" in settings:
        withdraw_choice(environment)
    else:
        choose_this_python(environment)


def start_session(
    name: str,
    *,
    master: str | None = None,
    checkpoint: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session for streams; the active one if there is one.

    `master` and `settings` win over spark-defaults.conf and the arguments of spark-submit, and those over our defaults.
    """
    require_spark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    given = dict(settings or {})
    refuse_connect(given)
    if master is not None:
        given["spark.master"] = master
    if SparkContext._active_spark_context is not None:
        return _active(SparkSession.builder.getOrCreate(), given)
    known = _known_to_spark() | given
    chosen = defaults(name, known.get("spark.master", DEFAULT_MASTER), checkpoint) | known
    set_python(os.environ, chosen)
    if is_on_this_machine(chosen["spark.master"]) and SOCKETS_SETTING not in chosen:
        chosen = socket_settings() | chosen
    require_java()
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if is_on_this_machine(chosen["spark.master"]) and FILES_SETTING not in chosen:
        _write_no_checksums(session)
    if "spark.log.level" not in chosen:
        session.sparkContext.setLogLevel("ERROR")
    return session


def master_with(settings: Mapping[str, str]) -> str:
    """The master that `start_session` would use with these settings."""
    from pyspark import SparkContext

    if "spark.master" in settings:
        return settings["spark.master"]
    if (active := SparkContext._active_spark_context) is not None:
        return str(active.master)
    return _known_to_spark().get("spark.master", DEFAULT_MASTER)


def refuse_connect(settings: Mapping[str, str]) -> None:
    """Refuse Spark Connect, where the driver is another process, without our code."""
    from pyspark import SparkContext
    from pyspark.util import default_api_mode, is_remote_only

    if not is_remote_only() and SparkContext._active_spark_context is not None:
        return
    mode = settings.get("spark.api.mode", os.environ.get("SPARK_API_MODE", "")).lower()
    if mode not in ("classic", "connect"):
        mode = default_api_mode()
    signs = {
        "the package pyspark-client": is_remote_only(),
        "the setting spark.remote": "spark.remote" in settings,
        "the variable SPARK_REMOTE": "SPARK_REMOTE" in os.environ,
        "an earlier session of Spark Connect": "SPARK_CONNECT_MODE_ENABLED" in os.environ,
        "the API mode connect": mode == "connect",
    }
    for sign, is_there in signs.items():
        if is_there:
            raise _needs_own_driver(sign)


def refuse_connect_session(spark: SparkSession) -> None:
    """Refuse a session of Spark Connect."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise _needs_own_driver("the session that was given")


def _needs_own_driver(sign: str) -> ConfigError:
    return ConfigError(
        f"a Pipeline runs in the process of Spark's driver, and {sign} means Spark Connect, where that is another one: "
        "run it without, as in ottla pipeline run --master spark://HOST:7077"
    )


def require_java() -> None:
    """Raise JavaMissingError, with advice, if Spark needs a Java and there is none."""
    if not _java_runs():
        find_java().set_in(os.environ)


def _active(session: SparkSession, given: Mapping[str, str]) -> SparkSession:
    """The active session, with those settings that can still be changed."""
    for name, value in given.items():
        found = session.conf.get(name, None)
        if found == value:
            continue
        if not session.conf.isModifiable(name):
            raise ConfigError(
                f"Spark is running already, with {name}={found}, so it cannot be {value}: stop that session first, or "
                "leave it out"
            )
        session.conf.set(name, value)
    return session


def _write_no_checksums(session: SparkSession) -> None:
    """Write local files without checksum files, which double the time of a small micro-batch.

    Not by setting another class for local files that writes none: S3A and others require Hadoop's own.
    """
    gateway, context = session.sparkContext._gateway, session.sparkContext._jsc
    assert gateway is not None
    local = gateway.jvm.org.apache.hadoop.fs.FileSystem.getLocal(context.hadoopConfiguration())
    local.setWriteChecksum(False)


def _java_runs() -> bool:
    """Whether Spark's Java is running: this process started it before, or spark-submit started this process."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _known_to_spark() -> dict[str, str]:
    from pyspark import SparkConf, SparkContext
    from pyspark.find_spark_home import _find_spark_home

    if _java_runs():
        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    return settings_elsewhere(os.environ, Path(_find_spark_home()))
