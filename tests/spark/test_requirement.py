"""What people are told who have no Spark, or an old one."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

import ottla.spark
from ottla.spark.runtime.requirement import SparkMissingError, require_spark, version_of


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
@pytest.mark.parametrize("use", ["from ottla.spark import OttlaDataSource", "import pyspark_ottla"])
def test_without_spark_a_message_says_what_to_install(missing: str, use: str) -> None:
    modules = {"pyspark": "sys.modules['pyspark'].__version__ = '4.2.0'"}
    present = {"pyspark": "pyarrow", "pyarrow": "pyspark"}[missing]
    program = (
        f"import sys, types; sys.modules[{missing!r}] = None\n"
        f"sys.modules[{present!r}] = types.ModuleType({present!r})\n"
        f"{modules.get(present, '')}\n{use}\n"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 1
    last = ran.stderr.strip().splitlines()[-1]
    assert f"ottla.spark needs {missing}: pip install 'ottla[spark]'" in last


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [("3.5.1", False), ("4.1.9", False), ("4.2.0.dev1", True), ("4.10.0", True), ("", False)],
)
def test_an_old_spark_is_refused(
    monkeypatch: pytest.MonkeyPatch, version: str, is_enough: bool
) -> None:
    pyspark = types.ModuleType("pyspark")
    pyspark.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", pyspark)
    monkeypatch.setitem(sys.modules, "pyarrow", types.ModuleType("pyarrow"))
    if is_enough:
        require_spark()
    else:
        with pytest.raises(SparkMissingError, match=r"needs PySpark 4\.2 or later"):
            require_spark()


def test_versions_are_compared_as_numbers() -> None:
    assert version_of("4.10.1") > version_of("4.9.0")


def test_an_unknown_name_is_told_as_everywhere() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ottla.spark.nothing
    assert "OttlaDataSource" in dir(ottla.spark)
