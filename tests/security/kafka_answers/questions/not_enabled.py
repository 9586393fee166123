"""Features that are off in both brokers: delegation tokens, share groups, streams groups."""

from __future__ import annotations

from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.situations import CLUSTER, DELEGATION_TOKEN, GROUP, TOPIC, USER
from tests.security.kafka_answers.world import FOUR

TOKENS = [DELEGATION_TOKEN, USER]
BOB = {"owner_principal_type": "User", "owner_principal_name": "bob"}
QUESTIONS = [
    Question("CreateDelegationToken", [1, 3], "for oneself", {"max_lifetime_ms": -1}, TOKENS),
    Question("CreateDelegationToken", [3], "for bob", {**BOB, "max_lifetime_ms": -1}, TOKENS),
    Question("RenewDelegationToken", [1, 2], "", {"hmac": b"x", "renew_period_ms": 1}, TOKENS),
    Question(
        "ExpireDelegationToken", [1, 2], "", {"hmac": b"x", "expiry_time_period_ms": 1}, TOKENS
    ),
    Question("DescribeDelegationToken", [1, 3], "all", {"owners": None}, TOKENS),
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
