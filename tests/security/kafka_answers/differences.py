"""Where our broker answers otherwise than Apache Kafka on purpose, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Difference(NamedTuple):
    """Text of Kafka's answers of an API, and what stands for it in ours."""

    api: str
    why: str
    texts: Mapping[str, str]


_CREATED = "(NONE name={}-auto topic_id=an-id partitions=[(NONE)])"
_CREATED_SOON = "(UNKNOWN_TOPIC_OR_PARTITION name={}-auto)"
_REFUSED = "(TOPIC_AUTHORIZATION_FAILED name={}-auto)"
_READ = "partitions=[(NONE last_stable_offset=1 log_start_offset=0 records=72 bytes)]"

DIFFERENCES: Final = (
    Difference(
        "Metadata",
        "a topic that is created by asking for it exists when the answer is sent",
        {
            f"    {_CREATED_SOON}\n    {_CREATED_SOON}\n".format("mine", "theirs"): (
                f"    {_CREATED}\n    {_CREATED}\n".format("mine", "theirs")
            ),
            **{
                f"    {_REFUSED}\n    {_CREATED_SOON}\n".format(refused, created): (
                    f"    {_CREATED}\n    {_REFUSED}\n".format(created, refused)
                )
                for refused, created in (("mine", "theirs"), ("theirs", "mine"))
            },
        },
    ),
    Difference(
        "AlterClientQuotas",
        "a quota that is not a number would be in force as nothing that anybody expects",
        {
            "v1: nothing\nv1: not a number\n": "v1: nothing\n",
            "v1: less than zero\n": "v1: less than zero\nv1: not a number\n",
        },
    ),
    Difference(
        "AlterUserScramCredentials",
        "an empty key is the caller's fault, not an error of the server",
        {"(user=bob UNKNOWN_SERVER_ERROR)": '(user=bob UNACCEPTABLE_CREDENTIAL "Empty key")'},
    ),
    Difference(
        "FindCoordinator",
        "there are no share groups: a coordinator that may come later would be waited for",
        {
            f"(key={name}:AAAAAAAAAAAAAAAAAAAAAQ:0 node_id=-1 COORDINATOR_NOT_AVAILABLE)": (
                f"(key={name}:AAAAAAAAAAAAAAAAAAAAAQ:0 node_id=-1 INVALID_REQUEST)"
            )
            for name in ("mine", "theirs")
        },
    ),
    Difference(
        "Fetch",
        "there are no replicas to which a partition could belong: a replica reads as a consumer",
        {
            "partitions=[(NOT_LEADER_OR_FOLLOWER records=0 bytes)]": _READ,
            "partitions=[(NOT_LEADER_OR_FOLLOWER current_leader=() records=0 bytes)]": _READ,
        },
    ),
)


def expected(recorded: Mapping[str, str]) -> dict[str, str]:
    """What our broker has to answer, given what Kafka answered."""
    texts = dict(recorded)
    for difference in DIFFERENCES:
        if difference.api in texts:
            for theirs, ours in difference.texts.items():
                assert theirs in texts[difference.api], "it is no difference"
                texts[difference.api] = texts[difference.api].replace(theirs, ours)
    return texts
