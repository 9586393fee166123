"""One way to say "no error" in core."""

from __future__ import annotations

import ast
from pathlib import Path

import ottla.core
from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode

CORE = Path(ottla.core.__file__).parent


def test_a_refusal_has_a_text_of_its_own_or_that_of_its_error() -> None:
    assert Refused(ErrorCode.INVALID_RECORD, "no key").text == "no key"
    assert Refused(ErrorCode.INVALID_RECORD).text == ErrorCode.INVALID_RECORD.text


def test_the_outcome_of_a_check_has_an_error_code() -> None:
    assert error_of(None) is ErrorCode.NONE
    assert error_of(Refused(ErrorCode.NOT_COORDINATOR)) is ErrorCode.NOT_COORDINATOR


def test_the_error_code_none_is_not_used_in_core() -> None:
    """Rules return `Refused | None`, or types with names; only `error_of` knows the number of the wire format."""
    found = [
        f"{path.relative_to(CORE)}:{node.lineno}"
        for path in sorted(CORE.rglob("*.py"))
        if path.name != "outcomes.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr == "NONE"
        and isinstance(node.value, ast.Name)
        and node.value.id == "ErrorCode"
    ]
    assert found == []


def test_rules_return_refusals_and_no_bare_error_codes() -> None:
    found = [
        f"{path.relative_to(CORE)}:{node.lineno} {node.name}"
        for path in sorted(CORE.rglob("*.py"))
        if path.name != "outcomes.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and "ErrorCode" in ast.unparse(node.returns)
    ]
    assert found == []
