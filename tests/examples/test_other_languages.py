"""The tests of examples/testing run, where their toolchains are and their packages can be had."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import maven

EXAMPLES = Path(__file__).parents[2] / "examples" / "testing"
DOWNLOAD_SECONDS = 90
RUN_SECONDS = 200


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment in which the examples find `ottla`."""
    script = tmp_path / "ottla"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n', encoding="ascii")
    script.chmod(0o755)
    return {**os.environ, "OTTLA": str(script)}


def copied(language: str, tmp_path: Path, *programs: str) -> Path:
    """A copy of an example, for what its tools leave behind; skips where they are missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"the example for {language} needs {program}, which is not installed")
    # Without what somebody who ran it there has installed.
    skipped = shutil.ignore_patterns("node_modules", "*.class")
    return Path(shutil.copytree(EXAMPLES / language, tmp_path / language, ignore=skipped))


def download(command: list[str], folder: Path) -> None:
    """Gets packages; skips if they cannot be had."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{' '.join(command)} did not end within {DOWNLOAD_SECONDS} s")
    if done.returncode != 0:
        pytest.skip(f"{' '.join(command)} failed: {done.stderr.decode()[-500:]}")


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_java(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> None:
    folder = copied("java", tmp_path, "javac")
    shared = tmp_path_factory.getbasetemp().parent
    jars = maven.kafka_client(shared)
    sources = sorted(path.name for path in folder.glob("*.java"))
    run(["javac", "-Xlint:all", "-Werror", "-cp", f"{jars}/*", *sources], folder, environment)
    printed = run(["java", "-cp", f".{os.pathsep}{jars}/*", "OrdersTest"], folder, environment)
    assert printed.splitlines() == [
        "ok: duplicated without idempotence",
        "ok: once with idempotence",
        "ok: refused, ProducerFencedException",
        "ok: nothing committed",
    ]


@pytest.mark.timeout(400)
def test_go(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = copied("go", tmp_path, "go")
    download(["go", "mod", "download"], folder)
    printed = run(["go", "test", "-count=1", "-v", "./..."], folder, environment)
    assert printed.count("--- PASS: Test") == 3


@pytest.mark.timeout(300)
def test_node(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = copied("node", tmp_path, "node", "npm")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    if int(version.stdout.lstrip("v").split(".")[0]) < 20:
        pytest.skip(f"the example for node needs Node 20, and this is {version.stdout.strip()}")
    download(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], folder)
    printed = run(["node", "--test"], folder, environment)
    assert "# pass 3" in printed
