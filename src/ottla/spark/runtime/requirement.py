"""Checks that PySpark and pyarrow are installed, with a message that says what to install."""

from __future__ import annotations

import re
from importlib import import_module
from types import ModuleType
from typing import Final

# The first release with latestOffset(start, limit), reportLatestOffset and Trigger.AvailableNow in Python.
LEAST_SPARK: Final = (4, 2)
INSTALL: Final = "pip install 'ottla[spark]'"


class SparkMissingError(ImportError):
    """PySpark or pyarrow is not installed, or too old."""


def require_spark() -> None:
    """Raise SparkMissingError unless PySpark 4.2 or later and pyarrow are installed."""
    pyspark = _module("pyspark")
    _module("pyarrow")
    version = str(getattr(pyspark, "__version__", ""))
    if version_of(version) < LEAST_SPARK:
        least = ".".join(map(str, LEAST_SPARK))
        raise SparkMissingError(
            f"ottla.spark needs PySpark {least} or later, and {version} is installed: {INSTALL}"
        )


def version_of(text: str) -> tuple[int, int]:
    """The first two numbers of a version: (4, 2) of 4.2.0.dev1; (0, 0) if there are none."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise SparkMissingError(f"ottla.spark needs {name}: {INSTALL} ({error})") from error
