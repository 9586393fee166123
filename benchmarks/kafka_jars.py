"""Jars of Apache Kafka, and of what runs with it, downloaded by Maven once per user."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

# The newest on Maven Central of each; the tests use them too. `make bench` says when there is a newer server: write its
# version here, and run tests/clients and tests/groups with it. Programs with a broker or tools of Kafka have all jars
# of the server's version.
KAFKA_CLIENT_VERSION = "4.4.0"
KAFKA_SERVER_VERSION = "4.3.1"
DOWNLOAD_SECONDS = 180
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"

KAFKA = {"org.apache.kafka:kafka_2.13": KAFKA_SERVER_VERSION, "org.slf4j:slf4j-nop": "1.7.36"}

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId>
  <artifactId>benchmarks</artifactId>
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
      <version>{version}</version>{more}
    </dependency>"""
_WITHOUT_OTHERS = """
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"""


METADATA = "https://repo1.maven.org/maven2/org/apache/kafka/kafka_2.13/maven-metadata.xml"
METADATA_SECONDS = 5.0
RELEASED = re.compile(r"<version>(\d+(?:\.\d+)+)</version>")


class UnavailableError(Exception):
    """A peer cannot run here; the message says why."""


def newer_server(read: Callable[[], str] | None = None) -> str | None:
    """The newest version of Kafka's broker on Maven Central if it is newer than ours; None if it cannot be asked."""
    try:
        text = (read or _read_metadata)()
    except OSError:
        return None
    newest = max(map(_numbers, RELEASED.findall(text)), default=())
    if newest <= _numbers(KAFKA_SERVER_VERSION):
        return None
    return ".".join(map(str, newest))


def _read_metadata() -> str:
    with urllib.request.urlopen(METADATA, timeout=METADATA_SECONDS) as answer:
        text: bytes = answer.read()
    return text.decode()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def kafka_jars() -> Path:
    """The folder with the broker and what it needs."""
    return jars_of(f"kafka-{KAFKA_SERVER_VERSION}", _pom(KAFKA, ""))


def jars_of_only(name: str, artifacts: Mapping[str, str]) -> Path:
    """The folder with these artifacts (group:artifact → version), and nothing that they need."""
    return jars_of(name, _pom(artifacts, _WITHOUT_OTHERS))


def jars_of(name: str, pom: str) -> Path:
    """The folder with the jars of a pom."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise UnavailableError(f"{program} is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "ottla-benchmarks" / name
    jars = folder / "jars"
    if not jars.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _download(folder, jars, pom)
    return jars


def _pom(artifacts: Mapping[str, str], more: str) -> str:
    dependencies = []
    for artifact, version in artifacts.items():
        group, _, name = artifact.partition(":")
        dependencies.append(
            _DEPENDENCY.format(group=group, artifact=name, version=version, more=more)
        )
    return _POM.format(dependencies="\n".join(dependencies))


def _download(folder: Path, jars: Path, pom: str) -> None:
    (folder / "pom.xml").write_text(pom, encoding="utf-8")
    partial = folder / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    command = [
        *("mvn", "--batch-mode", "--quiet", "-f", str(folder / "pom.xml")),
        *(f"{PLUGIN}:copy-dependencies", f"-DoutputDirectory={partial}"),
        "-DincludeScope=runtime",
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        reason = f"Maven did not download it within {DOWNLOAD_SECONDS} s"
        raise UnavailableError(reason) from error
    if done.returncode != 0:
        reason = (done.stdout + done.stderr).decode(errors="replace").strip()[:300]
        raise UnavailableError(f"Maven could not download it: {reason}")
    partial.rename(jars)
