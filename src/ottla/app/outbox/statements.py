"""The tables of offsets, inbox, outbox and relays, and every statement about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ottla.errors import ConfigError

SAVEPOINT: Final = "ottla_app_transaction"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?")


class Dialect(StrEnum):
    """A database whose SQL is known here."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


@dataclass(frozen=True)
class Statement:
    """SQL with `:name` parameters, and their values."""

    sql: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Tables:
    """The names of the tables, which may have a schema: `Tables(outbox="billing.outbox")`."""

    offsets: str = "ottla_offsets"
    """How far each group has been applied in each partition."""
    inbox: str = "ottla_inbox"
    """Each applied record, for listeners that work on a partition out of order or have retry topics."""
    outbox: str = "ottla_outbox"
    """What the relay has yet to send."""
    relays: str = "ottla_relays"
    """Which process relays the outbox of an app."""

    def __post_init__(self) -> None:
        for field, name in vars(self).items():
            if _NAME.fullmatch(name) is None:
                raise ConfigError(
                    f"{field}={name!r} is not the name of a table: letters, digits and _, after a schema if need be"
                )

    def ddl(self, dialect: Dialect) -> list[str]:
        """The statements that create the tables where they are missing."""
        is_sqlite = dialect is Dialect.SQLITE
        data = "BLOB" if is_sqlite else "BYTEA"
        number = "INTEGER" if is_sqlite else "BIGINT"
        identity = (
            "INTEGER PRIMARY KEY AUTOINCREMENT"
            if is_sqlite
            else "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
        )
        place = (
            "consumer_group TEXT NOT NULL, topic TEXT NOT NULL, topic_id TEXT NOT NULL, "
            "partition_number INTEGER NOT NULL"
        )
        return [
            f"CREATE TABLE IF NOT EXISTS {self.offsets} ({place}, next_offset {number} NOT NULL, "
            f"applied_ms {number} NOT NULL, "
            "PRIMARY KEY (consumer_group, topic, topic_id, partition_number))",
            f"CREATE TABLE IF NOT EXISTS {self.inbox} ({place}, record_offset {number} NOT NULL, "
            f"applied_ms {number} NOT NULL, "
            "PRIMARY KEY (consumer_group, topic, topic_id, partition_number, record_offset))",
            f"CREATE TABLE IF NOT EXISTS {self.outbox} (id {identity}, token {number} NOT NULL, "
            "app TEXT NOT NULL, topic TEXT NOT NULL, partition_number INTEGER, "
            f"record_key {data}, record_value {data}, headers TEXT NOT NULL, "
            f"timestamp_ms {number} NOT NULL)",
            f"CREATE TABLE IF NOT EXISTS {self.relays} (app TEXT PRIMARY KEY, outbox_id TEXT NOT NULL, "
            f"holder TEXT NOT NULL, expires_ms {number} NOT NULL)",
        ]

    # Offsets and inbox

    def advance(self, place: Mapping[str, Any], first: int, end: int, now_ms: int) -> Statement:
        """Move the offset of a partition to `end`, unless the first record or a later one was applied before."""
        return Statement(
            f"UPDATE {self.offsets} SET next_offset = :end_offset, applied_ms = :now_ms "
            f"WHERE {_PLACE} AND next_offset <= :first_offset",
            {**place, "first_offset": first, "end_offset": end, "now_ms": now_ms},
        )

    def start(self, place: Mapping[str, Any], end: int, now_ms: int) -> Statement:
        """The first offset of a partition."""
        return Statement(
            f"INSERT INTO {self.offsets} "
            "(consumer_group, topic, topic_id, partition_number, next_offset, applied_ms) "
            "VALUES (:consumer_group, :topic, :topic_id, :partition_number, :end_offset, :now_ms) "
            "ON CONFLICT DO NOTHING",
            {**place, "end_offset": end, "now_ms": now_ms},
        )

    def next_offset(self, place: Mapping[str, Any]) -> Statement:
        """The offset of a partition."""
        return Statement(f"SELECT next_offset FROM {self.offsets} WHERE {_PLACE}", place)

    def add_to_inbox(self, place: Mapping[str, Any], offset: int, now_ms: int) -> Statement:
        """Note one record; no row if it is there already."""
        return Statement(
            f"INSERT INTO {self.inbox} "
            "(consumer_group, topic, topic_id, partition_number, record_offset, applied_ms) "
            "VALUES (:consumer_group, :topic, :topic_id, :partition_number, :record_offset, :now_ms) "
            "ON CONFLICT DO NOTHING",
            {**place, "record_offset": offset, "now_ms": now_ms},
        )

    def forget_inbox(self, group: str, before_ms: int) -> Statement:
        """Delete what was applied long ago."""
        return Statement(
            f"DELETE FROM {self.inbox} WHERE consumer_group = :consumer_group AND applied_ms < :before_ms",
            {"consumer_group": group, "before_ms": before_ms},
        )

    # Outbox

    def add_to_outbox(self, row: Mapping[str, Any]) -> Statement:
        """A record to send."""
        return Statement(
            f"INSERT INTO {self.outbox} (token, app, topic, partition_number, record_key, record_value, "
            "headers, timestamp_ms) VALUES (:token, :app, :topic, :partition_number, :record_key, "
            ":record_value, :headers, :timestamp_ms)",
            row,
        )

    def oldest_of_outbox(self, app: str, limit: int) -> Statement:
        """The records to send next."""
        return Statement(
            "SELECT id, token, topic, partition_number, record_key, record_value, headers, timestamp_ms "
            f"FROM {self.outbox} WHERE app = :app ORDER BY id LIMIT {int(limit)}",
            {"app": app},
        )

    def tokens_of_outbox(self, app: str, ids: list[int]) -> Statement:
        """The rows with these ids that are still there."""
        return Statement(
            f"SELECT id, token FROM {self.outbox} WHERE app = :app AND id IN ({_list(ids)})",
            {"app": app},
        )

    def delete_from_outbox(self, app: str, ids: list[int]) -> Statement:
        """Delete rows that were sent."""
        return Statement(
            f"DELETE FROM {self.outbox} WHERE app = :app AND id IN ({_list(ids)})", {"app": app}
        )

    # Relays

    def take_lease(self, lease: Mapping[str, Any]) -> Statement:
        """Become the relay of an app, or stay it."""
        return Statement(
            f"UPDATE {self.relays} SET holder = :holder, expires_ms = :expires_ms "
            "WHERE app = :app AND (holder = :holder OR expires_ms < :now_ms)",
            lease,
        )

    def first_lease(self, lease: Mapping[str, Any]) -> Statement:
        """The first relay of an app; the random id tells this outbox from one in another database."""
        return Statement(
            f"INSERT INTO {self.relays} (app, outbox_id, holder, expires_ms) "
            "VALUES (:app, :outbox_id, :holder, :expires_ms) ON CONFLICT DO NOTHING",
            lease,
        )

    def outbox_id(self, app: str) -> Statement:
        """The id of the outbox, and its relay."""
        return Statement(
            f"SELECT outbox_id, holder FROM {self.relays} WHERE app = :app", {"app": app}
        )

    def end_lease(self, app: str, holder: str) -> Statement:
        """Let another process relay at once."""
        return Statement(
            f"UPDATE {self.relays} SET expires_ms = 0 WHERE app = :app AND holder = :holder",
            {"app": app, "holder": holder},
        )


_PLACE: Final = (
    "consumer_group = :consumer_group AND topic = :topic AND topic_id = :topic_id "
    "AND partition_number = :partition_number"
)


def _list(ids: list[int]) -> str:
    """Numbers of our own, which need no parameters."""
    return ", ".join(str(int(each)) for each in ids)


def make_savepoint() -> Statement:
    """Mark the transaction, so that `release_savepoint` fails in another one."""
    return Statement(f"SAVEPOINT {SAVEPOINT}", {})


def release_savepoint() -> Statement:
    """Fails if the transaction was ended meanwhile."""
    return Statement(f"RELEASE SAVEPOINT {SAVEPOINT}", {})
