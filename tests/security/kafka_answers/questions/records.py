"""Records: writing and reading them."""

from __future__ import annotations

from typing import Any

from tests.broker.requests import batch_of, sequenced
from tests.security.kafka_answers.answer_text import MADE_UP
from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.situations import (
    CALLER,
    CLUSTER,
    EVERYTHING,
    TOPIC,
    TRANSACTIONAL_ID,
    Situation,
)
from tests.security.kafka_answers.world import BOTH, FOUR, GONE, World

from ottla.records.batch import BatchFlag, build_batch
from ottla.records.record import Record

WRITTEN = (*(f"{name}-log" for name in BOTH), *GONE)
FETCH_VERSION = 18
INTERNAL = ("__consumer_offsets", "__transaction_state")
KINDS = {
    "records": (batch_of(b"v"), None, [TOPIC]),
    "records of an idempotent producer": (sequenced(MADE_UP, 0), None, [TOPIC, CLUSTER]),
    "records of a transaction": (
        build_batch(
            [Record(0, 0, b"key", b"v")],
            producer_id=MADE_UP,
            producer_epoch=0,
            base_sequence=0,
            flags=BatchFlag.TRANSACTIONAL,
        ),
        "mine",
        [TRANSACTIONAL_ID, TOPIC],
    ),
}


def _written(records: bytes, transactional_id: str | None, names: Any) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout_ms": 10_000,
        "topic_data": [
            {**name, "partition_data": [{"index": 0, "records": records}]} for name in names
        ],
    }


def _read(names: Any, offset: int = 0, **fields: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{**name, "partitions": [partition]} for name in names],
        **fields,
    }


def _ids(world: World, names: Any) -> list[dict[str, Any]]:
    return [{"topic_id": one} for one in world.by_id(names)]


def _produce_by_id(records: bytes, transactional_id: str | None) -> Any:
    return lambda world: _written(records, transactional_id, _ids(world, WRITTEN))


def _continued(world: World, situation: Situation) -> dict[str, Any]:
    """The second request of a session that began while everything was allowed."""
    first = {**_read(_ids(world, FOUR)), "session_epoch": 0}
    allowed = Situation("", "", EVERYTHING, CALLER)
    session_id = world.stage.answer("Fetch", FETCH_VERSION, first, allowed).session_id
    return {**_read([]), "session_id": session_id, "session_epoch": 1}


QUESTIONS = [
    *(
        Question(
            "Produce",
            versions,
            f"{kind}, to four topics by {word}",
            fields,
            about,
        )
        for kind, (records, transactional_id, about) in KINDS.items()
        for versions, word, fields in (
            (
                [3, 12],
                "name",
                _written(records, transactional_id, [{"name": name} for name in WRITTEN]),
            ),
            ([13], "id", _produce_by_id(records, transactional_id)),
        )
    ),
    Question(
        "Fetch", [4, 12], "four topics by name", _read([{"topic": name} for name in FOUR]), [TOPIC]
    ),
    Question(
        "Fetch", [13, 18], "four topics by id", lambda world: _read(_ids(world, FOUR)), [TOPIC]
    ),
    Question(
        "Fetch",
        [12],
        "four topics by name, a replica",
        _read([{"topic": name} for name in FOUR], replica_id=5),
        [TOPIC, CLUSTER],
    ),
    Question(
        "Fetch",
        [18],
        "four topics by id, a replica",
        lambda world: _read(
            _ids(world, FOUR), replica_state={"replica_id": 5, "replica_epoch": -1}
        ),
        [TOPIC, CLUSTER],
    ),
    Question(
        "Fetch",
        [FETCH_VERSION],
        "four topics of a session that began while everything was allowed",
        {},
        [TOPIC],
        before=_continued,
    ),
    Question(
        "Produce",
        [12],
        "records, to internal topics and a name that no topic can have",
        _written(batch_of(b"v"), None, [{"name": name} for name in (*INTERNAL, "bad name")]),
        [TOPIC],
        prefix="__consumer",
    ),
    Question(
        "Produce",
        [12],
        "records of a transaction without a transactional id",
        _written(KINDS["records of a transaction"][0], None, [{"name": "mine-log"}]),
        [TRANSACTIONAL_ID, TOPIC],
    ),
    Question(
        "Produce",
        [12],
        "a partition that does not exist",
        {
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [
                {
                    "name": name,
                    "partition_data": [{"index": 9, "records": batch_of(b"v")}],
                }
                for name in WRITTEN
            ],
        },
        [TOPIC],
    ),
    Question(
        "Produce",
        [12],
        "with a wrong number of acknowledgements",
        {
            **_written(batch_of(b"v"), None, [{"name": name} for name in WRITTEN[:2]]),
            "acks": 7,
        },
        [TOPIC],
    ),
    Question(
        "Fetch",
        [12],
        "internal topics, behind their end",
        _read([{"topic": name} for name in INTERNAL], offset=1 << 40),
        [TOPIC],
        prefix="__consumer",
    ),
]
