"""Credentials and quotas of users; odd requests about them are asked as a super user."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.situations import CLUSTER
from tests.security.kafka_answers.world import SCRAM_SHA_256, SCRAM_SHA_512, World, scram_credential

EXACT, DEFAULT, ANY = 0, 1, 2
RATE = "producer_byte_rate"
Entity = Sequence[tuple[str, str | None]]
BOB: Entity = [("user", "bob")]
MOST_ITERATIONS = 16_384


def _entry(entity: Entity, *ops: tuple[str, float | None]) -> dict[str, Any]:
    """Quotas of an entity by their names; None removes one."""
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops],
    }


ALTERATIONS = {
    "a rate": [_entry(BOB, (RATE, 1000.0))],
    "of a user and a client id": [_entry([*BOB, ("client-id", "app")], (RATE, 1000.0))],
    "of every user": [_entry([("user", None)], (RATE, 1e12))],
    "of an address": [_entry([("ip", "10.1.2.3")], ("connection_creation_rate", 100.0))],
    "of an address of IPv6": [_entry([("ip", "::1")], ("connection_creation_rate", 100.0))],
    "a rate of an address": [_entry([("ip", "10.1.2.3")], (RATE, 100.0))],
    "connections of a user": [_entry(BOB, ("connection_creation_rate", 100.0))],
    "of what is no address": [_entry([("ip", "1.2.3")], ("connection_creation_rate", 100.0))],
    "of an empty address": [_entry([("ip", "")], ("connection_creation_rate", 100.0))],
    "half a connection": [_entry([("ip", "10.1.2.3")], ("connection_creation_rate", 0.5))],
    "an unknown quota": [_entry(BOB, ("nonsense", 1.0))],
    "an unknown type": [_entry([("machine", "bob")], (RATE, 1.0))],
    "an empty type": [_entry([("", "bob")], (RATE, 1.0))],
    "no entity": [_entry([], (RATE, 1.0))],
    "an empty user": [_entry([("user", "")], (RATE, 1.0))],
    "an empty client id": [_entry([("client-id", "")], (RATE, 1.0))],
    "two users": [_entry([*BOB, ("user", "carol")], (RATE, 1.0))],
    "a user and an address": [_entry([*BOB, ("ip", "10.1.2.3")], (RATE, 1.0))],
    "nothing": [_entry(BOB)],
    "no entries": [],
    "zero": [_entry(BOB, (RATE, 0.0))],
    "less than zero": [_entry(BOB, (RATE, -1.0))],
    "half a byte": [_entry(BOB, (RATE, 0.5))],
    "more than a long": [_entry(BOB, (RATE, 1e30))],
    "not a number": [_entry(BOB, (RATE, math.nan))],
    "without an end": [_entry(BOB, (RATE, math.inf))],
    "half a percent": [_entry(BOB, ("request_percentage", 0.5))],
    "half a mutation": [_entry(BOB, ("controller_mutation_rate", 0.5))],
    "what is not there is removed": [_entry(BOB, (RATE, None))],
    "one twice": [_entry(BOB, (RATE, 1.0), (RATE, 2.0))],
    "set and removed": [_entry(BOB, (RATE, 1.0), (RATE, None))],
    "a user twice": [_entry(BOB, (RATE, 1.0)), _entry(BOB, ("consumer_byte_rate", 2.0))],
    "a good one and a bad one": [_entry(BOB, (RATE, 1.0)), _entry(BOB, ("nonsense", 1.0))],
    "good and bad in one": [_entry(BOB, (RATE, 1.0), ("nonsense", 1.0))],
    "a name with spaces and signs": [_entry([("user", "bob & zoë/%")], (RATE, 1.0))],
}
_Component = tuple[str, int, str | None]
FILTERS: dict[str, list[_Component]] = {
    "no filter": [],
    "a user": [("user", EXACT, "mine")],
    "a user without quotas": [("user", EXACT, "bob")],
    "the default of users": [("user", DEFAULT, None)],
    "any user": [("user", ANY, None)],
    "any client id": [("client-id", ANY, None)],
    "a user with any client id": [("user", EXACT, "mine"), ("client-id", ANY, None)],
    "any address": [("ip", ANY, None)],
    "an unknown type": [("machine", ANY, None)],
    "an empty type": [("", ANY, None)],
    "a user without a name": [("user", EXACT, None)],
    "a default with a name": [("user", DEFAULT, "mine")],
    "any with a name": [("user", ANY, "mine")],
    "an unknown match": [("user", 7, None)],
    "a user twice": [("user", ANY, None), ("user", EXACT, "mine")],
    "users and addresses": [("user", ANY, None), ("ip", ANY, None)],
}


def _filter(components: Sequence[_Component]) -> list[dict[str, Any]]:
    return [
        {"entity_type": kind, "match_type": match_type, "match": match}
        for kind, match_type, match in components
    ]


def _set(name: str, mechanism: int = SCRAM_SHA_256, **fields: Any) -> dict[str, Any]:
    return {**scram_credential(name, mechanism), **fields}


def _removed(name: str, mechanism: int = SCRAM_SHA_256) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


CREDENTIALS: dict[str, dict[str, list[dict[str, Any]]]] = {
    "one": {"upsertions": [_set("bob")]},
    "of both mechanisms": {"upsertions": [_set("bob"), _set("bob", SCRAM_SHA_512)]},
    "twice": {"upsertions": [_set("bob"), _set("bob")]},
    "set and removed": {"upsertions": [_set("bob")], "deletions": [_removed("bob")]},
    "one set, another removed": {
        "upsertions": [_set("bob", SCRAM_SHA_512)],
        "deletions": [_removed("bob")],
    },
    "removed twice": {"deletions": [_removed("bob"), _removed("bob")]},
    "removed of a user without any": {"deletions": [_removed("bob")]},
    "removed of another mechanism": {"deletions": [_removed("mine", SCRAM_SHA_512)]},
    "no mechanism": {"upsertions": [_set("bob", 0)]},
    "an unknown mechanism": {"upsertions": [_set("bob", 9)]},
    "an unknown mechanism removed": {"deletions": [_removed("mine", 9)]},
    "too few iterations": {"upsertions": [_set("bob", iterations=4095)]},
    "too few iterations of the other": {
        "upsertions": [_set("bob", SCRAM_SHA_512, iterations=4095)]
    },
    "the most iterations": {"upsertions": [_set("bob", iterations=MOST_ITERATIONS)]},
    "too many iterations": {"upsertions": [_set("bob", iterations=MOST_ITERATIONS + 1)]},
    "an empty name": {"upsertions": [_set("")]},
    "an empty name removed": {"deletions": [_removed("")]},
    "no salt": {"upsertions": [_set("bob", salt=b"")]},
    "no password": {"upsertions": [_set("bob", salted_password=b"")]},
    "a short password": {"upsertions": [_set("bob", salted_password=b"short")]},
    "a good one and a bad one": {"upsertions": [_set("bob"), _set("carol", iterations=1)]},
    "a good one and a bad one of a user": {
        "upsertions": [_set("bob"), _set("bob", SCRAM_SHA_512, iterations=1)]
    },
    "nothing": {},
}
USERS: dict[str, list[str] | None] = {
    "all": None,
    "none named": [],
    "one": ["mine"],
    "one with two": ["theirs"],
    "one without any": ["bob"],
    "one twice": ["mine", "mine"],
    "an empty name": [""],
    "several": ["mine", "bob", "theirs"],
}


def _remove_quotas(world: World, _: Any) -> None:
    world.remove_other_quotas()


def _remove_credentials(world: World, _: Any) -> None:
    world.remove_other_credentials()


def _questions() -> Iterator[Question]:
    for words, entries in ALTERATIONS.items():
        yield Question(
            "AlterClientQuotas", [1], words, {"entries": entries}, None, restore=_remove_quotas
        )
    for words, components in FILTERS.items():
        for strictness, strict in (("", False), (", strictly", True)):
            yield Question(
                "DescribeClientQuotas",
                [0, 1],
                words + strictness,
                {"components": _filter(components), "strict": strict},
                None,
            )
    for words, fields in CREDENTIALS.items():
        yield Question(
            "AlterUserScramCredentials", [0], words, fields, None, restore=_remove_credentials
        )
    for words, names in USERS.items():
        users = None if names is None else [{"name": name} for name in names]
        yield Question("DescribeUserScramCredentials", [0], words, {"users": users}, None)


QUESTIONS = [
    Question(
        "DescribeUserScramCredentials",
        [0],
        "of bob, who has none",
        {"users": [{"name": "bob"}]},
        [CLUSTER],
    ),
    Question(
        "AlterUserScramCredentials",
        [0],
        "of bob, who has none",
        {"deletions": [{"name": "bob", "mechanism": 1}]},
        [CLUSTER],
    ),
    Question("DescribeClientQuotas", [0, 1], "all", {"components": []}, [CLUSTER]),
    Question(
        "AlterClientQuotas",
        [0, 1],
        "of bob, only validated",
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "bob"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1000.0}],
                }
            ],
            "validate_only": True,
        },
        [CLUSTER],
    ),
    *_questions(),
]
