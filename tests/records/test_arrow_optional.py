"""pyarrow is an extra: without it everything else works, and what needs it says so."""

import os
import subprocess
import sys

import pytest
from tests.records.arrow_kernels import COMPILED

WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None  # as if it were not installed
import ottla
import ottla.aio
ottla.Producer, ottla.Consumer, ottla.Admin, ottla.Broker
from ottla.records import arrow_kernel
try:
    from ottla.records import arrow
except ImportError as error:
    print(error)
"""


def test_without_pyarrow_only_arrow_columns_are_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_PYARROW],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout == "Arrow columns need pyarrow: pip install 'ottla[arrow]'\n"


def test_pyarrow_is_not_imported_before_it_is_needed() -> None:
    program = (
        "import sys, ottla, ottla.aio; ottla.Producer, ottla.Consumer, ottla.Broker;"
        "from ottla.records import arrow_kernel; print('pyarrow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(("pure", "compiled"), [("1", False), ("0", COMPILED is not None)])
def test_the_environment_chooses_the_kernel(pure: str, compiled: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from ottla.records import arrow_kernel as k; print(k.COMPILED)"],
        env={**os.environ, "OTTLA_PURE": pure},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == str(compiled)
