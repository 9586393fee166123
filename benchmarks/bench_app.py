"""How many records per second reach a trivial handler, and what does a record cost the process?

Run: python -m benchmarks.bench_app
One partition, values of 100 bytes, each framework with its defaults in a group of its own: FastStream commits what it
has fetched, a listener of ours what its handler has finished. BENCH_PROGRAMS=ottla runs only the programs with that in
their name.
"""

from __future__ import annotations

from benchmarks.client_comparison import Question, run_question
from benchmarks.client_task import VALUE_BYTES, Done
from benchmarks.frames import (
    RefusedError,
    append_first,
    append_once,
    end_offsets,
    leaders,
    produce_frame,
)
from benchmarks.listening_programs import LISTENERS
from benchmarks.peers import PARTITIONS_PER_TOPIC, Peer

from ottla.client.raw import RawConnection

TOPIC = "app-listen"
# Batches of about 64 kB, and more of them than the fastest program reads in the time.
RECORDS_PER_BATCH = 500
BATCHES = 4_000
RECORDS = RECORDS_PER_BATCH * BATCHES


def prepare(peer: Peer) -> tuple[str, int]:
    """The same topic for all programs, whose first partition is filled once."""
    peer.create_topic(TOPIC)
    if sum(end_offsets(peer.bootstrap_server, TOPIC, PARTITIONS_PER_TOPIC)) == RECORDS:
        return TOPIC, RECORDS
    frame = produce_frame(TOPIC, RECORDS_PER_BATCH, VALUE_BYTES, 0)
    leader = leaders(peer.bootstrap_server, TOPIC)[0]
    append_first(leader, frame)
    with RawConnection(leader) as connection:
        for _ in range(BATCHES - 1):
            append_once(connection, frame)
    return TOPIC, RECORDS


def check(peer: Peer, topic: str, done: Done) -> None:
    """The programs compare the values by themselves."""
    if done.records == 0:
        raise RefusedError(f"nothing was read from {topic} of {peer.name}")


QUESTION = Question(
    name="listen",
    module="benchmarks.listening_programs",
    programs=list(LISTENERS),
    ours=["ottla app"],
    prepare=prepare,
    check=check,
)

if __name__ == "__main__":
    run_question(QUESTION)
