"""Commits micro-batches, each one in one Kafka transaction: all of its records, its marker and its source's offsets.

Fence first, then look: when `init_transactions` has returned, no older instance can commit any more, and what it had
prepared is finished or dropped, so what the marker says then stays true. A look before costs one request and saves a
live instance from being fenced by a dead driver's last process, which would only learn that it came too late.

A session is kept in its process between micro-batches. That saves requests: whoever was fenced meanwhile learns it from
the broker, and whoever has no session looks again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ottla.client.admin_model.transactions import TransactionState
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.producer import Producer
from ottla.client.model import OffsetAndMetadata
from ottla.config.client import read_client_config
from ottla.config.producer import ProducerConfig
from ottla.errors import (
    AbortableError,
    ErrorCode,
    FatalError,
    KafkaError,
    OttlaError,
    RetriableError,
    TimedOutError,
)
from ottla.model import TopicPartition
from ottla.spark.partial_answers import absent, whole
from ottla.spark.sink.progress import (
    DIFFERING,
    SETTLED,
    VERDICTS,
    CommittedProgress,
    Marker,
    MicroBatch,
    MicroBatchAction,
    SourceRange,
    TakenOverError,
    check,
    group_offsets,
    marker_group,
    standing,
    transactional_id,
)

log = logging.getLogger("ottla.spark")

_DROP_SECONDS: Final = 0.0
# How often an idle pipeline's progress is renewed (`progress_renewal`): well within the seven days after which groups
# forget it.
RENEW_SECONDS: Final = 6 * 3600.0
# A session that rested longer is not used again: the source may have fenced it since, to renew its progress.
REST_SECONDS: Final = 600.0
# Batches are as large as brokers take them; a request has one of each partition, and a commit waits for fewer answers.
LARGE_REQUESTS: Final = {"max.request.size": str(16 * 1024 * 1024)}
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
# What a transaction that timed out leaves; whoever took over has gone on from there.
_ABORTED: Final = (
    TransactionState.PREPARE_EPOCH_FENCE,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_ABORT,
)


class CommitPoint(Enum):
    """Every step of a commit; a test may let the process die, or wait, at each."""

    ENTERED = "before anything is asked"
    LOOKED = "the marker was read, before anybody is fenced"
    FENCED = "older instances are fenced"
    LOOKED_AGAIN = "the marker was read again, and says that the micro-batch is to be written"
    BEGUN = "the transaction has begun"
    SENT_SOME = "a record batch was sent"
    SENT = "all records are acknowledged"
    SENT_SOURCE_OFFSETS = "the source's offsets are in the transaction"
    SENT_MARKER = "the marker is in the transaction"
    ENDED = "the transaction is committed"


# What to do at a step; a test sets it.
listener: Callable[[CommitPoint], None] | None = None


def reach(point: CommitPoint) -> None:
    """The commit has come to a step."""
    if listener is not None:
        listener(point)


class Outcome(Enum):
    """What came of a commit that did not fail."""

    COMMITTED = "the micro-batch was written"
    ALREADY_COMMITTED = "the micro-batch had been written before"


@dataclass(frozen=True)
class Target:
    """Where a pipeline writes."""

    pipeline: str
    """Its stable name: that of the group which has its source's offsets, and in the transactional id."""
    marker_topic: str
    """The topic under whose partition 0 the marker is kept."""
    # They may have passwords in them.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Kafka's options of the producer."""
    admin_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    fails_on_unknown: bool = True

    @property
    def transactional_id(self) -> str:
        """Under which it writes."""
        return transactional_id(self.pipeline)

    @property
    def key(self) -> tuple[object, ...]:
        """What sessions have to agree in."""
        return (self.pipeline, self.marker_topic, *sorted(self.options.items()))


def commit_until_answered(producer: Producer, name: str) -> None:
    """Commit, and ask until there is a definite answer: a commit that was asked for may have happened."""
    while True:
        try:
            producer.commit_transaction()
        except TimedOutError as error:
            log.warning("%s: the commit is not answered yet, asking on: %s", name, error)
        else:
            return


