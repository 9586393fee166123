"""The catalog of the cluster: its topics, the rules for creating and changing them, and their stored form.

A decision returns `Refused` or the changes to commit; `apply` applies committed changes, at run time and at every
start alike. Keys: `topic/<name>`, `deleting/<topic id>`, `broker-config/<node id>` (without an id: for all
brokers), `group-config/<group id>`, `client-metrics/<subscription>`, `producer-ids`,
`user-scram/<mechanism>/<user>`, `login-secret`, `client-quota/<entity>`, `acl/<digest>`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ottla.access import AclBinding
from ottla.core.outcomes import Refused
from ottla.core.security.acl_changes import acl_id, acl_of_stored, stored_acl
from ottla.core.security.acls import AclTable
from ottla.core.security.quotas.entities import QuotaEntity
from ottla.core.security.quotas.table import QuotaTable
from ottla.core.security.scram_credentials import ScramCredential, Users
from ottla.core.security.scram_formulas import BY_SASL_NAME, ScramMechanism
from ottla.errors import ErrorCode
from ottla.model import topic_name_problem

MAX_PARTITIONS_PER_REQUEST = 10_000
GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = (GROUPS_TOPIC, TRANSACTIONS_TOPIC)
METADATA_TOPIC = "__cluster_metadata"  # Kafka's own catalog: the name is reserved
UNSET = -1
PRODUCER_ID_BLOCK = 1000
PRODUCER_IDS_PER_MS = 1000
# How adopted topics were configured is unknown: nothing of them is deleted unless their options are changed.
ADOPTED_CONFIG = {"retention.ms": "-1", "retention.bytes": "-1"}
ADOPTED_INTERNAL_CONFIG = {"cleanup.policy": "compact"}

_TOPIC = "topic/"
_DELETING = "deleting/"
_BROKER_CONFIG = "broker-config/"
_CLIENT_METRICS = "client-metrics/"
_GROUP_CONFIG = "group-config/"
_PRODUCER_IDS = "producer-ids"
_USER_SCRAM = "user-scram/"
_LOGIN_SECRET = "login-secret"
_CLIENT_QUOTA = "client-quota/"
_ACL = "acl/"

Changes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; `assignments` are the replicas that a client chose for its partitions, () where none did."""

    name: str
    topic_id: uuid.UUID
    partition_count: int
    replication_factor: int
    config: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class NewTopic(NamedTuple):
    """A topic to be created; -1 is the broker's default. `assignments` are the replicas of each partition."""

    name: str
    partition_count: int
    replication_factor: int
    assignments: Mapping[int, Sequence[int]]
    config: Mapping[str, str]


