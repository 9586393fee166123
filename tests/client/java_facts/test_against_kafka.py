"""The tables beside this file are what Apache Kafka's own classes say.

With OTTLA_WRITE_FACTS=1 they are written instead of compared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from tests import maven
from tests.client.java_facts.cases import OPTIONS, VECTORS, cases

SOURCE = Path(__file__).with_name("KafkaFacts.java")
SECONDS = 60


class Facts(NamedTuple):
    """What the Java program printed."""

    options: str
    vectors: str


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    if shutil.which("javac") is None:
        pytest.skip("Kafka's classes need javac, which is not installed")
    shared = tmp_path_factory.getbasetemp().parent
    jars = maven.kafka_client(shared)
    lines = [case.line for case in cases()]
    done = subprocess.run(
        # One compiler thread and the plain collector: it shares two cores with the tests.
        [
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
            *("-cp", f"{jars}/*", str(SOURCE)),
        ],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    options, _, answers = done.stdout.partition("end of options\n")
    pairs = zip(lines, answers.splitlines(), strict=True)
    found = Facts(options, "".join(f"{line} = {data}\n" for line, data in pairs))
    if os.environ.get("OTTLA_WRITE_FACTS"):
        OPTIONS.write_text(found.options, encoding="utf-8")
        VECTORS.write_text(found.vectors, encoding="utf-8")
    return found


def test_kafka_has_the_options_of_our_table(facts: Facts) -> None:
    assert facts.options == OPTIONS.read_text(encoding="utf-8")


def test_kafka_serializes_as_our_table_says(facts: Facts) -> None:
    assert facts.vectors == VECTORS.read_text(encoding="utf-8")