@contextmanager
def one_transaction(producer: Producer, name: str) -> Iterator[None]:
    """What is sent within is committed, or aborted: readers need not wait for the timeout of what failed."""
    producer.begin_transaction()
    try:
        yield
    except FatalError:
        raise
    except BaseException:
        # Whatever it is, nobody has asked for a commit.
        _give_up(producer, name)
        raise
    try:
        commit_until_answered(producer, name)
    except FatalError:
        raise
    except KafkaError:
        _give_up(producer, name)
        raise


def _give_up(producer: Producer, name: str) -> None:
    """End a transaction that was not asked to commit, or was refused.

    With the epoch of its producer: if another instance has taken over, that is told here, and nothing of it ends.
    """
    try:
        producer.abort_transaction()
    except FatalError:
        raise
    except OttlaError as error:
        log.warning("%s: the abort failed: %s", name, error)


class Session:
    """A producer that has fenced all before it, and a client that asks; it closes both."""

    def __init__(self, target: Target, admin: Admin) -> None:
        self.target = target
        self._admin = admin
        self.last: Marker | None = None
        """What was committed last, as this session knows."""
        self.cluster: str | None = None
        self.rests_since = time.monotonic()
        self._began = 0.0
        own = {"transactional.id": target.transactional_id, "acks": "all"}
        config = read_client_config(ProducerConfig, {**LARGE_REQUESTS, **target.options, **own}, {})
        self._transaction_timeout_ms = config.transaction_timeout_ms
        self._producer = Producer(config)

    def fence(self) -> None:
        """From now on no older instance can commit."""
        with _fenced_is_taken_over(self.target):
            self._producer.init_transactions()
        # A micro-batch without records would not create the topic, and offsets are kept for topics that exist only.
        self._producer.partitions_for(self.target.marker_topic)

    def write(self, batch: MicroBatch, sources: Sequence[SourceRange]) -> None:
        """One transaction with everything that belongs to the micro-batch."""
        offsets = self._keepable(sources)
        self._began = time.monotonic()
        with (
            _fenced_is_taken_over(self.target, lambda: self._timed_out(batch)),
            one_transaction(self._producer, self.target.pipeline),
        ):
            reach(CommitPoint.BEGUN)
            self._fill(batch, offsets)
        self.last = batch.marker
        reach(CommitPoint.ENDED)

    def _keepable(self, sources: Sequence[SourceRange]) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets for the group: a cluster refuses those of topics that it does not have.

        Their records are in the micro-batch, so that to leave them out loses nothing; what the source has not read of
        them is its own to report.
        """
        offsets = group_offsets(sources)
        lost = absent(self._admin, [each.topic for each in offsets])
        if lost:
            log.warning(
                "%s: %s exist no longer: the group keeps no offsets of them",
                self.target.pipeline,
                ", ".join(lost),
            )
        return {each: at for each, at in offsets.items() if each.topic not in lost}

    def _fill(self, batch: MicroBatch, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        producer, pipeline = self._producer, self.target.pipeline
        futures = []
        for topic, partition, data in batch.records:
            futures.append(producer.send_encoded(topic, partition, data, check_crc=False))
            if len(futures) == 1:
                reach(CommitPoint.SENT_SOME)
        producer.flush()
        for future in futures:
            future.result(0)
        reach(CommitPoint.SENT)
        if offsets:
            producer.send_offsets_to_transaction(dict(offsets), pipeline)
        reach(CommitPoint.SENT_SOURCE_OFFSETS)
        place = TopicPartition(self.target.marker_topic, 0)
        marker = batch.marker._replace(writer=self.target.transactional_id)
        producer.send_offsets_to_transaction({place: marker.to_offset()}, marker_group(pipeline))
        reach(CommitPoint.SENT_MARKER)

    def _timed_out(self, batch: MicroBatch) -> bool:
        """Whether the coordinator has ended the transaction because it took too long, and nobody took over since."""
        if (time.monotonic() - self._began) * 1000 < self._transaction_timeout_ms:
            return False
        pipeline, name = self.target.pipeline, self.target.transactional_id
        try:
            found = self._admin.describe_transactions([name])[name]
            if found.state not in _ABORTED:
                return False
            # Whoever took over meanwhile may have been aborted as well; what he committed before is there.
            marker = look(self._admin, self.target, (), is_stable=True).marker
        except OttlaError as error:
            # Who may not ask begins again: he who took over is told so, and nothing is lost.
            log.warning("%s: who fenced this instance is not known: %s", pipeline, error)
            return True
        return marker is None or (marker.query == batch.query and marker.batch < batch.number)

    def drop(self) -> None:
        """Let go of it, without another word about an open transaction."""
        self._producer.close(_DROP_SECONDS)
        self._admin.close()


@contextmanager
def _fenced_is_taken_over(
    target: Target, timed_out: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        if error.code not in _FENCED:
            raise
        if timed_out():
            raise AbortableError(
                error.code,
                f"The transaction of pipeline {target.pipeline!r} took longer than transaction.timeout.ms and was "
                "aborted: write less at a time (maxOffsetsPerTrigger), or set kafka.transaction.timeout.ms.",
                error.context,
            ) from error
        raise TakenOverError(
            f"Another instance took over pipeline {target.pipeline!r}: this one has been fenced and stops. Nothing "
            "is lost; run one instance of a pipeline, or give the other one another name."
        ) from error


class Committer:
    """Commits the micro-batches of one pipeline."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def commit(self, batch: MicroBatch) -> Outcome:
        """Commit a micro-batch unless that has happened before; whatever fails can be tried again by anybody."""
        reach(CommitPoint.ENTERED)
        session = _take(self._target, batch) or self._begun(batch)
        if session is None:
            return Outcome.ALREADY_COMMITTED
        with _dropped_if_it_fails(session):
            session.write(batch, sources_of(session.cluster, batch))
        _keep(session)
        return Outcome.COMMITTED

    def _begun(self, batch: MicroBatch) -> Session | None:
        """A session that may write the micro-batch; None if it is committed."""
        target = self._target
        with _closed_if_it_fails(Admin(dict(target.admin_options))) as admin:
            cluster = admin.describe_cluster().cluster_id
            sources = sources_of(cluster, batch)
            found = look(admin, target, sources, is_stable=False)
            verdict = self._look_before(admin, found, batch, sources)
            reach(CommitPoint.LOOKED)
            if verdict is MicroBatchAction.SKIP:
                admin.close()
                return None
            session = Session(target, admin)
        with _dropped_if_it_fails(session):
            session.cluster = cluster
            session.fence()
            found = self._look_after(admin, found, sources)
            if self._check(found, batch, sources) is MicroBatchAction.SKIP:
                session.last = batch.marker
                _keep(session)
                return None
            reach(CommitPoint.LOOKED_AGAIN)
        return session

    def _look_after(
        self, admin: Admin, before: CommittedProgress, sources: Sequence[SourceRange]
    ) -> CommittedProgress:
        """What is committed when nobody but this session can commit any more.

        A writer from before transactional ids had a prefix has another one than this session. It is fenced before it is
        waited for; one that shows only now, before it is believed.
        """
        is_fenced = fence_bare_name(admin, self._target.pipeline, before.marker)
        reach(CommitPoint.FENCED)
        found = look(admin, self._target, sources, is_stable=True)
        if not is_fenced and fence_bare_name(admin, self._target.pipeline, found.marker):
            found = look(admin, self._target, sources, is_stable=True)
        return found

    def _look_before(
        self,
        admin: Admin,
        found: CommittedProgress,
        batch: MicroBatch,
        sources: Sequence[SourceRange],
    ) -> MicroBatchAction:
        """What is to be said before anybody is fenced: that is not for those who cannot go on.

        A look that asks for stable offsets would wait for the transaction that is about to be fenced. Without that, the
        last one may be committed and not yet seen, so that who seems to have no right to go on looks once more.
        """
        target = self._target
        place = standing(found, batch, sources)
        verdict = VERDICTS[place]
        if verdict is MicroBatchAction.ASK and not target.fails_on_unknown:
            verdict = MicroBatchAction.WRITE
        if verdict is MicroBatchAction.WRITE:
            return verdict
        if place not in SETTLED:
            try:
                found = look(admin, target, sources, is_stable=True)
            except RetriableError:
                # A transaction is open that nobody ends: a fence will.
                return MicroBatchAction.WRITE
        return self._check(found, batch, sources)

    def forget(self) -> None:
        """Let go of the session: the next commit fences and looks."""
        with _lock:
            session = _sessions.pop(self._target.key, None)
        if session is not None:
            session.drop()

    def _check(
        self, found: CommittedProgress, batch: MicroBatch, sources: Sequence[SourceRange]
    ) -> MicroBatchAction:
        target = self._target
        return check(
            target.pipeline, found, batch, sources, fails_on_unknown=target.fails_on_unknown
        )


