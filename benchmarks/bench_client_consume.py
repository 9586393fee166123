"""How fast do Python's clients consume records of 100 bytes, and what does a record cost the client?

Run: python -m benchmarks.bench_client_consume
BENCH_PROGRAMS=ottla runs only the programs with that in their name.
"""

from __future__ import annotations

from benchmarks.client_comparison import Question, run_question
from benchmarks.client_task import VALUE_BYTES, Done
from benchmarks.consuming_clients import CONSUMERS
from benchmarks.frames import (
    RefusedError,
    append_first,
    append_once,
    end_offsets,
    leaders,
    produce_frame,
)
from benchmarks.peers import PARTITIONS_PER_TOPIC, Peer

from ottla.client.raw import RawConnection

TOPIC = "client-consume"
# Batches of about 64 kB, and more of them than the fastest client reads in the time.
RECORDS_PER_BATCH = 500
BATCHES_PER_PARTITION = 2_000
RECORDS = RECORDS_PER_BATCH * BATCHES_PER_PARTITION * PARTITIONS_PER_TOPIC


def prepare(peer: Peer) -> tuple[str, int]:
    """The same topic for all programs, filled once."""
    peer.create_topic(TOPIC)
    if sum(end_offsets(peer.bootstrap_server, TOPIC, PARTITIONS_PER_TOPIC)) == RECORDS:
        return TOPIC, RECORDS
    for partition, leader in enumerate(leaders(peer.bootstrap_server, TOPIC)):
        frame = produce_frame(TOPIC, RECORDS_PER_BATCH, VALUE_BYTES, partition)
        append_first(leader, frame)
        with RawConnection(leader) as connection:
            for _ in range(BATCHES_PER_PARTITION - 1):
                append_once(connection, frame)
    return TOPIC, RECORDS


def check(peer: Peer, topic: str, done: Done) -> None:
    """The programs compare the values by themselves."""
    if done.records == 0:
        raise RefusedError(f"nothing was read from {topic} of {peer.name}")


QUESTION = Question(
    name="consume",
    module="benchmarks.consuming_clients",
    programs=list(CONSUMERS),
    ours=["ottla poll", "ottla iteration"],
    prepare=prepare,
    check=check,
    twins={
        "ottla poll": "confluent-kafka consume",
        "ottla iteration": "confluent-kafka poll",
        "ottla.aio poll": "confluent-kafka consume",
        "ottla poll_arrow": "confluent-kafka consume",
    },
)

if __name__ == "__main__":
    run_question(QUESTION)
