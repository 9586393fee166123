"""The catalog: a copy of what the sequencer has, its changes in order, and commits that wait for the others."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from ottla.ports import CatalogConflictError, FencedError, Follower, JsonValue, StorageError
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.retries import until_available
from ottla.storage.shared.sequencer.records import CatalogState
from ottla.storage.shared.sequencer.sequencer import Sequencer
from ottla.storage.shared.session import Session


class SharedCatalog:
    """Implements Catalog.

    A commit is done when every live broker acts by it, so that a client that was told of a change finds it in force at
    every broker. One that does not say so in time is not waited for, nor by later commits until it says something.
    """

    def __init__(
        self,
        sequencer: Sequencer,
        session: Session,
        state: CatalogState,
        options: SharedOptions,
        before_commit: Callable[[], Awaitable[None]],
    ) -> None:
        """`before_commit` is awaited first: deletions are durable when the next change of the catalog is."""
        self._sequencer = sequencer
        self._session = session
        self._options = options
        self._before_commit = before_commit
        self._entries: dict[str, JsonValue] = dict(state.entries)
        self._revision = state.revision
        self._follower: Follower | None = None
        self._waits: dict[asyncio.Future[None], int] = {}
        # Sessions that did not act by a revision in time, and the revision by which they acted then.
        self._given_up: dict[Any, int] = {}
        self._catching_up: asyncio.Task[None] | None = None
        session.applied_revision = state.revision
        session.members_changed.append(self._end_waits)

    @property
    def revision(self) -> int:
        return self._revision

    def entries(self) -> Mapping[str, JsonValue]:
        return MappingProxyType(self._entries)

    def follow(self, follower: Follower) -> None:
        self._follower = follower

    def commit(
        self, changes: Mapping[str, JsonValue], expected_revision: int
    ) -> asyncio.Future[int]:
        # Through JSON: the caller keeps no reference to stored values.
        copied = json.loads(json.dumps(dict(changes)))
        return asyncio.ensure_future(self._commit(copied, expected_revision))

    async def _commit(self, changes: Mapping[str, JsonValue], expected_revision: int) -> int:
        await self._before_commit()
        self._check(expected_revision)
        session, commit = self._session.id, uuid.uuid4()
        try:
            revision = await until_available(
                lambda: self._sequencer.commit_catalog(session, commit, changes, expected_revision),
                self._options.write_budget_seconds,
                self._options,
            )
        except CatalogConflictError:
            await self.catch_up(self._options.write_budget_seconds)
            self._check(expected_revision)
            raise
        if self._revision == expected_revision:
            self._apply(revision, changes)
        else:
            await self.catch_up(self._options.write_budget_seconds)
        self._session.wake()
        await self._applied_by_all(revision)
        return revision

    def _check(self, expected_revision: int) -> None:
        if expected_revision != self._revision:
            raise CatalogConflictError(
                f"the catalog is at revision {self._revision}, not {expected_revision}"
            )

    async def catch_up(self, budget_seconds: float = 0.0) -> None:
        """Applies what others have changed."""
        while self._catching_up is not None:
            await asyncio.wait([self._catching_up])
        self._catching_up = asyncio.ensure_future(self._catch_up(budget_seconds))
        try:
            await asyncio.shield(self._catching_up)
        finally:
            self._catching_up = None

    async def _catch_up(self, budget_seconds: float) -> None:
        before = self._revision
        try:
            found = await until_available(
                lambda: self._sequencer.catalog_changes(self._revision),
                budget_seconds,
                self._options,
            )
        except FencedError:
            # This broker was away for so long that the changes since then are no longer known.
            state = await until_available(
                self._sequencer.load_catalog, budget_seconds, self._options
            )
            self._apply(state.revision, _difference(self._entries, state.entries))
        else:
            for revision, changes in found:
                self._apply(revision, changes)
        if self._revision != before:
            self._session.wake()

    def _apply(self, revision: int, changes: Mapping[str, JsonValue]) -> None:
        if revision <= self._revision:
            return
        for key, value in changes.items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value
        self._revision = revision
        self._session.applied_revision = revision
        if self._follower is not None:
            self._follower(revision, changes)

    # Waiting for the others.

    async def _applied_by_all(self, revision: int) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits[done] = revision
        self._end_waits()
        try:
            await asyncio.wait([done], timeout=self._options.apply_seconds)
        finally:
            del self._waits[done]
        for member in self._session.members:
            if member.is_live and member.applied_revision < revision:
                self._given_up[member.session] = member.applied_revision

    def _end_waits(self) -> None:
        self._given_up = {
            member.session: member.applied_revision
            for member in self._session.members
            if self._given_up.get(member.session) == member.applied_revision
        }
        for done, revision in self._waits.items():
            if not done.done() and not self._is_waited_for(revision):
                done.set_result(None)

    def _is_waited_for(self, revision: int) -> bool:
        return any(
            member.is_live
            and member.session != self._session.id
            and member.applied_revision < revision
            and member.session not in self._given_up
            for member in self._session.members
        )

    def close(self) -> None:
        """No commit waits any more."""
        for done in self._waits:
            if not done.done():
                done.set_exception(StorageError("the store was closed"))
                done.exception()


def _difference(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The changes that make one state of the catalog another."""
    changes: dict[str, JsonValue] = {key: None for key in old if key not in new}
    changes |= {key: value for key, value in new.items() if old.get(key) != value}
    return changes
