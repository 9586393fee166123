"""How fast do Python's clients produce records of 100 bytes, and what does a record cost the client?

Run: python -m benchmarks.bench_client_produce
BENCH_PROGRAMS=ottla runs only the programs with that in their name.
"""

from __future__ import annotations

from itertools import count

from benchmarks.client_comparison import Question, run_question
from benchmarks.client_task import Done
from benchmarks.frames import RefusedError, end_offsets
from benchmarks.peers import PARTITIONS_PER_TOPIC, Peer
from benchmarks.producing_clients import PRODUCERS

_topic_numbers = count()


def prepare(peer: Peer) -> tuple[str, int]:
    topic = f"client-produce-{next(_topic_numbers)}"
    peer.create_topic(topic)
    return topic, 0


def check(peer: Peer, topic: str, done: Done) -> None:
    """The broker has exactly what the client says that it delivered."""
    kept = sum(end_offsets(peer.bootstrap_server, topic, PARTITIONS_PER_TOPIC))
    peer.delete_topic(topic)
    if kept != done.records:
        raise RefusedError(f"{done.records} records were delivered and {kept} are there")


QUESTION = Question(
    name="produce",
    module="benchmarks.producing_clients",
    programs=list(PRODUCERS),
    ours=["ottla send", "ottla send_many"],
    prepare=prepare,
    check=check,
    twins={
        "ottla send": "confluent-kafka produce",
        "ottla send, on_delivery": "confluent-kafka produce, on_delivery",
        "ottla send_many": "confluent-kafka produce_batch",
        "ottla send_arrow": "confluent-kafka produce_batch",
        "ottla.aio send": "confluent-kafka produce",
    },
)

if __name__ == "__main__":
    run_question(QUESTION)
