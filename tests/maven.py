"""Jars from Maven Central, downloaded once per user; tests that need them skip where that cannot be."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from benchmarks.kafka_jars import KAFKA_CLIENT_VERSION, KAFKA_SERVER_VERSION

DOWNLOAD_SECONDS = 80
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
NO_LOGGING = {"org.slf4j:slf4j-nop": "1.7.36"}
TOKEN_PARSERS = {
    "com.fasterxml.jackson.core:jackson-databind": "2.21.2",
    "org.bitbucket.b_c:jose4j": "0.9.6",
    **NO_LOGGING,
}

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId>
  <artifactId>tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>
{exclusions}
    </dependency>"""
_EXCLUSION = """\
      <exclusions><exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion></exclusions>"""


def jars(
    name: str, artifacts: Mapping[str, str], shared_folder: Path, without: str | None = None
) -> Path:
    """The folder with the artifacts (group:artifact → version) and all that they need, but for one of these."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{name} needs {program}, which is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "ottla-tests" / name
    folder.mkdir(parents=True, exist_ok=True)
    found, failure = folder / "jars", shared_folder / f"maven-failed-{name}.txt"
    with (folder / "lock").open("w") as lock:
        # The workers of one test run ask at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            if not failure.exists():
                reason = _download(folder, found, _pom(artifacts, without))
                if reason is not None:
                    failure.write_text(reason, encoding="utf-8")
            if failure.exists():
                pytest.skip(f"no {name}: {failure.read_text(encoding='utf-8')}")
    return found


def kafka_client(shared_folder: Path, version: str = KAFKA_CLIENT_VERSION) -> Path:
    """The folder with Kafka's own client and what it needs."""
    artifacts = {"org.apache.kafka:kafka-clients": version, **NO_LOGGING}
    return jars(f"kafka-clients-{version}", artifacts, shared_folder)


def token_parsers(shared_folder: Path) -> Path:
    """The folder with what Kafka's client needs for tokens, and does not bring."""
    return jars("jackson-2.21.2-jose4j-0.9.6", TOKEN_PARSERS, shared_folder)


def kafka_server(shared_folder: Path, version: str = KAFKA_SERVER_VERSION) -> Path:
    """The folder with Kafka's broker and what it needs."""
    artifacts = {"org.apache.kafka:kafka_2.13": version, **NO_LOGGING}
    return jars(f"kafka-{version}", artifacts, shared_folder)


def kafka_tools(shared_folder: Path) -> Path:
    """The folder with Kafka's command line tools and what they need."""
    artifacts = {"org.apache.kafka:kafka-tools": KAFKA_SERVER_VERSION, **NO_LOGGING}
    return jars(f"kafka-tools-{KAFKA_SERVER_VERSION}", artifacts, shared_folder)


def archive(name: str, artifact: str, shared_folder: Path) -> Path:
    """The file of one artifact (group:artifact:version:type:classifier), without what it needs."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{name} needs {program}, which is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "ottla-tests" / name
    folder.mkdir(parents=True, exist_ok=True)
    found, failure = folder / "archive", shared_folder / f"maven-failed-{name}.txt"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists() and not failure.exists():
            options = (f"{PLUGIN}:copy", f"-Dartifact={artifact}")
            reason = _run_maven(folder, found, options)
            if reason is not None:
                failure.write_text(reason, encoding="utf-8")
        if failure.exists():
            pytest.skip(f"no {name}: {failure.read_text(encoding='utf-8')}")
    (file,) = found.iterdir()
    return file


def _pom(artifacts: Mapping[str, str], without: str | None) -> str:
    dependencies = []
    exclusions = ""
    if without is not None:
        group, _, name = without.partition(":")
        exclusions = _EXCLUSION.format(group=group, artifact=name)
    for artifact, version in artifacts.items():
        group, _, name = artifact.partition(":")
        dependencies.append(
            _DEPENDENCY.format(group=group, artifact=name, version=version, exclusions=exclusions)
        )
    return _POM.format(dependencies="\n".join(dependencies))


def _download(folder: Path, target: Path, pom: str) -> str | None:
    """Why Maven could not get the jars."""
    (folder / "pom.xml").write_text(pom, encoding="utf-8")
    return _run_maven(
        folder, target, ("-f", str(folder / "pom.xml"), f"{PLUGIN}:copy-dependencies")
    )


def _run_maven(folder: Path, target: Path, options: tuple[str, ...]) -> str | None:
    """Why Maven could not copy what it was asked for."""
    partial = folder / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    command = ["mvn", "--batch-mode", "--quiet", *options, f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"Maven did not download it within {DOWNLOAD_SECONDS} s"
    if done.returncode != 0:
        return f"Maven could not download it: {done.stdout.decode()[:500]}"
    partial.rename(target)
    return None
