"""Features that are off in both brokers: delegation tokens, share groups, streams groups."""

from __future__ import annotations

from collections.abc import Iterator

from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.situations import (
    ALICE,
    CALLER,
    CLUSTER,
    DELEGATION_TOKEN,
    GROUP,
    TOPIC,
    USER,
)
from tests.security.kafka_answers.world import FOUR

TOKENS = [DELEGATION_TOKEN, USER]
WHO = {CALLER: "without a login", ALICE: "alice"}


def _token_questions() -> Iterator[Question]:
    """Nobody may ask for tokens without a login."""
    for caller, who in WHO.items():
        for words, owner in (("the caller", None), ("mine", "mine"), ("theirs", "theirs")):
            yield Question(
                "CreateDelegationToken",
                [1, 3] if owner is None else [3],
                f"{who}, for {words}",
                {
                    "owner_principal_type": owner and "User",
                    "owner_principal_name": owner,
                    "max_lifetime_ms": -1,
                },
                TOKENS,
                caller=caller,
            )
        yield Question(
            "CreateDelegationToken",
            [3],
            f"{who}, with a group that may renew it",
            {
                "renewers": [{"principal_type": "Group", "principal_name": "staff"}],
                "max_lifetime_ms": -1,
            },
            TOKENS,
            caller=caller,
        )
        for api, fields in (
            ("RenewDelegationToken", {"hmac": b"x", "renew_period_ms": 1}),
            ("ExpireDelegationToken", {"hmac": b"x", "expiry_time_period_ms": 1}),
            ("DescribeDelegationToken", {"owners": None}),
        ):
            yield Question(api, [1, 2], who, fields, TOKENS, caller=caller)


QUESTIONS = [
    *_token_questions(),
    Question(
        "ShareGroupHeartbeat", [1], "", {"group_id": "mine", "member_id": "m"}, [GROUP, TOPIC]
    ),
    Question("ShareGroupDescribe", [1], "four groups", {"group_ids": list(FOUR)}, [GROUP]),
    Question(
        "ShareFetch",
        [1, 2],
        "",
        {"group_id": "mine", "member_id": "m", "max_wait_ms": 1, "max_records": 1},
        [GROUP, TOPIC],
    ),
    Question(
        "ShareAcknowledge", [1, 2], "", {"group_id": "mine", "member_id": "m"}, [GROUP, TOPIC]
    ),
    Question(
        "DescribeShareGroupOffsets",
        [0, 1],
        "four groups",
        {"groups": [{"group_id": name, "topics": None} for name in FOUR]},
        [GROUP, TOPIC],
    ),
    Question("AlterShareGroupOffsets", [0], "", {"group_id": "mine"}, [GROUP, TOPIC]),
    Question("DeleteShareGroupOffsets", [0], "", {"group_id": "mine"}, [GROUP, TOPIC]),
    Question(
        "StreamsGroupHeartbeat",
        [0],
        "",
        {"group_id": "mine", "member_id": "m", "endpoint_information_epoch": 0},
        [GROUP, TOPIC, CLUSTER],
    ),
    Question("StreamsGroupDescribe", [0], "four groups", {"group_ids": list(FOUR)}, [GROUP]),
]
