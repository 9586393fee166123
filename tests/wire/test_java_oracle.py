"""Messages of versions that kio does not know, against Kafka's Java client.

What it made of them is recorded in `java_messages.txt`, so that it is checked without Java too. With
OTTLA_WRITE_FACTS=1 the file is written instead of compared.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests import maven
from tests.wire.every_message import (
    UNKNOWN_TO_KIO,
    Case,
    bare_struct,
    full_value,
    plain_encode,
    present_fields,
)

from ottla.wire.compile import decode_message, encode_message

SOURCE = Path(__file__).with_name("MessageBytes.java")
RECORDED = Path(__file__).with_name("java_messages.txt")
# The first client that knows all of these versions; a later one is fine as well.
CLIENT_VERSION = "4.4.0"
SECONDS = 60
# Fields that Kafka has renamed since.
RENAMED = {"generation_id": "generation_id_or_member_epoch"}
_FIELD = re.compile(r"[(, ](\w+)=")


class Recorded(NamedTuple):
    """A message as the Java client writes it, and with the names that it gives the fields."""

    data: str
    text: str


def values_of(case: Case) -> Iterator[Any]:
    yield full_value(case)
    yield bare_struct(case.cls, case.version)


def line_of(case: Case, message: Any) -> str:
    return f"{case.info.name} {case.version} {encode_message(message, case.version).hex()}"


def recorded() -> dict[str, Recorded]:
    """What the Java client answered, by the question."""
    found = {}
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        question, _, answer = line.partition(" = ")
        data, _, text = answer.partition(" ")
        found[question] = Recorded(data, text)
    return found


def names_in(text: str) -> set[str]:
    """The fields of a text as Java's messages have it, as we would write them."""
    return {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in _FIELD.findall(text)}


def names_of(cls: type[Any], version: int) -> Iterator[str]:
    for field in present_fields(cls, version):
        yield RENAMED.get(field.name, field.name)
        if isinstance(field.type.element, type):
            yield from names_of(field.type.element, version)


every_case = pytest.mark.parametrize("case", UNKNOWN_TO_KIO, ids=str)


@every_case
def test_the_java_client_reads_what_we_write_and_writes_the_same_bytes(case: Case) -> None:
    answers = recorded()
    for message in values_of(case):
        line = line_of(case, message)
        assert answers[line].data == line.split()[2]
        assert decode_message(case.cls, case.version, bytes.fromhex(line.split()[2])) == message
        assert plain_encode(case, message, {}).hex() == line.split()[2]


@every_case
def test_the_java_client_has_our_fields(case: Case) -> None:
    """It names those of other versions too."""
    text = recorded()[line_of(case, full_value(case))].text
    assert set(names_of(case.cls, case.version)) <= names_in(text)


def test_the_recorded_answers_are_those_of_the_java_client(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if shutil.which("javac") is None:
        pytest.skip("Kafka's classes need javac, which is not installed")
    shared = tmp_path_factory.getbasetemp().parent
    jars = maven.kafka_client(shared, CLIENT_VERSION)
    questions = [line_of(case, message) for case in UNKNOWN_TO_KIO for message in values_of(case)]
    done = subprocess.run(
        [
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
            *("-cp", f"{jars}/*", str(SOURCE)),
        ],
        input="".join(f"{question}\n" for question in questions),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pairs = zip(questions, done.stdout.splitlines(), strict=True)
    found = "".join(f"{question} = {answer}\n" for question, answer in pairs)
    if os.environ.get("OTTLA_WRITE_FACTS"):
        RECORDED.write_text(found, encoding="utf-8")
    assert found == RECORDED.read_text(encoding="utf-8")