class Deleted(NamedTuple):
    """A deleted topic whose data or committed offsets are not removed yet.

    Where nodes have a store each, those in `done` have done their part of it, of all that are in `nodes`.
    """

    name: str
    partition_count: int
    deleted_at_ms: int
    done: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()

    def done_of(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """The nodes that have done their part; none if there were others, which led other partitions."""
        return self.done if self.nodes == tuple(nodes) else ()


class Adopted(NamedTuple):
    """The topics and changes of an adoption, and the partitions that cannot be adopted."""

    topics: Sequence[Topic]
    changes: Changes
    problems: Sequence[str]


class Grown(NamedTuple):
    """A topic with new partitions, of which this is the first: 0 for a new topic."""

    topic: Topic
    first_partition: int


class Effects(NamedTuple):
    """What changes of the catalog mean for those who use it."""

    deleted: Sequence[Topic]
    grown: Sequence[Grown]
    alters_options: bool
    """Whether options of topics or brokers are others afterwards."""
    groups: Sequence[str]
    """Whose options are others afterwards."""


class Catalog:
    """The topics, altered options, users, quotas, ACLs and producer ids of the cluster."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[uuid.UUID, Topic] = {}
        # Rises when a topic is created or deleted, or gets partitions; and what it was when one was created last.
        self.topics_version = 0
        self.created_version = 0
        self.broker_configs: dict[str, Mapping[str, str]] = {}
        # Subscriptions to metrics of clients, by name; the number counts their changes.
        self.client_metrics: dict[str, Mapping[str, str]] = {}
        self.client_metrics_changes = 0
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.users = Users()
        # What credentials of users that do not exist are made of; empty until there are logins.
        self.login_secret = b""
        self.quotas = QuotaTable()
        self.acls = AclTable()
        self.next_producer_id = 0
        self.deleting: dict[uuid.UUID, Deleted] = {}
        # Topics by name with dots as underscores: names that differ only there would share metric names.
        self._folded: dict[str, str] = {}
        self.apply(entries)

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Applies committed changes."""
        for key, value in changes.items():
            if key.startswith(_TOPIC):
                self._apply_topic(key.removeprefix(_TOPIC), value)
            elif key.startswith(_DELETING):
                self._apply_deleting(uuid.UUID(key.removeprefix(_DELETING)), value)
            elif key.startswith(_BROKER_CONFIG):
                self.broker_configs[key.removeprefix(_BROKER_CONFIG)] = value or {}
            elif key.startswith(_CLIENT_METRICS):
                self._apply_client_metrics(key.removeprefix(_CLIENT_METRICS), value)
            elif key.startswith(_GROUP_CONFIG):
                self._apply_group_config(key.removeprefix(_GROUP_CONFIG), value)
            elif key.startswith(_USER_SCRAM):
                self._apply_user_scram(key.removeprefix(_USER_SCRAM), value)
            elif key == _LOGIN_SECRET:
                self.login_secret = bytes.fromhex(value)
            elif key.startswith(_CLIENT_QUOTA):
                self._apply_client_quota(key.removeprefix(_CLIENT_QUOTA), value)
            elif key.startswith(_ACL):
                self._apply_acl(key.removeprefix(_ACL), value)
            elif key == _PRODUCER_IDS:
                self.next_producer_id = value

    def effects_of(self, changes: Mapping[str, Any]) -> Effects:
        """What changes mean that are not applied yet."""
        deleted: list[Topic] = []
        grown: list[Grown] = []
        groups: list[str] = []
        alters_options = False
        for key, value in changes.items():
            if key.startswith(_TOPIC):
                name = key.removeprefix(_TOPIC)
                old = self.topics.get(name)
                new = None if value is None else _topic_of(name, value)
                is_same = old is not None and new is not None and old.topic_id == new.topic_id
                if old is not None and not is_same:
                    deleted.append(old)
                if new is not None:
                    first = old.partition_count if old is not None and is_same else 0
                    if first < new.partition_count:
                        grown.append(Grown(new, first))
                    alters_options |= is_same and old is not None and old.config != new.config
            elif key.startswith(_BROKER_CONFIG):
                alters_options = True
            elif key.startswith(_GROUP_CONFIG):
                groups.append(key.removeprefix(_GROUP_CONFIG))
        return Effects(deleted, grown, alters_options, groups)

    def _apply_topic(self, name: str, value: Any) -> None:
        old = self.topics.pop(name, None)
        if old is not None:
            del self.topics_by_id[old.topic_id]
            del self._folded[folded_name(name)]
        if value is None:
            self.topics_version += 1
            return
        topic = _topic_of(name, value)
        self.topics[name] = topic
        self.topics_by_id[topic.topic_id] = topic
        self._folded[folded_name(name)] = name
        if old is None or old.topic_id != topic.topic_id:
            self.topics_version += 1
            self.created_version = self.topics_version
        elif old.partition_count != topic.partition_count:
            self.topics_version += 1

    def _apply_group_config(self, group_id: str, value: Any) -> None:
        if value is None:
            self.group_configs.pop(group_id, None)
        else:
            self.group_configs[group_id] = value

    def _apply_user_scram(self, name: str, value: Any) -> None:
        mechanism, _, user = name.partition("/")
        self.users.apply(BY_SASL_NAME[mechanism], user, value)

    def _apply_client_quota(self, key: str, value: Any) -> None:
        stored = value or {"quotas": {}, "address": None}
        self.quotas.apply(QuotaEntity.of_key(key), stored["quotas"], stored["address"])

    def _apply_acl(self, its_id: str, value: Any) -> None:
        if value is None:
            self.acls.remove(its_id)
        else:
            self.acls.put(its_id, acl_of_stored(value))

    def _apply_deleting(self, topic_id: uuid.UUID, value: Any) -> None:
        if value is None:
            self.deleting.pop(topic_id, None)
        else:
            # Early catalogs do not have the time of a deletion.
            self.deleting[topic_id] = Deleted(
                value["name"],
                value["partitions"],
                value.get("deleted_at_ms", 0),
                tuple(value.get("done", ())),
                tuple(value.get("nodes", ())),
            )

    def _apply_client_metrics(self, name: str, value: Any) -> None:
        self.client_metrics_changes += 1
        if value is None:
            self.client_metrics.pop(name, None)
        else:
            self.client_metrics[name] = value

    def create(
        self,
        new: NewTopic,
        topic_id: uuid.UUID,
        live_nodes: Sequence[int],
        default_partitions: int,
        default_replication_factor: int,
    ) -> Changes | Refused:
        """Creates a topic; the caller has checked its config."""
        refused = self.check_new_name(new.name)
        if refused is not None:
            return refused
        shape = _shape(new, live_nodes, default_partitions, default_replication_factor)
        if isinstance(shape, Refused):
            return shape
        partition_count, replication_factor = shape
        assignments = [new.assignments[number] for number in range(len(new.assignments))]
        return _topic_change(
            Topic(
                new.name,
                topic_id,
                partition_count,
                replication_factor,
                dict(new.config),
                assignments if len(live_nodes) > 1 else (),
            )
        )

    def check_new_name(self, name: str) -> Refused | None:
        refused = check_name(name)
        if refused is not None:
            return refused
        if name == METADATA_TOPIC:
            return Refused(ErrorCode.INVALID_REQUEST, f"the name '{name}' is reserved")
        for internal in INTERNAL_TOPICS:
            # Internal topics are created when they are first used: their names must be free until then.
            if name != internal and folded_name(name) == folded_name(internal):
                return collision(name, internal)
        if name in self.topics:
            return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic '{name}' exists already")
        other = self._folded.get(folded_name(name))
        if other is not None:
            return collision(name, other)
        return None

    def delete(self, topic: Topic, now_ms: int) -> Changes:
        """Deletes a topic; its data is removed later, after which `deleted` is called."""
        return {
            _TOPIC + topic.name: None,
            _DELETING + str(topic.topic_id): _deleting_value(
                Deleted(topic.name, topic.partition_count, now_ms)
            ),
        }

    def deleted_by(
        self, topic_ids: Iterable[uuid.UUID], done: Sequence[int], nodes: Sequence[int]
    ) -> Changes:
        """Some nodes, of all that have a part in it, have done theirs of deletions; the last of them complete it."""
        changes: Changes = {}
        for topic_id in topic_ids:
            deleted = self.deleting.get(topic_id)
            if deleted is None:
                continue
            all_done = sorted({*deleted.done_of(nodes), *done})
            if all(node in all_done for node in nodes):
                changes[_DELETING + str(topic_id)] = None
            else:
                made = deleted._replace(done=tuple(all_done), nodes=tuple(nodes))
                changes[_DELETING + str(topic_id)] = _deleting_value(made)
        return changes

    def add_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        live_nodes: Sequence[int],
    ) -> Changes | Refused:
        """Grows a topic to `count` partitions."""
        topic = self.topics.get(name)
        if topic is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
        if topic.is_internal:
            # In Kafka it can grow, which loses the groups whose names then hash to another partition.
            return Refused(
                ErrorCode.INVALID_REQUEST,
                f"'{name}' keeps its number of partitions: groups and transactions are found by it",
            )
        if count == topic.partition_count:
            return Refused(
                ErrorCode.INVALID_PARTITIONS, f"topic '{name}' already has {count} partition(s)"
            )
        if count < topic.partition_count:
            return Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"topic '{name}' has {topic.partition_count} partition(s), which is more than {count}: "
                "partitions cannot be taken away",
            )
        added = count - topic.partition_count
        if added > MAX_PARTITIONS_PER_REQUEST:
            return Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"{added} new partitions at once are more than {MAX_PARTITIONS_PER_REQUEST}",
            )
        if assignments is not None:
            if len(assignments) != added:
                return Refused(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{added} partition(s) are added, but {len(assignments)} assignment(s) are given",
                )
            refused = _check_replicas(assignments, live_nodes, topic.replication_factor)
            if refused is not None:
                return refused
        chosen = topic.assignments
        if assignments is not None and len(live_nodes) > 1:
            unassigned: list[Sequence[int]] = [()] * (topic.partition_count - len(chosen))
            chosen = [*chosen, *unassigned, *assignments]
        return _topic_change(replace(topic, partition_count=count, assignments=chosen))

    def configure(self, topic: Topic, config: Mapping[str, str]) -> Changes:
        """Replaces a topic's own configuration; the caller has checked it."""
        return _topic_change(replace(topic, config=dict(config)))

    def configure_broker(self, name: str, config: Mapping[str, str]) -> Changes:
        """Replaces the altered options of a broker or, with an empty name, of all brokers."""
        return {_BROKER_CONFIG + name: dict(config)}

    def configure_client_metrics(self, name: str, config: Mapping[str, str]) -> Changes:
        """Replaces the options of a subscription to metrics of clients; without any it is removed."""
        return {_CLIENT_METRICS + name: dict(config) or None}

    def configure_groups(self, configs: Mapping[str, Mapping[str, str]]) -> Changes:
        """Replaces the options of groups; a group without any is not kept."""
        return {
            _GROUP_CONFIG + group_id: dict(config) or None for group_id, config in configs.items()
        }

    def set_credentials(
        self, credentials: Mapping[tuple[ScramMechanism, str], ScramCredential | None]
    ) -> Changes:
        """Sets SCRAM credentials of users, or removes them."""
        return {
            f"{_USER_SCRAM}{mechanism.sasl_name}/{user}": None
            if credential is None
            else credential.to_json()
            for (mechanism, user), credential in credentials.items()
        }

    def set_login_secret(self, secret: bytes) -> Changes:
        return {_LOGIN_SECRET: secret.hex()}

    def set_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float]],
        addresses: Mapping[str, str],
    ) -> Changes:
        """Replaces the quotas of entities; `addresses` are those of the addresses and host names among them."""
        changes: Changes = {}
        for entity, values in quotas.items():
            address = addresses.get(entity.ip) if entity.ip else None
            stored = {"quotas": dict(values), "address": address}
            changes[_CLIENT_QUOTA + entity.key] = stored if values else None
        return changes

    def create_acls(self, acls: Iterable[AclBinding]) -> Changes:
        """Creates ACLs; the caller has checked them."""
        return {_ACL + acl_id(acl): stored_acl(acl) for acl in acls}

    def delete_acls(self, ids: Iterable[str]) -> Changes:
        """Deletes the ACLs with these ids."""
        return {_ACL + its_id: None for its_id in ids}

    def adopt(self, partitions: Iterable[tuple[str, int, uuid.UUID]], now_ms: int) -> Adopted:
        """Adopts partitions that the engine has and the catalog does not know, such as those of Apache Kafka."""
        ids: dict[str, uuid.UUID] = {}
        numbers: dict[str, list[int]] = {}
        ambiguous: dict[str, None] = {}
        for name, partition, topic_id in partitions:
            if ids.setdefault(name, topic_id) != topic_id:
                ambiguous[name] = None
            numbers.setdefault(name, []).append(partition)
        problems = [f"partitions of '{name}' have different topic ids" for name in ambiguous]
        topics = []
        for name, topic_id in ids.items():
            if name not in ambiguous:
                config = ADOPTED_INTERNAL_CONFIG if name in INTERNAL_TOPICS else ADOPTED_CONFIG
                topics.append(Topic(name, topic_id, max(numbers[name]) + 1, 1, config))
        changes: Changes = {}
        for topic in topics:
            changes.update(_topic_change(topic))
        if changes:
            # Above every producer id in these partitions: Kafka counts from 0 and does not come this far.
            changes[_PRODUCER_IDS] = now_ms * PRODUCER_IDS_PER_MS
        return Adopted(topics, changes, problems)

    def reserve_producer_ids(self) -> tuple[range, Changes]:
        """A block of producer ids; none of them may be used before the changes are committed."""
        end = self.next_producer_id + PRODUCER_ID_BLOCK
        return range(self.next_producer_id, end), {_PRODUCER_IDS: end}


