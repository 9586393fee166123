"""What exists while questions are asked, and how it becomes again what it was.

Two of each: what is `mine`, which the ACLs of most situations are about, and what is `theirs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from tests.broker.group_requests import GROUP_KEY, SUBSCRIPTION, TRANSACTION_KEY
from tests.broker.requests import eventually, sequenced
from tests.security.kafka_answers.answer_text import MADE_UP
from tests.security.kafka_answers.stage import Stage

from ottla.errors import ErrorCode

MINE, THEIRS = "mine", "theirs"
BOTH: Final = (MINE, THEIRS)
# The ids of topics that do not exist.
GONE: Final = {"mine-gone": UUID(int=1 << 80 | 1), "theirs-gone": UUID(int=1 << 80 | 2)}
FOUR: Final = (*BOTH, *GONE)
WAIT_SECONDS = 60.0
SESSION_MS = 1_800_000
_COME_AGAIN = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


SCRAM_SHA_256, SCRAM_SHA_512 = 1, 2
QUOTAS: Final = (
    ([("user", "mine")], "producer_byte_rate"),
    ([("user", "mine"), ("client-id", "app")], "consumer_byte_rate"),
    ([("user", "theirs"), ("client-id", None)], "request_percentage"),
    ([("user", None)], "controller_mutation_rate"),
    ([("client-id", "app")], "producer_byte_rate"),
    ([("ip", "10.9.8.7")], "connection_creation_rate"),
)
CREDENTIALS: Final = (
    ("mine", SCRAM_SHA_256),
    ("theirs", SCRAM_SHA_256),
    ("theirs", SCRAM_SHA_512),
)


def scram_credential(name: str, mechanism: int) -> dict[str, Any]:
    """One that can be set."""
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": 4096,
        "salt": b"some salt",
        "salted_password": b"p" * (64 if mechanism == SCRAM_SHA_512 else 32),
    }


class World:
    """Topics `mine` and `theirs` with one record of a producer that is still known; for writing `-log`, for deleting
    `-doomed`. Groups of those names with a classic member, `-new` with a member of the new protocol, and `-idle` with
    committed offsets only. Transactions of those names, open, with both topics. Some quotas and credentials of users.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.topic_ids: dict[str, UUID] = dict(GONE)
        for name, topic_id in GONE.items():
            stage.topics[topic_id] = f"id-of-{name}"
        for suffix in ("", "-log", "-doomed"):
            self.create_topics(name + suffix for name in BOTH)
        for key_type in (GROUP_KEY, TRANSACTION_KEY):
            self._find_coordinators(key_type)
        for name in BOTH:
            self._write(name)
            self._join(name)
            self._join_new(f"{name}-new")
            self._begin(name)
        self.commit_idle()
        self._add_users()

    def by_id(self, names: Iterable[str]) -> list[UUID]:
        return [self.topic_ids[name] for name in names]

    # Topics.

    def create_topics(self, names: Iterable[str]) -> None:
        """Those of the topics that do not exist, each with a partition."""
        missing = [name for name in names if not self._exists(name)]
        if not missing:
            return
        answer = self.stage.call(
            "CreateTopics",
            topics=[
                {"name": name, "num_partitions": 1, "replication_factor": 1} for name in missing
            ],
            timeout_ms=10_000,
        )
        assert all(topic.error_code == ErrorCode.NONE for topic in answer.topics), answer
        for name in missing:
            assert eventually(lambda: self._exists(name), WAIT_SECONDS), name  # noqa: B023

    def delete_topics(self, names: Iterable[str]) -> None:
        """Those of the topics that exist."""
        existing = [name for name in names if self._exists(name)]
        if not existing:
            return
        self.stage.call(
            "DeleteTopics", topics=[{"name": name} for name in existing], timeout_ms=10_000
        )
        for name in existing:
            assert eventually(lambda: not self._exists(name), WAIT_SECONDS), name  # noqa: B023

    def delete_made(self, made: Iterable[str]) -> None:
        """Topics that a caller has created; a broker may hear of them later."""
        names = list(made)
        for name in names:
            assert eventually(lambda: self._exists(name), WAIT_SECONDS), name  # noqa: B023
        self.delete_topics(names)

    def recreate(self, deleted: Iterable[str]) -> None:
        """Topics that a caller has deleted; a broker may hear of it later."""
        names = list(deleted)
        for name in names:
            assert eventually(lambda: not self._exists(name), WAIT_SECONDS), name  # noqa: B023
        self.create_topics(names)

    def _exists(self, name: str) -> bool:
        (topic,) = self.stage.call(
            "Metadata", topics=[{"name": name}], allow_auto_topic_creation=False
        ).topics
        if topic.error_code != ErrorCode.NONE or topic.partitions[0].error_code != ErrorCode.NONE:
            return False
        self.topic_ids[name] = topic.topic_id
        self.stage.topics[topic.topic_id] = f"id-of-{name}"
        return True

    def _write(self, topic: str) -> None:
        made = self.reliably(
            "InitProducerId", transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1
        )
        batch = sequenced(made.producer_id, 0)
        answer = self.stage.call(
            "Produce",
            version=12,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": batch}]}],
        )
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer

    # Groups.

    def _find_coordinators(self, key_type: int) -> None:
        """The first question creates the internal topic."""

        def are_there() -> bool:
            found = self.stage.call(
                "FindCoordinator", key_type=key_type, coordinator_keys=list(BOTH)
            ).coordinators
            return all(one.error_code == ErrorCode.NONE for one in found)

        assert eventually(are_there, WAIT_SECONDS), key_type

    def commit_idle(self) -> None:
        """Offsets of both topics in both idle groups."""
        for name in BOTH:
            self.commit(f"{name}-idle")

    def commit(self, group: str, member_id: str = "", generation: int = -1) -> None:
        def commits() -> bool:
            answer = self.stage.call(
                "OffsetCommit",
                version=9,
                group_id=group,
                member_id=member_id,
                generation_id_or_member_epoch=generation,
                topics=[
                    {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
                    for topic in BOTH
                ],
            )
            return all(
                partition.error_code == ErrorCode.NONE
                for topic in answer.topics
                for partition in topic.partitions
            )

        assert eventually(commits, WAIT_SECONDS), group

    def delete_groups(self, groups: Iterable[str]) -> None:
        self.stage.call("DeleteGroups", groups_names=list(groups))

    def _join(self, group: str) -> None:
        """A classic member in a stable generation, with offsets."""
        fields: dict[str, Any] = {
            "group_id": group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        }
        member_id = self.reliably("JoinGroup", **fields).member_id
        joined = self.reliably("JoinGroup", member_id=member_id, **fields)
        assert joined.error_code == ErrorCode.NONE, joined
        self.reliably(
            "SyncGroup",
            group_id=group,
            member_id=member_id,
            generation_id=joined.generation_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": member_id, "assignment": b"all"}],
        )
        self.stage.names[member_id] = f"member-of-{group}"
        self.commit(group, member_id, joined.generation_id)

    def _join_new(self, group: str) -> None:
        """A member of the new protocol that has been assigned both topics."""
        member_id = f"member-of-{group}"

        def beats(epoch: int, **fields: Any) -> Any:
            return self.reliably(
                "ConsumerGroupHeartbeat",
                group_id=group,
                member_id=member_id,
                member_epoch=epoch,
                rebalance_timeout_ms=SESSION_MS,
                **fields,
            )

        answer = beats(0, subscribed_topic_names=list(BOTH), topic_partitions=[])
        owned: list[dict[str, Any]] = []
        for _ in range(100):
            assert answer.error_code == ErrorCode.NONE, answer
            if answer.assignment is not None:
                owned = [
                    {"topic_id": one.topic_id, "partitions": one.partitions}
                    for one in answer.assignment.topic_partitions
                ]
            answer = beats(answer.member_epoch, topic_partitions=owned)
            (group_found,) = self.stage.call("ConsumerGroupDescribe", group_ids=[group]).groups
            if len(owned) == len(BOTH) and group_found.group_state == "Stable":
                return
        raise AssertionError(group_found)

    def leave(self, group: str, member_id: str) -> None:
        """A member of the new protocol goes, and with it the group."""
        self.stage.call(
            "ConsumerGroupHeartbeat", group_id=group, member_id=member_id, member_epoch=-1
        )
        self.delete_groups([group])

    # Transactions.

    def _begin(self, name: str) -> None:
        made = self.reliably(
            "InitProducerId",
            transactional_id=name,
            transaction_timeout_ms=900_000,
            producer_id=-1,
            producer_epoch=-1,
        )

        def adds() -> bool:
            answer = self.stage.call(
                "AddPartitionsToTxn",
                version=3,
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=made.producer_id,
                v3_and_below_producer_epoch=made.producer_epoch,
                v3_and_below_topics=[{"name": topic, "partitions": [0]} for topic in BOTH],
            )
            return all(
                result.partition_error_code == ErrorCode.NONE
                for topic in answer.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            )

        assert eventually(adds, WAIT_SECONDS), name
        assert made.producer_id != MADE_UP

    # Users.

    def _add_users(self) -> None:
        answer = self.stage.call(
            "AlterClientQuotas",
            entries=[
                {
                    "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                    "ops": [{"key": key, "value": 1e9 if "rate" in key else 1e6}],
                }
                for entity, key in QUOTAS
            ],
        )
        assert all(entry.error_code == ErrorCode.NONE for entry in answer.entries), answer
        # A request may name a user once.
        for name, mechanism in CREDENTIALS:
            credential = scram_credential(name, mechanism)
            answer = self.stage.call("AlterUserScramCredentials", upsertions=[credential])
            assert answer.results[0].error_code == ErrorCode.NONE, answer
        assert eventually(lambda: len(self._quotas()) == len(QUOTAS), WAIT_SECONDS)
        assert eventually(lambda: self._credentials() == set(CREDENTIALS), WAIT_SECONDS)

    def _quotas(self) -> list[Any]:
        found: list[Any] = self.stage.call("DescribeClientQuotas", components=[]).entries
        return found

    def _credentials(self) -> set[tuple[str, int]]:
        return {
            (result.user, info.mechanism)
            for result in self.stage.call("DescribeUserScramCredentials", users=None).results
            for info in result.credential_infos
        }

    def remove_other_quotas(self) -> None:
        """Those that a question has set; a broker may hear of them later."""
        self.stage.settle()
        kept = [sorted(entity, key=str) for entity, _ in QUOTAS]
        others = [
            entry
            for entry in self._quotas()
            if sorted(((one.entity_type, one.entity_name) for one in entry.entity), key=str)
            not in kept
        ]
        if not others:
            return
        self.stage.call(
            "AlterClientQuotas",
            entries=[
                {
                    "entity": [
                        {"entity_type": one.entity_type, "entity_name": one.entity_name}
                        for one in entry.entity
                    ],
                    "ops": [{"key": value.key, "remove": True} for value in entry.values],
                }
                for entry in others
            ],
        )
        assert eventually(lambda: len(self._quotas()) == len(QUOTAS), WAIT_SECONDS)

    def remove_other_credentials(self) -> None:
        """Those that a question has set; a broker may hear of them later."""
        self.stage.settle()
        others = self._credentials() - set(CREDENTIALS)
        if not others:
            return
        for name, mechanism in sorted(others):
            self.stage.call(
                "AlterUserScramCredentials", deletions=[{"name": name, "mechanism": mechanism}]
            )
        assert eventually(lambda: self._credentials() == set(CREDENTIALS), WAIT_SECONDS)

    def reliably(self, api: str, **fields: Any) -> Any:
        """Asks again until the coordinator is there."""
        answer: Any = None

        def is_ready() -> bool:
            nonlocal answer
            answer = self.stage.call(api, **fields)
            return answer.error_code not in _COME_AGAIN

        assert eventually(is_ready, WAIT_SECONDS), answer
        return answer
