"""Apache Kafka's jars, downloaded by Maven once per user."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

KAFKA_VERSION = "4.1.0"
DOWNLOAD_SECONDS = 180
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"

POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId>
  <artifactId>benchmarks</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-nop</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


class UnavailableError(Exception):
    """A peer cannot run here; the message says why."""


def kafka_jars() -> Path:
    """The folder with the broker and what it needs."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise UnavailableError(f"{program} is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "ottla-benchmarks" / f"kafka-{KAFKA_VERSION}"
    jars = folder / "jars"
    if not jars.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _download(folder, jars)
    return jars


def _download(folder: Path, jars: Path) -> None:
    (folder / "pom.xml").write_text(POM, encoding="utf-8")
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