def sources_of(cluster: str | None, batch: MicroBatch) -> list[SourceRange]:
    """Those sources whose offsets this cluster can keep: it has their topics."""
    return [each for each in batch.sources if cluster is not None and each.cluster == cluster]


def look(
    admin: Admin, target: Target, sources: Sequence[SourceRange], *, is_stable: bool
) -> CommittedProgress:
    """What is committed; with `is_stable` no transaction is open that would change it."""
    group = marker_group(target.pipeline)
    place = TopicPartition(target.marker_topic, 0)
    wanted: dict[str, list[TopicPartition]] = {group: [place]}
    if ends := [each for source in sources for each in source.end]:
        wanted[target.pipeline] = ends
    committed = whole(lambda: admin.list_consumer_group_offsets(wanted, require_stable=is_stable))
    kept = committed[group].get(place)
    offsets = {
        each: at for each, at in committed.get(target.pipeline, {}).items() if at is not None
    }
    return CommittedProgress(
        None if kept is None else Marker.from_offset(kept, group),
        {each: at.offset for each, at in offsets.items()},
        [each for each, at in offsets.items() if at.metadata == DIFFERING],
    )


def fence_bare_name(admin: Admin, pipeline: str, marker: Marker | None) -> bool:
    """Stop a writer whose transactional id is the pipeline's bare name, if the marker is of one; whether it is."""
    if marker is None or not marker.is_under_bare_name:
        return False
    whole(lambda: admin.fence_producers([pipeline]))
    return True


