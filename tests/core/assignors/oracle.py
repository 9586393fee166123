"""Kafka's own assignors, in a Java process that answers line by line."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import quote, unquote_plus

import pytest
from tests import maven

from ottla.core.assignors.java_order import text_order
from ottla.core.assignors.model import Assignment, Cluster, Subscription
from ottla.core.assignors.protocol import encode_assignment, encode_subscription
from ottla.model import TopicPartition

SOURCE = Path(__file__).with_name("AssignorOracle.java")
STOP_SECONDS = 20.0


class KafkaFailedError(Exception):
    """The Java assignor threw."""


class Share(NamedTuple):
    """What a member is given, in its order, and as it is sent to the member."""

    partitions: tuple[TopicPartition, ...]
    data: bytes


class Oracle:
    """What Kafka's client answers and writes."""

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests = requests
        self._answers = answers

    def assign(
        self, name: str, cluster: Cluster, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Share]:
        lines = []
        for topic, infos in cluster.items():
            words = [
                ",".join([str(info.partition), *(_word(rack) for rack in info.racks)])
                for info in infos
            ]
            lines.append(" ".join(["topic", _word(topic), *words]))
        # Where two members fall into one bucket of a hash map, the first that came is listed first.
        for member in sorted(subscriptions, key=text_order):
            subscription = subscriptions[member]
            instance = subscription.group_instance_id
            instance_word = "-" if instance is None else _word(instance)
            data = encode_subscription(subscription).hex()
            lines.append(f"member {_word(member)} {instance_word} {data}")
        answer = self._ask("\n".join([*lines, f"assign {name}"]))
        if answer.startswith("error "):
            raise KafkaFailedError(answer)
        words = answer.split()
        return {
            unquote_plus(member): Share(_partitions(partitions), bytes.fromhex(data))
            for member, partitions, data in zip(words[::3], words[1::3], words[2::3], strict=True)
        }

    def subscription_bytes(self, subscription: Subscription, version: int) -> bytes:
        """What Kafka writes of the same subscription."""
        return bytes.fromhex(
            self._ask(f"subscription {version} {encode_subscription(subscription).hex()}")
        )

    def user_data(self, name: str, assignment: Assignment, generation_id: int) -> bytes | None:
        """What an assignor writes that got this assignment."""
        answer = self._ask(
            f"user-data {name} {generation_id} {encode_assignment(assignment).hex()}"
        )
        return None if answer == "-" else bytes.fromhex(answer)

    def _ask(self, request: str) -> str:
        self._requests.write(request + "\n")
        self._requests.flush()
        answer = self._answers.readline()
        assert answer, "the Java process ended"
        return answer.strip()


def _partitions(word: str) -> tuple[TopicPartition, ...]:
    pairs = [item.rpartition("/") for item in word.split(",")[1:]]
    return tuple(TopicPartition(unquote_plus(topic), int(number)) for topic, _, number in pairs)


def _word(name: str) -> str:
    return quote(name, safe="").replace("-", "%2D")


@contextmanager
def start_oracle(shared_folder: Path) -> Iterator[Oracle]:
    """Downloads what is missing and starts the process; skips where that cannot be."""
    with java_program(SOURCE, maven.kafka_client(shared_folder)) as (requests, answers):
        yield Oracle(requests, answers)


@contextmanager
def java_program(source: Path, jars: Path) -> Iterator[tuple[IO[str], IO[str]]]:
    """Runs a program of one file; its standard input and its standard output."""
    if shutil.which("javac") is None:
        pytest.skip("Kafka's assignors need javac, which is not installed")
    process = subprocess.Popen(
        # One compiler thread and the plain collector: it shares two cores with the tests.
        [
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
            *("-cp", f"{jars}/*", str(source)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdin, process.stdout
    finally:
        # It ends when its standard input does, also if this process is killed.
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
