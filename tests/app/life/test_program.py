"""Finding the app of a program, and what is said if that fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.app.life.program import ProgramError, files_of_error, load, place_of, source_files
from ottla.app.life.source_watch import SourceWatch


class Shop:
    """Stands for the class of apps."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to which programs are written; what they import is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["from tests.app.life.test_program import Shop", *lines, ""]))
    return path


def find(program: str) -> Shop:
    return load(program, Shop, "Shop")


def error_of(program: str) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        find(program)
    return caught.value


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("billing1.py", "billing1:app"),
        ("billing2.py", "billing2"),
        ("billing3.py", "billing3.py:app"),
        ("deep/billing4.py", "deep/billing4.py:app"),
        ("shop5/billing.py", "shop5.billing:app"),
        ("billing6.py", "billing6:box.app"),
    ],
)
def test_a_module_or_a_file_is_imported(folder: Path, name: str, program: str) -> None:
    path = write(folder, name, "app = Shop()", "class box:", "    app = app")
    assert isinstance(find(program), Shop)
    assert os.path.realpath(path) in source_files()


def test_what_is_missing_is_said_in_one_sentence(folder: Path) -> None:
    write(folder, "program1.py", "shop = Shop()", "port = 80")
    assert str(error_of("nowhere:app")).startswith("there is no module nowhere")
    assert str(error_of("nowhere.at.all:app")).startswith("there is no module nowhere.at.all")
    assert str(error_of("nowhere.py:app")) == "nowhere.py: there is no such file"
    assert str(error_of("a/b:app")).startswith("a/b is neither a module nor a file")
    assert str(error_of("program1:app")) == "program1 has no app: did you mean program1:shop?"
    assert "program1:port is no Shop but of <class 'int'>" in str(error_of("program1:port"))
    assert "is no Shop but the class Shop" in str(error_of("program1:Shop"))


def test_a_module_with_none_or_several_asks_for_a_name(folder: Path) -> None:
    write(folder, "none1.py")
    write(folder, "two1.py", "a = Shop()", "b = Shop()")
    write(folder, "same1.py", "a = b = Shop()")
    assert str(error_of("none1")).startswith("none1 makes no Shop")
    assert str(error_of("two1")) == "two1 has several of class Shop: give two1:a or two1:b"
    assert isinstance(find("same1"), Shop)


def test_an_error_in_the_program_is_shown_with_the_users_frames_only(folder: Path) -> None:
    write(folder, "prices1.py", "def price():", "    return 1 / 0")
    write(folder, "failing1.py", "import prices1", "app = Shop()", "prices1.price()")
    error = error_of("failing1:app")
    assert str(error) == "failing1 cannot be imported: ZeroDivisionError: division by zero"
    places = [line for line in error.user_traceback.splitlines() if line.startswith("  File")]
    assert [("failing1.py" in line, "prices1.py" in line) for line in places] == [
        (True, False),
        (False, True),
    ]
    assert files_of_error(error.__cause__) == {
        os.path.realpath(folder / name) for name in ("failing1.py", "prices1.py")
    }


def test_a_missing_import_of_the_program_is_not_a_missing_program(folder: Path) -> None:
    write(folder, "importing1.py", "import no_such_package")
    error = error_of("importing1:app")
    assert "importing1 cannot be imported: ModuleNotFoundError" in str(error)
    assert "import no_such_package" in error.user_traceback
    write(folder, "package1/__init__.py", "import no_such_package")
    write(folder, "package1/billing.py", "app = Shop()")
    assert "No module named 'no_such_package'" in str(error_of("package1.billing:app"))


def test_a_syntax_error_names_its_file(folder: Path) -> None:
    path = write(folder, "broken1.py", "app = Shop(")
    error = error_of("broken1:app")
    assert "SyntaxError" in str(error)
    assert os.path.realpath(path) in files_of_error(error.__cause__)


def test_a_program_that_exits_is_no_exit_of_ours(folder: Path) -> None:
    write(folder, "leaving1.py", "raise SystemExit(0)")
    assert str(error_of("leaving1:app")) == "leaving1 ended the process while it was imported"


def test_the_place_of_a_program_is_known_before_it_exists(folder: Path) -> None:
    assert place_of("shop.billing:app") == {os.path.realpath(folder / "shop" / "billing.py")}
    assert place_of("x/billing.py:app") == {os.path.realpath(folder / "x" / "billing.py")}


# Changes of files


def test_a_change_of_a_file_is_found_once(tmp_path: Path) -> None:
    one = tmp_path / "one.py"
    one.write_text("1")
    watch = SourceWatch([str(one)])
    assert watch.changed() is None
    one.write_text("12")
    assert watch.changed() == str(one)
    assert watch.changed() is None


def test_files_that_appear_and_vanish_are_changes(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("1")
    watch = SourceWatch([str(one)])
    two.write_text("2")
    assert watch.changed() == str(two)
    (tmp_path / "notes.txt").write_text("no program")
    assert watch.changed() is None
    one.unlink()
    assert watch.changed() == str(one)


def test_files_that_are_added_count_as_they_are_now(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    one, two = tmp_path / "one.py", tmp_path / "deep" / "two.py"
    one.write_text("1")
    two.write_text("2")
    watch = SourceWatch([str(one)])
    watch.add([str(two)])
    assert watch.changed() is None
    two.write_text("22")
    assert watch.changed() == str(two)


def test_a_change_that_came_before_an_addition_is_not_forgotten(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    one, two = tmp_path / "one.py", tmp_path / "deep" / "two.py"
    one.write_text("1")
    two.write_text("2")
    watch = SourceWatch([str(one)])
    one.write_text("11")
    watch.add([str(two)])
    assert watch.changed() == str(one)


def test_a_folder_that_is_gone_is_a_change_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    one = tmp_path / "deep" / "one.py"
    one.write_text("1")
    watch = SourceWatch([str(one)])
    one.unlink()
    (tmp_path / "deep").rmdir()
    assert watch.changed() == str(one)
    assert watch.changed() is None
