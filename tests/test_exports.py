"""What `ottla` exports: quickly imported, complete, and the same for type checkers."""

from __future__ import annotations

import ast
import pydoc
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import ottla
from ottla.names import ADMIN_NAMES, MOVED, NAMES

HOMES = {name: home for home, names in NAMES.items() for name in names.split()}
STUB = Path(ottla.__file__).with_suffix(".pyi")


@pytest.mark.parametrize("name", sorted(HOMES))
def test_a_name_is_what_its_module_has(name: str) -> None:
    assert getattr(ottla, name) is getattr(import_module(HOMES[name]), name)


def test_type_checkers_see_the_same_names_in_the_same_modules() -> None:
    seen = {
        alias.name: node.module
        for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module != "ottla"
        for alias in node.names
    }
    assert seen == HOMES


def test_every_error_is_exported() -> None:
    errors = import_module("ottla.errors")
    own = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.OttlaError)
    }
    assert own <= set(HOMES)


def test_dir_and_help_show_what_there_is() -> None:
    assert {"Producer", "Consumer", "Admin", "Broker", "admin", "aio", "assignors"} <= set(
        dir(ottla)
    )
    page = pydoc.render_doc(ottla, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    assert "class Producer" in page
    assert "class Consumer" in page


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Produzer'"):
        ottla.Produzer  # type: ignore[attr-defined]  # noqa: B018


def test_the_admin_model_is_in_a_module_of_its_own() -> None:
    assert set(ADMIN_NAMES.split()) <= set(ottla.admin.__all__)
    assert all(hasattr(ottla.admin, name) for name in ottla.admin.__all__)
    assert not set(MOVED) & set(dir(ottla))


@pytest.mark.parametrize("name", sorted(MOVED))
def test_a_name_that_has_moved_works_and_says_what_to_write(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"write {MOVED[name]}$") as seen:
        value = getattr(ottla, name)
    assert seen[0].filename == __file__
    home, _, new_name = MOVED[name].rpartition(".")
    assert value is getattr(import_module(home), new_name)


def test_an_import_of_a_name_that_has_moved_warns_of_the_line_that_imports() -> None:
    with pytest.warns(DeprecationWarning, match=r"write ottla\.admin\.NewTopic") as seen:
        exec(compile("from ottla import NewTopic", "program.py", "exec"), {})
    assert [warning.filename for warning in seen] == ["program.py"] * len(seen)


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import ottla", ["asyncio", "ssl", "ottla.errors", "ottla.client", "ottla.broker"]),
        ("import ottla; ottla.Consumer", ["ottla.broker", "ottla.storage"]),
        ("import ottla; ottla.admin.NewTopic", ["ottla.broker", "ottla.client.aio"]),
        ("import ottla; ottla.Broker", ["ottla.client.aio", "ottla.client.blocking"]),
    ],
)
def test_only_what_is_used_is_imported(program: str, absent: list[str]) -> None:
    check = f"import sys; print([name for name in {absent} if name in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", f"{program}; {check}"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