def check_name(name: str) -> Refused | None:
    """Kafka's rules for the names of topics."""
    problem = topic_name_problem(name)
    return None if problem is None else Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def folded_name(name: str) -> str:
    """The name with dots as underscores, which no two topics may share."""
    return name.replace(".", "_")


def collision(name: str, other: str) -> Refused:
    return Refused(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"topic '{name}' collides with '{other}': '.' and '_' count as the same character",
    )


def _shape(
    new: NewTopic,
    live_nodes: Sequence[int],
    default_partitions: int,
    default_replication_factor: int,
) -> tuple[int, int] | Refused:
    """Partition count and replication factor of a new topic."""
    if new.assignments:
        return _assigned_shape(new, live_nodes)
    if new.partition_count != UNSET and new.partition_count <= 0:
        return Refused(
            ErrorCode.INVALID_PARTITIONS, f"{new.partition_count} partitions: at least 1 is needed"
        )
    partition_count = default_partitions if new.partition_count == UNSET else new.partition_count
    if partition_count > MAX_PARTITIONS_PER_REQUEST:
        return Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"{partition_count} partitions at once are more than {MAX_PARTITIONS_PER_REQUEST}",
        )
    if new.replication_factor != UNSET and new.replication_factor <= 0:
        return Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {new.replication_factor}: at least 1 is needed",
        )
    replicas = (
        default_replication_factor if new.replication_factor == UNSET else new.replication_factor
    )
    if replicas > len(live_nodes):
        return Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replicas} is larger than the number of live brokers, {len(live_nodes)}",
        )
    return partition_count, replicas


