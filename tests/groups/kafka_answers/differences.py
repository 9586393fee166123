"""Where our broker answers otherwise than Apache Kafka on purpose, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Difference(NamedTuple):
    """The lines of a transcript that are others with us, by their numbers from 1."""

    why: str
    lines: Mapping[int, str]


SOONER = "a pattern that was never resolved does not wait for the next search (ADR 0047)"
ALONE = "classic members that are alone in a group of the new protocol get what others have left"
HELD = "members of a downgraded group have what they have, not what they were to get (ADR 0047)"
NOTHING_HELD = (
    "describe as a classic group v6: (groups=[(error_code=NONE group_id='group' "
    "group_state='PreparingRebalance' protocol_type='consumer' protocol_data='' "
    "members=[(member_id='id-of-C' client_id='ottla-raw' client_host='/127.0.0.1' "
    "member_metadata=b'' member_assignment=v1(assigned_partitions=[]))] "
    "authorized_operations=-2147483648)])"
)
DIFFERENCES = {
    "the_last_new_member_leaves_and_the_group_is_classic_again": Difference(
        HELD, {8: NOTHING_HELD}
    ),
    "the_last_new_member_falls_silent_and_the_group_is_classic_again": Difference(
        HELD, {8: NOTHING_HELD}
    ),
    "a_second_pattern_within_ten_seconds_waits": Difference(
        SOONER,
        {
            4: "B beats v1 in 2: (error_code=NONE member_id='B' member_epoch=3 heartbeat_interval_ms=500 "
            "assignment=(topic_partitions=[others[0 1]]))",
            5: "B beats v1 in 3: (error_code=NONE member_id='B' member_epoch=3 heartbeat_interval_ms=500)",
            6: "B beats v1 in 3: (error_code=NONE member_id='B' member_epoch=3 heartbeat_interval_ms=500)",
        },
    ),
    "from_one_pattern_to_another": Difference(
        SOONER,
        {
            5: "A beats v1 in 2 owning -: (error_code=NONE member_id='A' member_epoch=3 "
            "heartbeat_interval_ms=500 assignment=(topic_partitions=[others[0 1]]))",
            6: "A beats v1 in 3: (error_code=NONE member_id='A' member_epoch=3 heartbeat_interval_ms=500)",
        },
    ),
    "a_classic_subscription_that_cannot_be_read": Difference(
        "the member is at fault, not the broker (ADR 0047)",
        dict.fromkeys(
            (2, 3),
            "C joins v9: (error_code=INCONSISTENT_GROUP_PROTOCOL generation_id=-1 leader='' "
            "skip_assignment=False member_id='' members=[])",
        ),
    ),
    "upgrade_only_allows_the_upgrade": Difference(
        ALONE, {11: "C beats v4 in 2: (error_code=REBALANCE_IN_PROGRESS)"}
    ),
    "upgrade_only_lets_classic_members_join_a_consumer_group": Difference(
        ALONE,
        {
            7: "describe v1: (groups=[(error_code=NONE group_id='group' group_state='Reconciling' "
            "group_epoch=4 assignment_epoch=4 assignor_name='uniform' members=[(member_id='id-of-C' "
            "member_epoch=3 client_id='ottla-raw' client_host='/127.0.0.1' "
            "subscribed_topic_names=['orders'] subscribed_topic_regex='' "
            "assignment=(topic_partitions=[]) target_assignment=(topic_partitions=[orders[0 1]]) "
            "member_type=0)] authorized_operations=-2147483648)])"
        },
    ),
    "a_fetch_by_a_stranger": Difference(
        "Kafka looks for a member without an id, and fails",
        {
            line: f"B fetches offsets v{version} as None in 2: (topics=[] error_code=NONE "
            "groups=[(group_id='group' topics=[] error_code=UNKNOWN_MEMBER_ID)])"
            for line, version in ((6, 9), (11, 10))
        },
    ),
}


def expected(name: str, recorded: list[str]) -> list[str]:
    """What our broker has to answer, given what Kafka answered."""
    lines = list(recorded)
    if name in DIFFERENCES:
        for number, line in DIFFERENCES[name].lines.items():
            assert lines[number - 1] != line, "it is no difference"
            lines[number - 1] = line
    return lines
