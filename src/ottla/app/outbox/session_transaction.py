"""`app.transaction(session)`: sends, and in a handler its records, become part of the session's transaction."""

from __future__ import annotations

import json
import logging
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ottla.app.outbox.applied_records import CURRENT_DELIVERY, AlreadyAppliedError, HandlerDelivery
from ottla.app.outbox.database_session import (
    Begin,
    Commit,
    DatabaseSession,
    Flush,
    Rollback,
    Steps,
    run,
    run_blocking,
    session_of,
)
from ottla.app.outbox.statements import Statement, Tables, make_savepoint, release_savepoint
from ottla.errors import IllegalStateError

if TYPE_CHECKING:
    from ottla.app.delivery.unit import OutgoingRecord
    from ottla.client.model import Headers

SessionT = TypeVar("SessionT")

_LOG: Final = logging.getLogger(__name__)
_TOKEN_BITS: Final = 63
_ENDED_INSIDE: Final = (
    "the transaction was committed or rolled back inside app.transaction(session), or it autocommits: leave that to "
    "the block; an exception that leaves it rolls back"
)
_ONLY_ONE: Final = "a handler has one app.transaction(session) in each run: put what belongs together into one block"


class SessionTransaction(Generic[SessionT]):
    """A block whose sends are rows of the outbox; in a handler it also notes that its records are applied.

    `async with` for every session; `with` for those that are not awaited. The block commits at its end, and rolls back
    if an exception leaves it.
    """

    def __init__(
        self, app_name: str, tables: Tables, session: SessionT, on_commit: Callable[[], None]
    ) -> None:
        self._app_name = app_name
        self._tables = tables
        self._session = session
        self._on_commit = on_commit
        self._database: DatabaseSession = session_of(session)
        self._delivery: HandlerDelivery | None = None
        self._token: Token[SessionTransaction[Any] | None] | None = None
        self._is_open = False
        self._has_sent = False

    # Entering and leaving

    async def __aenter__(self) -> SessionT:
        await run(self._database, self._enter())
        return self._session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await run(self._database, self._leave(error))

    def __enter__(self) -> SessionT:
        self._check_blocking()
        run_blocking(self._database, self._enter())
        return self._session

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        run_blocking(self._database, self._leave(error))

    def _check_blocking(self) -> None:
        if self._database.is_async:
            raise IllegalStateError(
                "this session is awaited: write `async with app.transaction(session)`"
            )

    def _enter(self) -> Steps[None]:
        if self._token is not None:
            raise IllegalStateError(
                "this transaction was entered before: call app.transaction again"
            )
        if CURRENT_OUTBOX.get() is not None:
            raise IllegalStateError(
                "there is an app.transaction(session) already: use the session's savepoints inside it"
            )
        self._delivery = CURRENT_DELIVERY.get()
        if self._delivery is not None and self._delivery.refusal is not None:
            raise IllegalStateError(self._delivery.refusal)
        yield Begin()
        try:
            yield make_savepoint()
        except Exception as error:
            yield from self._roll_back()
            raise IllegalStateError(_ENDED_INSIDE) from error
        self._is_open = True
        self._token = CURRENT_OUTBOX.set(self)

    def _leave(self, error: BaseException | None) -> Steps[None]:
        assert self._token is not None
        self._is_open = False
        CURRENT_OUTBOX.reset(self._token)
        if error is not None:
            yield from self._roll_back()
            return
        try:
            yield from self._commit()
        except AlreadyAppliedError as applied:
            _LOG.info("rolled back, since another run was faster: %s", applied)
            yield from self._roll_back()
            raise
        except BaseException:
            yield from self._roll_back()
            raise
        if self._delivery is not None:
            self._delivery.is_applied = True
            self._delivery.refusal = _ONLY_ONE
        if self._has_sent:
            self._on_commit()

    def _commit(self) -> Steps[None]:
        yield Flush()
        try:
            yield release_savepoint()
        except Exception as error:
            raise IllegalStateError(_ENDED_INSIDE) from error
        if self._delivery is not None:
            if self._delivery.refusal is not None:
                raise IllegalStateError(self._delivery.refusal)
            # Last, so that the row of a partition is locked only for a moment.
            yield from self._delivery.steps(self._tables, _now_ms())
        yield Commit()

    def _roll_back(self) -> Steps[None]:
        """Roll back; a failure of that is told, but not instead of the reason."""
        try:
            yield Rollback()
        except Exception as error:
            _LOG.warning("the transaction could not be rolled back: %s", error)

    # Sending

    async def send(self, record: OutgoingRecord) -> None:
        """Write a record into the outbox, now: what a savepoint rolls back is not sent."""
        await run(self._database, self._send(record))

    def send_blocking(self, record: OutgoingRecord) -> None:
        """The same for a session that is not awaited."""
        self._check_blocking()
        run_blocking(self._database, self._send(record))

    @property
    def is_async(self) -> bool:
        """Whether the session is awaited."""
        return self._database.is_async

    def _send(self, record: OutgoingRecord) -> Steps[None]:
        if not self._is_open:
            raise IllegalStateError(
                f"{record.topic}: nothing can be sent any more, app.transaction(session) has ended"
            )
        self._has_sent = True
        yield self._row_of(record)

    def _row_of(self, record: OutgoingRecord) -> Statement:
        return self._tables.add_to_outbox(
            {
                "token": secrets.randbits(_TOKEN_BITS),
                "app": self._app_name,
                "topic": record.topic,
                "partition_number": record.partition,
                "record_key": record.key,
                "record_value": record.value,
                "headers": encode_headers(record.headers),
                "timestamp_ms": _now_ms() if record.timestamp_ms is None else record.timestamp_ms,
            }
        )


CURRENT_OUTBOX: Final[ContextVar[SessionTransaction[Any] | None]] = ContextVar(
    "ottla_app_outbox", default=None
)


def encode_headers(headers: Headers) -> str:
    """Headers as a column."""
    return json.dumps(
        [[name, None if value is None else b64encode(value).decode()] for name, value in headers]
    )


def decode_headers(column: str) -> Headers:
    """The reverse."""
    return tuple(
        (name, None if value is None else b64decode(value)) for name, value in json.loads(column)
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
