"""Commits micro-batches, each one in one Kafka transaction: all of its records, its marker and its source's offsets.

Fence first, then read the marker: when `init_transactions` has returned, no older instance can commit any more, and its
transactions are committed or aborted. So what the marker says then stays true. Reading it before the fence as well
costs one request and protects a live instance: the last process of a dead driver would otherwise fence it, only to
learn that it came too late (ADR 0016).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TypeVar

from ottla.client.blocking.admin import Admin
from ottla.errors import OttlaError, RetriableError
from ottla.spark.sink.commit_decision import (
    FINAL_STANDINGS,
    Decision,
    Standing,
    decide,
    decision_of,
    standing,
)
from ottla.spark.sink.commit_plan import CommitPlan
from ottla.spark.sink.commit_session import (
    MAX_IDLE_SECONDS,
    CommitPoint,
    CommitSession,
    RecordSender,
    reach,
)
from ottla.spark.sink.process_state import SINK_PROCESS
from ottla.spark.sink.progress import CommittedProgress, Target, fence_bare_name, read_progress


class Outcome(Enum):
    """The outcome of a commit that did not fail."""

    COMMITTED = "the micro-batch was written"
    ALREADY_COMMITTED = "the micro-batch had been written before"


class Committer:
    """Commits the micro-batches of one pipeline."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def commit(self, plan: CommitPlan, sender: RecordSender) -> Outcome:
        """Commit a micro-batch unless that has happened before; after a failure any process can try again."""
        reach(CommitPoint.ENTERED)
        decide(self._target, plan, None)
        session = self._idle_session(plan) or self._new_session(plan)
        if session is None:
            return Outcome.ALREADY_COMMITTED
        with _closed_on_failure(session):
            session.write(plan, sender)
        _keep(session)
        return Outcome.COMMITTED

    def forget(self) -> None:
        """Close the idle session: the next commit fences and reads the marker."""
        session = SINK_PROCESS.take_session(self._target.key)
        if session is not None:
            session.close()

    def _idle_session(self, plan: CommitPlan) -> CommitSession | None:
        """The session that committed the micro-batch before.

        If another instance has fenced it since, the broker says so when it writes. Any other session is closed, and the
        marker read.
        """
        session = SINK_PROCESS.take_session(self._target.key)
        if session is None:
            return None
        known = CommittedProgress(session.last_committed)
        is_fresh = time.monotonic() - session.idle_since < MAX_IDLE_SECONDS
        if is_fresh and standing(plan, known) is Standing.JUST_BEFORE:
            return session
        session.close()
        return None

    def _new_session(self, plan: CommitPlan) -> CommitSession | None:
        """A session that may write the micro-batch; None if it is committed."""
        target = self._target
        with _closed_on_failure(Admin(dict(target.admin_options))) as admin:
            cluster = admin.describe_cluster().cluster_id
            progress = _Progress(admin, target, plan, cluster)
            found = progress.read(is_stable=False)
            decision = progress.decide_before_fence(found)
            reach(CommitPoint.LOOKED)
            if decision is Decision.SKIP:
                admin.close()
                return None
            session = CommitSession(target, admin, cluster)
        with _closed_on_failure(session):
            session.fence()
            found = progress.read_after_fence(found)
            if progress.decide(found) is Decision.SKIP:
                session.last_committed = plan.marker
                _keep(session)
                return None
            reach(CommitPoint.LOOKED_AGAIN)
        return session


class _Progress:
    """The readings of a pipeline's progress for one micro-batch, and the decisions on them."""

    def __init__(self, admin: Admin, target: Target, plan: CommitPlan, cluster: str | None) -> None:
        self._admin = admin
        self._target = target
        self._plan = plan
        self._sources = plan.sources_on(cluster)

    def read(self, *, is_stable: bool) -> CommittedProgress:
        return read_progress(self._admin, self._target, self._sources, is_stable=is_stable)

    def decide(self, found: CommittedProgress) -> Decision:
        return decide(self._target, self._plan, found, self._sources)

    def decide_before_fence(self, found: CommittedProgress) -> Decision:
        """WRITE or SKIP before any instance is fenced: an instance that cannot continue must not fence another.

        The first reading does not ask for stable offsets, or it would wait for the transaction that is about to be
        fenced. So the last commit may not show in it yet. If it speaks against this micro-batch and a later reading
        could say otherwise, stable offsets are asked for.
        """
        place = standing(self._plan, found, self._sources)
        if decision_of(place, self._target) is Decision.WRITE:
            return Decision.WRITE
        if place not in FINAL_STANDINGS:
            try:
                found = self.read(is_stable=True)
            except RetriableError:
                # A transaction stays open. The fence ends it.
                return Decision.WRITE
        return self.decide(found)

    def read_after_fence(self, before: CommittedProgress) -> CommittedProgress:
        """The committed progress, read when only this session can commit.

        An instance from before transactional ids had a prefix has another id than this session (ADR 0030). It is fenced
        before the reading that waits for stable offsets; one that shows only in that reading, before it is believed.
        """
        admin, pipeline = self._admin, self._target.pipeline
        is_fenced = fence_bare_name(admin, pipeline, before.marker)
        reach(CommitPoint.FENCED)
        found = self.read(is_stable=True)
        if not is_fenced and fence_bare_name(admin, pipeline, found.marker):
            found = self.read(is_stable=True)
        return found


def forget(pipeline: str) -> None:
    """Close all idle sessions of a pipeline that has ended."""
    for session in SINK_PROCESS.take_sessions_of(pipeline):
        with suppress(OttlaError):
            session.close()


def _keep(session: CommitSession) -> None:
    session.idle_since = time.monotonic()
    SINK_PROCESS.return_session(session)


_Client = TypeVar("_Client", Admin, CommitSession)


@contextmanager
def _closed_on_failure(client: _Client) -> Iterator[_Client]:
    try:
        yield client
    except BaseException:
        client.close()
        raise
