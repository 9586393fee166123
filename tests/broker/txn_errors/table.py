"""What is answered to whom: the rules as a function, for this broker and for Apache Kafka."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from tests.broker import txn_requests as ask
from tests.broker.group_requests import await_coordinator
from tests.broker.requests import create
from tests.broker.txn_errors.stage import REQUESTS, STATES, answers

from ottla.client.raw import RawConnection
from ottla.model import coordinator_partition

PARTITIONS = 2
MAPPING = "INVALID_PRODUCER_ID_MAPPING"
INVALID_STATE = "INVALID_TXN_STATE"
ABORTABLE = "TRANSACTION_ABORTABLE"
OLD_EPOCH = "INVALID_PRODUCER_EPOCH"
# The first versions whose clients know PRODUCER_FENCED (KIP-588), TRANSACTION_ABORTABLE, and transaction version 2.
KNOWS_FENCED = {"Init": 4, "AddP": 2, "AddO": 2, "EndT": 2}
KNOWS_ABORTABLE = {"Prod": 11, "TxnO": 4}
VERSION_2_SINCE = {"Prod": 12, "TxnO": 5, "EndT": 5}


class Situation(NamedTuple):
    request: str
    state: str
    relation: str

    def __str__(self) -> str:
        return f"{self.request}: {self.state}, {self.relation}"


SITUATIONS = [
    Situation(request, state, relation)
    for request, asked in REQUESTS.items()
    for state in STATES
    for relation in asked.relations
]


def expected(situation: Situation, version: int) -> str:
    """What this broker answers."""
    request, state, relation = situation
    api = request[:4]
    if request == "InitProducerId":
        return _expected_init(state)
    if state == "unknown":
        return "another id" if api == "Init" else MAPPING
    fenced = "PRODUCER_FENCED" if version >= KNOWS_FENCED.get(api, version + 1) else OLD_EPOCH
    if relation == "stranger":
        return fenced if api == "Init" else MAPPING
    is_right = relation == "current" and "fenced" not in state
    if api == "Init":
        return _expected_again(state, relation, is_right, fenced)
    if api == "EndT":
        return _expected_end(situation, version, is_right, fenced)
    if not is_right:
        return fenced
    if "verify" in request:
        return f"NONE, {ABORTABLE}" if "ongoing" in state else ABORTABLE
    if api in ("AddP", "AddO") or (api == "Prod" and "ongoing" in state):
        return "NONE"
    # The partition is not part of the transaction; since version 2 writing to it makes it one.
    if version >= VERSION_2_SINCE[api]:
        return "NONE"
    return ABORTABLE if version >= KNOWS_ABORTABLE[api] else INVALID_STATE


def _expected_init(state: str) -> str:
    if state == "unknown":
        return "another id"
    if "ongoing" in state:
        return "CONCURRENT_TRANSACTIONS"
    # Fencing took one epoch, and the new producer another.
    return "epoch +3" if "fenced" in state else "epoch +1"


def _expected_again(state: str, relation: str, is_right: bool, fenced: str) -> str:
    if is_right:
        return "CONCURRENT_TRANSACTIONS" if "ongoing" in state else "epoch +1"
    # The end of the transaction made the epoch a new one, which the client may not have heard.
    is_repeated = relation == "older" and state in ("committed v2", "aborted v2")
    return "epoch +0" if is_repeated else fenced


def _expected_end(situation: Situation, version: int, is_right: bool, fenced: str) -> str:
    request, state, relation = situation
    is_v2 = version >= VERSION_2_SINCE["EndT"]
    aborts = request == "EndTxn, abort"
    ended_the_same = state.startswith("aborted" if aborts else "committed")
    if is_v2 and state in ("committed v2", "aborted v2") and relation == "older":
        if not ended_the_same:
            # Who wants to commit what was aborted was too late, most probably (KAFKA-20785).
            return INVALID_STATE if aborts else fenced
        return "epoch +0"
    if not is_right:
        return fenced
    if "ongoing" in state:
        return "epoch +1" if is_v2 else "NONE"
    if is_v2:
        return "epoch +1" if aborts else INVALID_STATE
    return "NONE" if ended_the_same else INVALID_STATE


# What Kafka answers differently; the versions that are not here are answered as above.
_LENIENT = "a call of before the transaction began would end it"
_FENCED = "the epoch before one of version 1 is that of a producer which was fenced (ADR 0014)"
DIFFERENT = {
    **{
        Situation("InitProducerId, saying who it was", state, relation): (
            dict.fromkeys((3, 5), "CONCURRENT_TRANSACTIONS"),
            _LENIENT,
        )
        for state in ("ongoing v1", "ongoing v2", "next ongoing v1", "next ongoing v2")
        for relation in ("older", "newer")
    },
    Situation("EndTxn, commit", "committed v1", "older"): ({5: "epoch +0"}, _FENCED),
    Situation("EndTxn, commit", "aborted v1", "older"): ({5: INVALID_STATE}, _FENCED),
    Situation("EndTxn, abort", "committed v1", "older"): ({5: INVALID_STATE}, _FENCED),
    Situation("EndTxn, abort", "aborted v1", "older"): ({5: "epoch +0"}, _FENCED),
    Situation("EndTxn, commit", "aborted v2", "older"): (
        {5: INVALID_STATE},
        "older than KAFKA-20785",
    ),
}


def expected_of_kafka(situation: Situation, version: int) -> str:
    different, _ = DIFFERENT.get(situation, ({}, ""))
    return different.get(version) or expected(situation, version)


class Ready(NamedTuple):
    """A broker that coordinates, with a topic and a group."""

    address: str
    topic: str
    group: str

    def answers(self, situation: Situation) -> dict[int, str]:
        return answers(self.address, self.topic, self.group, *situation)


def prepare(address: str) -> Ready:
    topic, group = f"t-{uuid.uuid4().hex[:12]}", f"g-{uuid.uuid4().hex[:12]}"
    with RawConnection(address) as connection:
        create(connection, topic, PARTITIONS)
        await_coordinator(connection, group)
        ask.await_coordinator(connection, "id")
        # One id for every partition of the transactions topic: Kafka loads each of them by itself.
        ids = (f"id-{number}" for number in range(5000))
        for transactional_id in {coordinator_partition(name, 50): name for name in ids}.values():
            ask.become(connection, transactional_id)
    return Ready(address, topic, group)
