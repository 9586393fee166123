"""The assignors of Kafka's group coordinator, in a Java process that answers line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote_plus
from uuid import UUID

from tests import maven
from tests.core.assignors.oracle import java_program

from ottla.core.assignors.java_order import text_order, uuid_order
from ottla.core.assignors.server_side.model import Partitions, Subscriber, is_homogeneous

SOURCE = Path(__file__).with_name("ServerAssignorOracle.java")
_HALF = (1 << 64) - 1


class ServerOracle:
    """What Kafka's group coordinator computes."""

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests = requests
        self._answers = answers

    def assign(
        self, name: str, members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
    ) -> dict[str, Partitions]:
        """Topics and members come in their order, which decides where two fall into one bucket of a hash map."""
        topic_ids = sorted(
            {
                *partition_counts,
                *(topic_id for member in members.values() for topic_id in member.owned),
            },
            key=uuid_order,
        )
        numbers = {topic_id: str(number) for number, topic_id in enumerate(topic_ids)}
        lines = [
            f"topic {each.int >> 64:x} {each.int & _HALF:x} {partition_counts.get(each, '-')}"
            for each in topic_ids
        ]
        for member_id in sorted(members, key=text_order):
            member = members[member_id]
            instance = "-" if member.instance_id is None else _word(member.instance_id)
            topics = ",".join(numbers[each] for each in sorted(member.topic_ids, key=uuid_order))
            owned = ";".join(
                f"{numbers[each]}:{','.join(map(str, sorted(member.owned[each])))}"
                for each in sorted(member.owned, key=uuid_order)
            )
            lines.append(f"member {_word(member_id)} {instance} {topics or '-'} {owned or '-'}")
        kind = "HOMOGENEOUS" if not members or is_homogeneous(members) else "HETEROGENEOUS"
        lines.append(f"assign {name} {kind}")
        self._requests.write("\n".join(lines) + "\n")
        self._requests.flush()
        answer = self._answers.readline().split()
        assert answer, "the Java process ended"
        return {
            unquote_plus(member_id): _assignment(share, topic_ids)
            for member_id, share in zip(answer[1::2], answer[2::2], strict=True)
        }


def _assignment(word: str, topic_ids: list[UUID]) -> Partitions:
    if word == "-":
        return {}
    pairs = [part.split(":") for part in word.split(";")]
    return {
        topic_ids[int(topic)]: frozenset(map(int, partitions.split(",")))
        for topic, partitions in pairs
    }


def _word(name: str) -> str:
    return quote(name, safe="").replace("-", "%2D")


@contextmanager
def start_server_oracle(shared_folder: Path) -> Iterator[ServerOracle]:
    """Downloads what is missing and starts the process; skips where that cannot be."""
    jars = maven.kafka_server(shared_folder)
    with java_program(SOURCE, jars) as (requests, answers):
        yield ServerOracle(requests, answers)
