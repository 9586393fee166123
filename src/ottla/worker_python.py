"""Which Python the workers of Spark run.

Spark starts its workers with PYSPARK_PYTHON, or without it with the first python3 of the PATH. In a program that was
started as `venv/bin/python program.py` that is another Python, without this package: DATA_SOURCE_NOT_FOUND.
"""

import sys
from collections.abc import MutableMapping

VARIABLE = "PYSPARK_PYTHON"
# Says that the value is ours, also to processes that this one starts.
CHOSEN = "OTTLA_PYSPARK_PYTHON"


def choose_this_python(environment: MutableMapping[str, str]) -> None:
    """Let workers run the Python of this process, unless the user has named one."""
    if sys.executable and not environment.get(VARIABLE):
        environment[VARIABLE] = environment[CHOSEN] = sys.executable


def withdraw_choice(environment: MutableMapping[str, str]) -> None:
    """Leave the choice to Spark again; what the user has named stays."""
    chosen = environment.pop(CHOSEN, None)
    if chosen is not None and environment.get(VARIABLE) == chosen:
        del environment[VARIABLE]
