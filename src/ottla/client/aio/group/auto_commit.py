"""Automatic commits (enable.auto.commit): every auto.commit.interval.ms, before rebalances and at close."""

from __future__ import annotations

import asyncio
import logging

from ottla.client.aio.group.commits import Commits
from ottla.client.aio.group.group import MemberParts
from ottla.errors import KafkaError, RetriableError

log = logging.getLogger("ottla.client.group")


class AutoCommit:
    """Commits what earlier polls returned. A failure is only logged: the next commit repeats it."""

    def __init__(self, parts: MemberParts, commits: Commits) -> None:
        self._group_id = parts.group_id
        self._config = parts.config
        self._subscriptions = parts.subscriptions
        self._commits = commits
        self._loop = asyncio.get_running_loop()
        self._is_on = parts.config.enable_auto_commit
        self._next_ms = 0.0
        self.restart_interval()

    @property
    def next_ms(self) -> float | None:
        """When the next commit is due; None if automatic commits are off."""
        return self._next_ms if self._is_on else None

    def stop(self) -> None:
        """Turn automatic commits off."""
        self._is_on = False

    def restart_interval(self) -> None:
        """Make the next commit due after a whole interval."""
        self._next_ms = self._now_ms() + self._config.auto_commit_interval_ms

    def commit_if_due(self) -> None:
        """Commit if the interval is over."""
        if self._is_on and self._now_ms() >= self._next_ms:
            self.restart_interval()
            self.start()

    def start(self) -> asyncio.Future[None]:
        """Send a commit of everything consumed."""
        offsets = self._subscriptions.all_consumed()

        def completed(error: KafkaError | None) -> None:
            if error is None:
                if offsets:
                    self._commits.note_success(offsets)
            elif isinstance(error, RetriableError):
                log.debug("group %s: automatic commit failed, next soon: %s", self._group_id, error)
                retry_ms = self._now_ms() + self._config.retry_backoff_ms
                self._next_ms = min(self._next_ms, retry_ms)
            else:
                self._commits.note_fencing(error)
                log.warning("group %s: automatic commit failed: %s", self._group_id, error)

        return self._commits.send_async(offsets, completed)

    async def commit_at_close(self, deadline_ms: float, patience_ms: float | None) -> None:
        """Commit and wait; the search for the coordinator ends after `patience_ms`, if that is given."""
        if not self._is_on:
            return
        lookup_deadline_ms = deadline_ms if patience_ms is None else self._now_ms() + patience_ms
        try:
            offsets = self._subscriptions.all_consumed()
            await self._commits.commit_and_wait(offsets, deadline_ms, lookup_deadline_ms)
        except KafkaError as error:
            log.warning("group %s: automatic commit at close failed: %s", self._group_id, error)

    def _now_ms(self) -> float:
        return self._loop.time() * 1000
