"""Settings of Spark sessions: ours where nobody says otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.spark.session import (
    FAST_LOCAL_CHECKPOINTS,
    defaults,
    is_local,
    is_on_this_machine,
    set_python,
    settings_elsewhere,
)


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
    ],
)
def test_workers_run_this_python_unless_the_user_names_another(
    environment: dict[str, str], settings: dict[str, str], python: str | None
) -> None:
    set_python(environment, settings)
    assert environment.get("PYSPARK_PYTHON") == python
