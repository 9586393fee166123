"""Both of the client's record kernels, for the tests of this folder."""

import importlib
from types import ModuleType
from typing import Any

import pytest

from ottla.records import _client_kernel_py

NO_LIMIT = 2**31


def _compiled() -> ModuleType | None:
    try:
        return importlib.import_module("ottla.records._client_kernel")
    except ImportError:
        return None


COMPILED = _compiled()
both_kernels = pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(_client_kernel_py, id="pure"),
        pytest.param(
            COMPILED,
            id="compiled",
            marks=pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built"),
        ),
    ],
)
compiled_needed = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")


def size_of(field: bytes | None) -> int:
    return -1 if field is None else len(field)


def outcome(call: Any, *arguments: object, **options: object) -> object:
    """What a call gave: its result, or its error's type and text."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        return type(error), str(error)
