"""The files of the page: what is vendored is what was distributed, and every import leads somewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from ottla.console.http.page_files import FOLDER

VENDOR = FOLDER / "vendor"
MODULES = sorted(FOLDER.joinpath("app").rglob("*.js"))
IMPORT = re.compile(
    r"""^(?:import\b[^"'`;]*|export\b[^"'`;=]*\bfrom\s*)["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']""",
    re.MULTILINE,
)


def test_vendored_files_are_those_of_the_list() -> None:
    lines = (VENDOR / "checksums.txt").read_text().splitlines()
    listed = {name: checksum for checksum, name in (line.split("  ") for line in lines)}
    ours = {"README.md", "checksums.txt", "preact.js"}
    found = {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file()}
    assert found - ours == set(listed)
    for name, checksum in listed.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == checksum, name


def test_every_vendored_package_has_its_licence() -> None:
    for folder in VENDOR.iterdir():
        assert not folder.is_dir() or (folder / "LICENSE").is_file(), folder


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_imports_of_a_module_lead_to_files(module: Path) -> None:
    for found in IMPORT.findall(module.read_text(encoding="utf-8")):
        name = "".join(found)
        assert name.startswith("."), f"{name}: a page without a build has relative imports only"
        assert (module.parent / name).resolve().is_file(), name


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_no_module_makes_html_of_text(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    forbidden = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
    assert not [name for name in forbidden if name in text]
