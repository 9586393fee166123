"""Transactions, and ids of producers."""

from __future__ import annotations

from typing import Any

from tests.security.kafka_answers.answer_text import MADE_UP
from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.situations import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID
from tests.security.kafka_answers.world import BOTH, FOUR, GONE

PRODUCER = {"producer_id": MADE_UP, "producer_epoch": 0}
NOBODY = {"producer_id": -1, "producer_epoch": -1}
MINE = {"transactional_id": "mine", **PRODUCER}
ADDED = [{"name": name, "partitions": [0]} for name in FOUR]


def _offsets(topics: Any) -> dict[str, Any]:
    return {
        **MINE,
        "group_id": "mine-idle",
        "generation_id": -1,
        "topics": [
            {**topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
            for topic in topics
        ],
    }


QUESTIONS = [
    Question(
        "InitProducerId",
        [0, 5],
        "without a transactional id",
        {"transactional_id": None, "transaction_timeout_ms": 10_000, **NOBODY},
        [TOPIC, CLUSTER],
    ),
    Question(
        "InitProducerId",
        [4, 5],
        "with a transactional id, of a producer that it does not know",
        {**MINE, "transaction_timeout_ms": 10_000},
        [TRANSACTIONAL_ID],
    ),
    *(
        Question(
            "AddPartitionsToTxn",
            [0, 3],
            f"{words}, of a producer that is not known",
            {
                "v3_and_below_transactional_id": "mine",
                "v3_and_below_producer_id": MADE_UP,
                "v3_and_below_producer_epoch": 0,
                "v3_and_below_topics": added,
            },
            [TRANSACTIONAL_ID, TOPIC],
        )
        for words, added in (("four topics", ADDED), ("a topic", ADDED[:1]))
    ),
    Question(
        "AddPartitionsToTxn",
        [4, 5],
        "two transactional ids, as brokers ask",
        {
            "transactions": [
                {"transactional_id": name, **PRODUCER, "verify_only": True, "topics": ADDED[:2]}
                for name in BOTH
            ]
        },
        [CLUSTER],
    ),
    Question(
        "AddOffsetsToTxn",
        [0, 4],
        "of a producer that is not known",
        {**MINE, "group_id": "mine-idle"},
        [TRANSACTIONAL_ID, GROUP],
    ),
    Question(
        "TxnOffsetCommit",
        [0, 5],
        "four topics by name, of a producer that is not known",
        _offsets({"name": name} for name in FOUR),
        [TRANSACTIONAL_ID, GROUP, TOPIC],
    ),
    Question(
        "EndTxn",
        [0, 5],
        "of a producer that is not known",
        {**MINE, "committed": True},
        [TRANSACTIONAL_ID],
    ),
    Question(
        "WriteTxnMarkers",
        [1, 2],
        "two topics that do not exist",
        {
            "markers": [
                {
                    **PRODUCER,
                    "transaction_result": True,
                    "topics": [{"name": name, "partition_indexes": [0]} for name in GONE],
                    "coordinator_epoch": 0,
                }
            ]
        },
        [CLUSTER],
    ),
    Question(
        "DescribeTransactions",
        [0],
        "four transactional ids",
        {"transactional_ids": list(FOUR)},
        [TRANSACTIONAL_ID, TOPIC],
    ),
    Question(
        "ListTransactions", [0, 2], "all transactions", {"duration_filter": -1}, [TRANSACTIONAL_ID]
    ),
    Question(
        "AddPartitionsToTxn",
        [3],
        "an internal topic, of a producer that is not known",
        {
            "v3_and_below_transactional_id": "mine",
            "v3_and_below_producer_id": MADE_UP,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": "__consumer_offsets", "partitions": [0]}],
        },
        [TRANSACTIONAL_ID, TOPIC],
    ),
    Question(
        "InitProducerId",
        [5],
        "with an empty transactional id",
        {"transactional_id": "", "transaction_timeout_ms": 10_000, **NOBODY},
        [TRANSACTIONAL_ID, TOPIC, CLUSTER],
    ),
    Question(
        "InitProducerId",
        [5],
        "with a timeout that is too long",
        {**MINE, "transaction_timeout_ms": 1 << 30},
        [TRANSACTIONAL_ID],
    ),
    Question(
        "EndTxn",
        [5],
        "of a transactional id that does not exist",
        {**MINE, "transactional_id": "mine-gone", "committed": False},
        [TRANSACTIONAL_ID],
    ),
    Question(
        "AddOffsetsToTxn",
        [4],
        "of names that do not exist",
        {**MINE, "transactional_id": "mine-gone", "group_id": "mine-gone"},
        [TRANSACTIONAL_ID, GROUP],
    ),
    Question(
        "ListTransactions",
        [2],
        "those that match a pattern, in one state",
        {
            "duration_filter": -1,
            "state_filters": ["Ongoing"],
            "transactional_id_pattern": "mine|theirs",
        },
        [TRANSACTIONAL_ID],
    ),
]
