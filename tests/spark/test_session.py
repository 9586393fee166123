"""Settings of Spark sessions: ours where nobody says otherwise."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.spark.runtime.session import (
    FAST_LOCAL_CHECKPOINTS,
    SOCKET_FOLDER_SETTING,
    SOCKETS_SETTING,
    defaults,
    is_local,
    is_on_this_machine,
    master_with,
    set_python,
    settings_elsewhere,
    socket_settings,
)
from ottla.worker_python import CHOSEN, VARIABLE

CHOSEN_BY_IMPORT = {VARIABLE: sys.executable, CHOSEN: sys.executable}


@pytest.mark.parametrize(
    ("master", "local", "here"),
    [
        ("local", True, True),
        ("local[*]", True, True),
        ("local[2,4]", True, True),
        ("local-cluster[2,1,1024]", False, True),
        ("spark://127.0.0.1:7077", False, False),
        ("yarn", False, False),
    ],
)
def test_which_masters_are_on_this_machine(master: str, local: bool, here: bool) -> None:
    assert (is_local(master), is_on_this_machine(master)) == (local, here)


def test_checkpoints_on_local_files_are_written_the_fast_way() -> None:
    for checkpoint in ("checkpoint", "/data/checkpoint", "file:///data/checkpoint", None):
        found = defaults("fraud", "local[2]", checkpoint)
        assert FAST_LOCAL_CHECKPOINTS.items() <= found.items()


@pytest.mark.parametrize(
    ("master", "checkpoint"),
    [("local[2]", "s3a://bucket/checkpoint"), ("spark://host:7077", "hdfs:///checkpoint")],
)
def test_other_checkpoints_are_left_to_spark(master: str, checkpoint: str) -> None:
    assert not FAST_LOCAL_CHECKPOINTS.keys() & defaults("fraud", master, checkpoint).keys()


def test_a_local_stream_is_shuffled_over_its_cores() -> None:
    assert defaults("fraud", "local[*]", None, cores=3)["spark.sql.shuffle.partitions"] == "3"
    assert "spark.sql.shuffle.partitions" not in defaults("fraud", "yarn", None)


def test_what_the_user_set_for_every_program_is_known(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# mine\nspark.master            spark://host:7077\nspark.ui.enabled true\nspark.x=1\n",
        encoding="utf-8",
    )
    found = settings_elsewhere(
        {
            "SPARK_CONF_DIR": str(tmp_path),
            "PYSPARK_SUBMIT_ARGS": "--conf 'spark.x=a b=c' --master local[3] pyspark-shell",
        },
        Path("/nowhere"),
    )
    assert found == {"spark.master": "local[3]", "spark.ui.enabled": "true", "spark.x": "a b=c"}


def test_without_settings_of_the_user_nothing_is_known(tmp_path: Path) -> None:
    assert settings_elsewhere({}, tmp_path) == {}


@pytest.mark.parametrize(
    ("environment", "settings", "python"),
    [
        ({}, {}, sys.executable),
        ({"PYSPARK_PYTHON": "mine"}, {}, "mine"),
        ({}, {"spark.pyspark.python": "mine"}, "mine"),
        ({"PYSPARK_PYTHON": "other"}, {"spark.pyspark.python": "mine"}, "mine"),
        ({}, {"spark.archives": "environment.tar.gz#environment"}, None),
        (CHOSEN_BY_IMPORT, {}, sys.executable),
        (CHOSEN_BY_IMPORT, {"spark.archives": "environment.tar.gz#environment"}, None),
        ({"PYSPARK_PYTHON": sys.executable}, {"spark.archives": "models.zip"}, sys.executable),
    ],
)
def test_workers_run_this_python_unless_the_user_names_another(
    environment: dict[str, str], settings: dict[str, str], python: str | None
) -> None:
    environment = dict(environment)
    set_python(environment, settings)
    assert environment.get("PYSPARK_PYTHON") == python


@pytest.mark.parametrize(
    ("first", "given", "python"),
    [
        ("import ottla", None, sys.executable),
        ("import ottla.spark", None, sys.executable),
        ("from ottla.errors import ConfigError", "", sys.executable),
        ("import ottla", "/opt/python", "/opt/python"),
    ],
)
def test_importing_anything_of_ottla_makes_workers_run_this_python(
    first: str, given: str | None, python: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if "PYSPARK" not in name}
    if given is not None:
        environment["PYSPARK_PYTHON"] = given
    program = (
        f"{first}; import os, sys; print(os.environ['PYSPARK_PYTHON'], 'pyspark' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == [python, "False"]


def test_sockets_are_in_a_folder_that_others_cannot_enter() -> None:
    settings = socket_settings()
    assert settings[SOCKETS_SETTING] == "true"
    assert stat.S_IMODE(Path(settings[SOCKET_FOLDER_SETTING]).stat().st_mode) == 0o700
    assert socket_settings() == settings


def test_the_folder_goes_with_the_process_that_made_it() -> None:
    program = """
import os, sys
from ottla.spark.runtime.session import SOCKET_FOLDER_SETTING, socket_settings

folder = socket_settings()[SOCKET_FOLDER_SETTING]
if not os.fork():
    sys.exit()
os.wait()
print(folder, os.path.isdir(folder))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    folder, was_there = done.stdout.split()
    assert was_there == "True"
    assert not Path(folder).exists()


@pytest.mark.parametrize(("length", "fits"), [(39, True), (40, False)])
def test_where_names_of_sockets_would_be_too_long_spark_stays_with_tcp(
    length: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/" + (length - 1) * "x")
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: str(tmp_path / "sockets"))
    assert bool(socket_settings.__wrapped__()) is fits


def test_where_spark_will_run_is_known_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert master_with({}) == "local[*]"
    (tmp_path / "spark-defaults.conf").write_text("spark.master spark://defaults:7077\n")
    assert master_with({}) == "spark://defaults:7077"
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(master="local[2]"))
    assert master_with({}) == "local[2]"
    # That it cannot be, another one tells.
    assert master_with({"spark.master": "spark://given:7077"}) == "spark://given:7077"