# Sessions of this process, by target: at most one of each, and none while it is in use.
_sessions: dict[tuple[object, ...], Session] = {}
_lock = threading.Lock()


def _take(target: Target, batch: MicroBatch) -> Session | None:
    """The session that committed the micro-batch before; any other one has to look again."""
    with _lock:
        session = _sessions.pop(target.key, None)
    if session is None:
        return None
    last, rested = session.last, time.monotonic() - session.rests_since
    is_next = last is not None and (last.query, last.batch) == (batch.query, batch.number - 1)
    if is_next and rested < REST_SECONDS:
        return session
    session.drop()
    return None


def _keep(session: Session) -> None:
    session.rests_since = time.monotonic()
    with _lock:
        before = _sessions.get(session.target.key)
        _sessions[session.target.key] = session
    if before is not None:
        before.drop()


def forget(pipeline: str) -> None:
    """Let go of all sessions of a pipeline that has ended."""
    with _lock:
        keys = [key for key, session in _sessions.items() if session.target.pipeline == pipeline]
        left = [_sessions.pop(key) for key in keys]
    for session in left:
        with suppress(OttlaError):
            session.drop()


@contextmanager
def _closed_if_it_fails(admin: Admin) -> Iterator[Admin]:
    """For a client that somebody else will close."""
    try:
        yield admin
    except BaseException:
        admin.close()
        raise


@contextmanager
def _dropped_if_it_fails(session: Session) -> Iterator[None]:
    try:
        yield
    except BaseException:
        session.drop()
        raise
