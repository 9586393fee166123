"""Progress that is renewed while a pipeline is idle: as it is, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.broker.requests import now_ms, on_loop
from tests.spark.source_stage import SourceStage, everything
from tests.spark.test_committing import batch_of

import ottla
from ottla import Broker
from ottla.core.turn import Turn
from ottla.model import TopicPartition
from ottla.spark.sink import commit_session, micro_batch_commit
from ottla.spark.sink import progress_renewal as renewing
from ottla.spark.sink.commit_session import CommitPoint
from ottla.spark.sink.micro_batch_commit import Committer, Outcome
from ottla.spark.sink.progress import Marker, Target, marker_group
from ottla.spark.sink.progress_renewal import RENEW_SECONDS, Renewal
from ottla.spark.source.stream_offsets import SourceRange

WEEK_MS = 7 * 24 * 3600 * 1000


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class MeddledAdmin:
    """Answers what is committed, with somebody else at work before or after the last look."""

    def __init__(self, admin: ottla.Admin) -> None:
        self._admin = admin
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None

    def list_consumer_group_offsets(self, groups: Any, *, require_stable: bool) -> Any:
        if require_stable:
            self.before()
        found = self._admin.list_consumer_group_offsets(groups, require_stable=require_stable)
        if require_stable:
            self.after()
        return found

    def fence_producers(self, names: list[str]) -> Any:
        return self._admin.fence_producers(names)


class Scene:
    """A pipeline with one committed micro-batch."""

    def __init__(self, broker: Broker, name: str) -> None:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        self.broker = broker
        self.target = Target(name, f"{name}-out", servers, servers)
        self.source = TopicPartition(f"{name}-in", 0)
        self.admin = ottla.Admin(servers)
        self.admin.create_topics(
            [ottla.admin.NewTopic(f"{name}-{end}", 1) for end in ("in", "out")]
        )
        self.cluster = self.admin.describe_cluster().cluster_id
        self.meddled = MeddledAdmin(self.admin)
        self.watch = Watch()
        admin: Any = self.meddled
        self.renewal = Renewal(name, servers, lambda: admin, self.watch)

    def commit(self, number: int) -> Outcome:
        ranges = [SourceRange(self.cluster, {self.source: number}, {self.source: number + 1})]
        made = batch_of(self.target, number, b"%d" % number, sources=ranges)
        return Committer(self.target).commit(*made)

    def kept(self) -> dict[str, Any]:
        groups = [self.target.pipeline, marker_group(self.target.pipeline)]
        return self.admin.list_consumer_group_offsets(groups)

    def idle_for(self, seconds: float) -> None:
        self.watch.seconds += seconds
        self.renewal.nothing_to_read()

    def expire(self, at_ms: int) -> None:
        """What the broker does at that time with offsets that are too old."""

        def work(running: Any) -> None:
            for group in (self.target.pipeline, marker_group(self.target.pipeline)):
                running.node.groups.find(group).machine.expire(Turn(at_ms, 0))

        on_loop(self.broker, work)

    def close(self) -> None:
        Committer(self.target).forget()
        self.admin.close()


@pytest.fixture
def scene(ottla_broker: Broker, ottla_topic_name: Callable[[], str]) -> Iterator[Scene]:
    made = Scene(ottla_broker, ottla_topic_name())
    made.commit(0)
    yield made
    made.close()


def later_ms() -> int:
    """A moment after everything before and before everything after."""
    at = now_ms() + 1
    while now_ms() <= at:
        time.sleep(0.001)
    return at


@pytest.mark.parametrize("is_renewed", [True, False])
def test_progress_that_is_renewed_outlives_the_retention_as_it_is(
    scene: Scene, is_renewed: bool
) -> None:
    before = scene.kept()
    middle_ms = later_ms()
    if is_renewed:
        scene.idle_for(RENEW_SECONDS)
        scene.idle_for(RENEW_SECONDS)
    assert scene.kept() == before
    scene.expire(middle_ms + WEEK_MS)
    assert (scene.kept() == before) is is_renewed
    if is_renewed:
        Committer(scene.target).forget()
        assert scene.commit(0) is Outcome.ALREADY_COMMITTED
        assert scene.commit(1) is Outcome.COMMITTED


def test_who_is_at_work_is_not_fenced(scene: Scene) -> None:
    for number in range(1, 4):
        scene.idle_for(RENEW_SECONDS)
        assert scene.commit(number) is Outcome.COMMITTED
    scene.idle_for(RENEW_SECONDS - 1)
    assert scene.commit(4) is Outcome.COMMITTED


@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_another_instance_commits_meanwhile_stays(scene: Scene, moment: str) -> None:
    Committer(scene.target).forget()
    setattr(scene.meddled, moment, lambda: scene.commit(1))
    scene.idle_for(RENEW_SECONDS)
    scene.idle_for(RENEW_SECONDS)
    kept = scene.kept()
    assert kept[scene.target.pipeline][scene.source].offset == 2
    marker = kept[marker_group(scene.target.pipeline)]
    assert marker[TopicPartition(scene.target.marker_topic, 0)].offset == 1
    # And the other one goes on, with the session that it has.
    assert scene.commit(2) is Outcome.COMMITTED


def test_a_pipeline_that_has_committed_nothing_is_left_alone(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str]
) -> None:
    scene = Scene(ottla_broker, ottla_topic_name())
    scene.meddled.before = lambda: pytest.fail("it was fenced")
    scene.idle_for(RENEW_SECONDS)
    scene.idle_for(RENEW_SECONDS)
    scene.close()


def test_a_writer_under_the_bare_name_is_fenced_before_its_progress_is_renewed(
    scene: Scene,
) -> None:
    pipeline = scene.target.pipeline
    place = TopicPartition(scene.target.marker_topic, 0)
    marker = {place: Marker("q", 0).to_offset()}
    scene.admin.alter_consumer_group_offsets(marker_group(pipeline), marker)
    before = scene.kept()
    with ottla.Producer({**scene.target.options, "transactional.id": pipeline}) as writer:
        writer.init_transactions()
        writer.begin_transaction()
        writer.send_offsets_to_transaction({scene.source: 7}, pipeline)
        scene.idle_for(RENEW_SECONDS)
        scene.idle_for(RENEW_SECONDS)
        with pytest.raises(ottla.FatalError):
            writer.commit_transaction()
    assert scene.kept() == before


def test_a_session_that_rested_looks_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[CommitPoint] = []
    monkeypatch.setattr(commit_session, "listener", reached.append)
    scene.commit(1)
    assert CommitPoint.FENCED not in reached
    monkeypatch.setattr(micro_batch_commit, "MAX_IDLE_SECONDS", 0.0)
    assert scene.commit(2) is Outcome.COMMITTED
    assert CommitPoint.FENCED in reached


def test_a_source_without_new_records_renews(
    scene: Scene, stage: SourceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewing, "RENEW_SECONDS", 0.0)
    stage.create(1)
    before = scene.kept()
    reader = stage.stream(pipeline=scene.target.pipeline, startingOffsets="latest")
    start = reader.initialOffset()
    middle_ms = later_ms()
    for _ in range(2):
        assert reader.latestOffset(start, everything()) == start
    scene.expire(middle_ms + WEEK_MS)
    assert scene.kept() == before
