"""The Python that Spark's workers run.

Spark starts its workers with PYSPARK_PYTHON, else with the first python3 of the PATH. For a program that was
started as `venv/bin/python program.py` that is another Python, without this package: DATA_SOURCE_NOT_FOUND.
"""

import sys
from collections.abc import MutableMapping

VARIABLE = "PYSPARK_PYTHON"
# Marks the value as ours, also for child processes.
CHOSEN = "OTTLA_PYSPARK_PYTHON"


def choose_this_python(environment: MutableMapping[str, str]) -> None:
    """Have workers run the Python of this process, unless the user has set PYSPARK_PYTHON."""
    if sys.executable and not environment.get(VARIABLE):
        environment[VARIABLE] = environment[CHOSEN] = sys.executable


def withdraw_choice(environment: MutableMapping[str, str]) -> None:
    """Undo `choose_this_python`; a value that the user has set stays."""
    chosen = environment.pop(CHOSEN, None)
    if chosen is not None and environment.get(VARIABLE) == chosen:
        del environment[VARIABLE]
