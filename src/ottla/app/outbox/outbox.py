"""`app.outbox`: the database, the tables and the relay of an app."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.app.outbox.applied_records import read_next_offsets
from ottla.app.outbox.database import Database
from ottla.app.outbox.database_session import Rows, Steps
from ottla.app.outbox.outbox_listener import needs_inbox, with_outbox
from ottla.app.outbox.relay import Relay
from ottla.app.outbox.session_transaction import SessionTransaction
from ottla.app.outbox.statements import Dialect, Statement, Tables
from ottla.durations import Duration, seconds_of
from ottla.errors import ConfigError, IllegalStateError

if TYPE_CHECKING:
    from ottla.app.declarations.listener_spec import ListenerSpec
    from ottla.app.listening.clients import Clients

SessionT = TypeVar("SessionT")

_NO_ID: Final = ""
_LOG: Final = logging.getLogger(__name__)
_FLUSH_SECONDS: Final = 5.0
# Shorter than max.poll.interval.ms: the listener does not poll meanwhile.
_POSITIONS_SECONDS: Final = 60.0
_POSITIONS_PAUSE_SECONDS: Final = 1.0
_SETTLED_PAUSE_SECONDS: Final = 0.02
DEFAULT_INBOX_RETENTION: Final = "7d"


class Outbox:
    """What an app keeps in the user's database.

        app.outbox.use(engine)                      # a SQLAlchemy engine, or a function that connects
        await app.outbox.create_tables()            # or print(app.outbox.ddl("postgresql")) for a migration

    While the app runs, its relay sends what the transactions have left.
    """

    def __init__(self, app_name: str) -> None:
        self._app_name = app_name
        self._database: Database | None = None
        self._relays = True
        self._inbox_retention_seconds = seconds_of(DEFAULT_INBOX_RETENTION)
        self._inbox_groups: list[str] = []
        self._topic_ids: dict[str, str] = {}
        self._clients: Clients | None = None
        self._relay: Relay | None = None
        self._task: asyncio.Task[None] | None = None
        self.tables = Tables()

    def use(
        self,
        database: Any,
        *,
        tables: Tables | None = None,
        relay: bool = True,
        inbox_retention: Duration = DEFAULT_INBOX_RETENTION,
    ) -> None:
        """Name the database: a SQLAlchemy engine, or a function that opens a connection of its own.

        With `relay=False` another process of the same app has to relay. `inbox_retention` is how long the inbox knows
        that a record was applied; it must be longer than all retries of a record together.
        """
        if self._task is not None:
            raise IllegalStateError(
                f"app {self._app_name} runs: call app.outbox.use before it starts"
            )
        self._database = Database(database)
        self._relays = relay
        self._inbox_retention_seconds = seconds_of(inbox_retention)
        if tables is not None:
            self.tables = tables

    @property
    def is_used(self) -> bool:
        """Whether the app has a database."""
        return self._database is not None

    @property
    def problem(self) -> str | None:
        """Why the relay of this process sends nothing; None if all is well, or if another process relays."""
        return None if self._relay is None else self._relay.problem

    # Tables

    def ddl(self, dialect: str) -> str:
        """The SQL that creates the tables, for a migration; `dialect` is "postgresql" or "sqlite"."""
        try:
            kind = Dialect(dialect)
        except ValueError:
            raise ConfigError(f'{dialect!r}: write "postgresql" or "sqlite"') from None
        return "".join(f"{each};\n" for each in self.tables.ddl(kind))

    async def create_tables(self) -> None:
        """Create the tables where they are missing."""
        async with self._used().connection() as connection:
            await connection.transact(self._create(connection.dialect))

    def _create(self, dialect: Dialect) -> Steps[None]:
        for sql in self.tables.ddl(dialect):
            yield Statement(sql, {})

    def _used(self) -> Database:
        if self._database is None:
            raise IllegalStateError(
                f"app {self._app_name} does not know its database: call app.outbox.use(engine) before it starts"
            )
        return self._database

    # Transactions and listeners

    def transaction(self, session: SessionT) -> SessionTransaction[SessionT]:
        """What is sent inside is part of the session's transaction, and in a handler also that its records are done."""
        self._used()
        return SessionTransaction(self._app_name, self.tables, session, self._wake_relay)

    def attach(self, spec: ListenerSpec) -> ListenerSpec:
        """The listener, so that its handler may use `transaction`; the same one if the app has no database."""
        if self._database is None:
            return spec
        if needs_inbox(spec):
            self._check_retention(spec)
            self._inbox_groups.append(spec.group)

        async def positions(
            partitions: Sequence[tuple[str, int]],
        ) -> Mapping[tuple[str, int], Any]:
            return await self._positions(spec.group, partitions)

        return with_outbox(spec, self._ids_of, positions)

    def _check_retention(self, spec: ListenerSpec) -> None:
        delays = 0.0 if spec.retry is None else sum(spec.retry.delays_seconds)
        if delays >= self._inbox_retention_seconds:
            raise ConfigError(
                f"listener {spec.name} retries for {delays:g} s, and the inbox knows applied records for "
                f"{self._inbox_retention_seconds:g} s only: give app.outbox.use a longer inbox_retention"
            )

    async def _positions(
        self, group: str, partitions: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Any]:
        topics = {topic for topic, _ in partitions}
        for topic in topics:
            self._topic_ids.pop(topic, None)  # it may have been created again
        ids = await self._ids_of(sorted(topics))
        places = [(topic, ids[topic], number) for topic, number in partitions]
        deadline = time.monotonic() + _POSITIONS_SECONDS
        while True:
            try:
                async with self._used().connection() as connection:
                    return await connection.transact(read_next_offsets(self.tables, group, places))
            except Exception as error:
                # Without the database's answer the listener would start at the wrong place.
                if time.monotonic() >= deadline:
                    raise
                _LOG.warning("group %s waits for the database of its offsets: %s", group, error)
                await asyncio.sleep(_POSITIONS_PAUSE_SECONDS)

    async def _ids_of(self, topics: Sequence[str]) -> Mapping[str, str]:
        """The ids of topics; brokers before Kafka 2.8 have none."""
        unknown = sorted({topic for topic in topics if topic not in self._topic_ids})
        if unknown:
            if self._clients is None:
                raise IllegalStateError(f"app {self._app_name} does not run")
            described = await self._clients.admin.describe_topics(unknown)
            for name, topic in described.items():
                self._topic_ids[name] = _NO_ID if topic.topic_id is None else str(topic.topic_id)
        return self._topic_ids

    # Life

    async def start(self, clients: Clients) -> None:
        """The app starts: relay."""
        self._clients = clients
        if self._database is not None and self._relays:
            self._relay = Relay(
                self._app_name,
                self.tables,
                self._database,
                clients,
                inbox_groups=lambda: [*dict.fromkeys(self._inbox_groups)],
                inbox_retention_seconds=self._inbox_retention_seconds,
            )
            self._task = asyncio.create_task(
                self._relay.run(), name=f"ottla-outbox-{self._app_name}"
            )

    async def stop(self) -> None:
        """The app stops; what is left in the outbox is sent by another process, or after the next start."""
        task, self._task = self._task, None
        if self._relay is not None:
            await self._relay.flush(_FLUSH_SECONDS)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._relay = None
        self._clients = None
        self._inbox_groups = []
        self._topic_ids = {}

    async def settled(self) -> bool:
        """Wait until the outbox is empty; whether it was so at once."""
        if self._database is None or not self._relays:
            return True
        was_empty = True
        async with self._database.connection() as connection:
            while await connection.transact(self._has_rows()):
                was_empty = False
                self._wake_relay()
                await asyncio.sleep(_SETTLED_PAUSE_SECONDS)
        return was_empty

    def _has_rows(self) -> Steps[bool]:
        found: Rows = yield self.tables.oldest_of_outbox(self._app_name, 1)
        return bool(found.rows)

    def _wake_relay(self) -> None:
        relay = self._relay
        if relay is not None:
            relay.wake()