def _assigned_shape(new: NewTopic, live_nodes: Sequence[int]) -> tuple[int, int] | Refused:
    if new.partition_count != UNSET or new.replication_factor != UNSET:
        return Refused(
            ErrorCode.INVALID_REQUEST,
            "give either replica assignments, or a partition count and a replication factor, not both",
        )
    if sorted(new.assignments) != list(range(len(new.assignments))):
        return Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "assigned partitions must be numbered 0, 1, 2 and so on",
        )
    replication_factor = len(new.assignments[0])
    refused = _check_replicas(new.assignments.values(), live_nodes, replication_factor)
    return refused or (len(new.assignments), replication_factor)


def _check_replicas(
    assignments: Iterable[Sequence[int]], live_nodes: Sequence[int], replication_factor: int
) -> Refused | None:
    for replicas in assignments:
        problem = None
        if not replicas:
            problem = "a partition needs at least one replica"
        elif len(dict.fromkeys(replicas)) != len(replicas):
            problem = f"{list(replicas)} names a broker twice"
        elif len(replicas) != replication_factor:
            problem = f"{list(replicas)} are not {replication_factor} replica(s) like the others"
        elif any(node not in live_nodes for node in replicas):
            problem = f"{list(replicas)} names a broker that is not there; live: {list(live_nodes)}"
        if problem is not None:
            return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return None


def _deleting_value(deleted: Deleted) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": deleted.name,
        "partitions": deleted.partition_count,
        "deleted_at_ms": deleted.deleted_at_ms,
    }
    if deleted.nodes:
        value |= {"done": list(deleted.done), "nodes": list(deleted.nodes)}
    return value


def changed_topic(name: str, changes: Mapping[str, Any]) -> Topic:
    """A topic as changes make it."""
    return _topic_of(name, changes[_TOPIC + name])


def _topic_of(name: str, value: Mapping[str, Any]) -> Topic:
    return Topic(
        name,
        uuid.UUID(value["id"]),
        value["partitions"],
        value["replication_factor"],
        value["config"],
        value.get("assignments", ()),
    )


def _topic_change(topic: Topic) -> Changes:
    value: dict[str, Any] = {
        "id": str(topic.topic_id),
        "partitions": topic.partition_count,
        "replication_factor": topic.replication_factor,
        "config": dict(topic.config),
    }
    if topic.assignments:
        value["assignments"] = [list(replicas) for replicas in topic.assignments]
    return {_TOPIC + topic.name: value}
