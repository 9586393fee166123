"""The automatic commit before partitions are given up."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla.client.aio.group.auto_commit import AutoCommit
from ottla.client.aio.group.group import MemberParts
from ottla.errors import ErrorCode, RetriableError

log = logging.getLogger("ottla.client.group")

# A deleted topic would hold the rebalance up until the member is removed.
_NOT_REPEATED: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class RebalanceCommit:
    """Commits before a rebalance goes on, and repeats it after temporary errors until max.poll.interval.ms is over."""

    def __init__(self, parts: MemberParts, auto_commit: AutoCommit) -> None:
        self._group_id = parts.group_id
        self._config = parts.config
        self._auto_commit = auto_commit
        self._loop = asyncio.get_running_loop()
        self._commit: asyncio.Future[None] | None = None
        self._deadline_ms: float | None = None
        self._not_before_ms = 0.0

    @property
    def due_ms(self) -> tuple[float | None, float | None]:
        """When to look again: to repeat the commit, or to go on without it."""
        return self._not_before_ms, self._deadline_ms

    @property
    def is_under_way(self) -> bool:
        """Whether a commit was started, and `is_over` has not been True since."""
        return self._deadline_ms is not None

    def is_over(self) -> bool:
        """Whether the commit is answered, or given up; starts it, and starts it again after errors."""
        if not self._config.enable_auto_commit:
            return True
        if self._deadline_ms is None:
            # The coordinator removes a member that takes longer.
            self._deadline_ms = self._now_ms() + self._config.max_poll_interval_ms
        if self._commit is None:
            if self._now_ms() < self._not_before_ms:
                return False
            self._commit = self._auto_commit.start()
        if self._now_ms() >= self._deadline_ms:
            log.error("group %s: no automatic commit before the rebalance", self._group_id)
            return self.skip()
        if not self._commit.done():
            return False
        error = None if self._commit.cancelled() else self._commit.exception()
        if isinstance(error, RetriableError) and error.code not in _NOT_REPEATED:
            self._commit = None
            self._not_before_ms = self._now_ms() + self._config.retry_backoff_ms
            return False
        return self.skip()

    def skip(self) -> bool:
        """Do not wait for the commit, which may be under way; True."""
        self._commit = None
        self._deadline_ms = None
        return True

    def _now_ms(self) -> float:
        return self._loop.time() * 1000
