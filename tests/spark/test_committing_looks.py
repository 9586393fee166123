"""What a commit makes of what it finds: looks that are behind, sources that differ, topics that are gone, takeovers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.spark.pipelines import committed_values

import ottla
from ottla import Broker
from ottla.errors import (
    AbortableError,
    ErrorCode,
    FatalError,
    KafkaError,
    PartialFailureError,
    RetriableError,
    TimedOutError,
    exception_for,
)
from ottla.model import TopicPartition
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.spark import cluster_queries
from ottla.spark.sink import commit_session, micro_batch_commit
from ottla.spark.sink.commit_plan import CommitPlan, PlannedOffsets
from ottla.spark.sink.commit_session import CommitPoint, DriverSender, EncodedRecords
from ottla.spark.sink.micro_batch_commit import Committer, Outcome
from ottla.spark.sink.progress import (
    CommittedProgress,
    Marker,
    ProgressError,
    TakenOverError,
    Target,
    marker_group,
    read_progress,
)
from ottla.spark.source.stream_offsets import SourceRange


@pytest.fixture
def target(spark_broker: Broker, ottla_topic_name: Callable[[], str]) -> Iterator[Target]:
    servers = {"bootstrap.servers": spark_broker.bootstrap_servers}
    made = Target(ottla_topic_name(), ottla_topic_name(), servers, servers)
    with ottla.Admin(servers) as admin:
        admin.create_topics([ottla.admin.NewTopic(made.marker_topic, 1)])
    yield made
    Committer(made).forget()


@pytest.fixture
def admin(spark_broker: Broker) -> Iterator[ottla.Admin]:
    with ottla.Admin(bootstrap_servers=spark_broker.bootstrap_servers) as made:
        yield made


def batch_of(
    target: Target,
    number: int,
    *values: bytes,
    query: str = "q",
    sources: Sequence[SourceRange] = (),
) -> tuple[CommitPlan, DriverSender]:
    records = [Record(at, 1_790_000_000_000, None, each) for at, each in enumerate(values)]
    made = [EncodedRecords(target.marker_topic, 0, build_batch(records))] if records else []
    planned = PlannedOffsets(number, "p", sources)
    return CommitPlan(query, number, offsets_at_commit=planned), DriverSender(made)


def epoch_of(target: Target, admin: ottla.Admin) -> int:
    name = target.transactional_id
    return admin.describe_transactions([name])[name].producer_epoch


def values_of(target: Target) -> list[bytes]:
    return committed_values(target.options["bootstrap.servers"], target.marker_topic)


def test_a_first_look_that_is_behind_does_not_fail_the_commit(
    target: Target, admin: ottla.Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit is answered before its offsets are seen by those who do not ask for stable ones."""
    committer = Committer(target)
    committer.commit(*batch_of(target, 0, b"0"))
    old = read_progress(admin, target, (), is_stable=True)
    committer.commit(*batch_of(target, 1, b"1"))
    committer.forget()
    asked = []

    def behind(
        admin: ottla.Admin, target: Target, sources: Sequence[SourceRange], *, is_stable: bool
    ) -> CommittedProgress:
        asked.append(is_stable)
        return read_progress(admin, target, sources, is_stable=True) if is_stable else old

    monkeypatch.setattr(micro_batch_commit, "read_progress", behind)
    assert committer.commit(*batch_of(target, 2, b"2")) is Outcome.COMMITTED
    assert asked == [False, True, True]
    assert values_of(target) == [b"0", b"1", b"2"]


def test_who_cannot_go_on_fences_nobody(target: Target, admin: ottla.Admin) -> None:
    Committer(target).commit(*batch_of(target, 0, b"0"))
    epoch = epoch_of(target, admin)
    stranger = Committer(
        Target(target.pipeline, target.marker_topic, {**target.options, "client.id": "x"}, target.admin_options)
    )  # fmt: skip
    for late in (batch_of(target, 7, b"7"), batch_of(target, 3, b"3", query="another")):
        with pytest.raises(ProgressError):
            stranger.commit(*late)
    assert epoch_of(target, admin) == epoch
    assert Committer(target).commit(*batch_of(target, 1, b"1")) is Outcome.COMMITTED


def test_of_two_sources_of_one_partition_the_group_has_the_one_behind(
    target: Target, admin: ottla.Admin
) -> None:
    source = TopicPartition(f"{target.pipeline}-in", 0)
    admin.create_topics([ottla.admin.NewTopic(source.topic, 1)])
    cluster = admin.describe_cluster().cluster_id
    both = [SourceRange(cluster, {source: 0}, {source: end}) for end in (5, 10)]
    committer = Committer(target)
    committer.commit(*batch_of(target, 0, b"0", sources=both))
    found = read_progress(admin, target, both, is_stable=True)
    assert (found.offsets, found.differing) == ({source: 5}, [source])
    # A query that lost its checkpoint would read from 5 to 10 again for one of them.
    again = [SourceRange(cluster, {source: 5}, {source: 20})] * 2
    committer.forget()
    with pytest.raises(ProgressError, match="nothing shows that micro-batch 0"):
        committer.commit(*batch_of(target, 0, b"1", query="new", sources=again))
    # They have met.
    committer.commit(*batch_of(target, 1, b"1", sources=again))
    found = read_progress(admin, target, both, is_stable=True)
    assert (found.offsets, found.differing) == ({source: 20}, [])


def test_offsets_of_topics_that_are_gone_are_left_out(
    target: Target,
    admin: ottla.Admin,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(cluster_queries, "LOOKUP_PAUSE_SECONDS", 0.0)
    stays, goes = (TopicPartition(f"{target.pipeline}-{name}", 0) for name in ("stays", "goes"))
    admin.create_topics([ottla.admin.NewTopic(each.topic, 1) for each in (stays, goes)])
    cluster = admin.describe_cluster().cluster_id

    def sources(start: int, end: int) -> list[SourceRange]:
        places = (stays, goes)
        return [SourceRange(cluster, dict.fromkeys(places, start), dict.fromkeys(places, end))]

    committer = Committer(target)
    committer.commit(*batch_of(target, 0, b"0", sources=sources(0, 3)))
    admin.delete_topics([goes.topic])
    with caplog.at_level(logging.WARNING):
        # With a session and without one.
        committer.commit(*batch_of(target, 1, b"1", sources=sources(3, 6)))
        committer.forget()
        committer.commit(*batch_of(target, 2, b"2", sources=sources(6, 9)))
    assert sum("exist no longer" in each for each in caplog.messages) == 2
    assert read_progress(admin, target, sources(0, 0), is_stable=True).offsets.get(stays) == 9
    assert values_of(target) == [b"0", b"1", b"2"]


def test_a_topic_that_one_answer_lacks_is_not_gone() -> None:
    class Forgetful:
        """An admin client whose first answer is of a broker that does not know everything yet."""

        def __init__(self, *answers: set[str]) -> None:
            self.answers = list(answers)

        def describe_topics(self, names: list[str]) -> dict[str, object]:
            known = self.answers.pop(0)
            unknown = {
                each: exception_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for each in names
                if each not in known
            }
            if not unknown:
                return dict.fromkeys(names, object())
            if len(names) == 1:
                raise unknown[names[0]]
            raise PartialFailureError(dict.fromkeys(known, object()), unknown)

    assert cluster_queries.missing_topics(Forgetful({"a"}, {"a", "b"}), ["a", "b"]) == []  # type: ignore[arg-type]
    three = [{"a"}, set[str](), set[str]()]
    assert cluster_queries.missing_topics(Forgetful(*three), ["b", "a", "b"]) == ["b"]  # type: ignore[arg-type]
    assert cluster_queries.missing_topics(Forgetful(), []) == []  # type: ignore[arg-type]


def test_an_answer_that_lacks_parts_is_as_retriable_as_they_are() -> None:
    def failing(*codes: ErrorCode) -> Callable[[], None]:
        def ask() -> None:
            raise PartialFailureError({}, {code: exception_for(code) for code in codes})

        return ask

    away = failing(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(TimedOutError):
        cluster_queries.retriable_as_a_whole(away)
    refused = failing(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError) as caught:
        cluster_queries.retriable_as_a_whole(refused)
    assert not isinstance(caught.value, RetriableError)
    assert cluster_queries.retriable_as_a_whole(lambda: 7) == 7


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyboardInterrupt()])
def test_whatever_fails_leaves_no_open_transaction(
    target: Target, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(point: CommitPoint) -> None:
        if point is CommitPoint.SENT_MARKER:
            raise error

    monkeypatch.setattr(commit_session, "listener", fail)
    with pytest.raises(type(error)):
        Committer(target).commit(*batch_of(target, 0, b"0"))
    # With an open transaction readers would wait, and nothing would be at the end.
    with ottla.Consumer({**target.options, "isolation.level": "read_committed"}) as consumer:
        place = TopicPartition(target.marker_topic, 0)
        assert consumer.end_offsets([place])[place] == 2


def test_a_zombie_that_slept_past_the_timeout_does_not_fence_who_took_over(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Target(
        target.pipeline,
        target.marker_topic,
        {**target.options, "transaction.timeout.ms": "1000"},
        target.admin_options,
    )
    living = Committer(target)
    Committer(slow).commit(*batch_of(slow, 0, b"0"))

    def sleep(point: CommitPoint) -> None:
        if point is not CommitPoint.SENT_MARKER:
            return
        monkeypatch.setattr(commit_session, "listener", None)
        living.commit(*batch_of(target, 1, b"1"))
        bad = DriverSender([EncodedRecords(target.marker_topic, 0, b"no batch")])
        with pytest.raises(AbortableError):
            # Its next one fails and is aborted: the last state is the same as after a timeout.
            living.commit(CommitPlan("q", 2), bad)
        threading.Event().wait(1.1)

    monkeypatch.setattr(commit_session, "listener", sleep)
    with pytest.raises(TakenOverError):
        Committer(slow).commit(*batch_of(slow, 1, b"zombie"))
    assert values_of(target) == [b"0", b"1"]


# Transactional ids: those of pipelines have a prefix, which they had not always


class WriterOfBefore:
    """An instance of the pipeline whose transactional id is the bare name, and whose markers do not say so."""

    def __init__(self, target: Target) -> None:
        self._target = target
        own = {"transactional.id": target.pipeline, "transaction.timeout.ms": "900000"}
        self.producer = ottla.Producer({**target.options, **own})
        self.producer.init_transactions()

    def begin(self, number: int, value: bytes) -> None:
        """All of a micro-batch but the commit."""
        place = TopicPartition(self._target.marker_topic, 0)
        self.producer.begin_transaction()
        self.producer.send(place.topic, value, partition=0)
        self.producer.flush()
        self.producer.send_offsets_to_transaction(
            {place: Marker("q", number).to_offset()}, marker_group(self._target.pipeline)
        )

    def write(self, number: int, value: bytes) -> None:
        self.begin(number, value)
        self.producer.commit_transaction()

    def is_fenced(self) -> bool:
        try:
            self.producer.commit_transaction()
        except FatalError:
            return True
        return False


@pytest.fixture
def before(target: Target) -> Iterator[WriterOfBefore]:
    made = WriterOfBefore(target)
    yield made
    made.producer.close(0)


def test_a_program_whose_transactional_id_is_the_pipelines_name_is_left_alone(
    target: Target,
) -> None:
    with ottla.Producer({**target.options, "transactional.id": target.pipeline}) as program:
        program.init_transactions()
        program.begin_transaction()
        program.send(target.marker_topic, b"theirs")
        program.flush()
        for number in range(2):
            assert Committer(target).commit(*batch_of(target, number, b"ours")) is Outcome.COMMITTED
            Committer(target).forget()
        program.commit_transaction()
    assert values_of(target) == [b"theirs", b"ours", b"ours"]


def test_an_existing_pipeline_goes_on_under_the_prefixed_id_and_its_last_writer_is_fenced(
    target: Target, before: WriterOfBefore, admin: ottla.Admin
) -> None:
    before.write(0, b"zero")
    # It dies in the middle of the next one, or is only slow.
    before.begin(1, b"one, not committed")
    assert Committer(target).commit(*batch_of(target, 0, b"zero")) is Outcome.ALREADY_COMMITTED
    assert Committer(target).commit(*batch_of(target, 1, b"one")) is Outcome.COMMITTED
    assert before.is_fenced()
    assert values_of(target) == [b"zero", b"one"]
    # From now on the bare name is nobody's of ours.
    name = target.pipeline
    epoch = admin.describe_transactions([name])[name].producer_epoch
    Committer(target).forget()
    assert Committer(target).commit(*batch_of(target, 2, b"two")) is Outcome.COMMITTED
    assert admin.describe_transactions([name])[name].producer_epoch == epoch


def test_a_writer_under_the_bare_name_that_commits_after_the_first_look_is_seen(
    target: Target, before: WriterOfBefore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit_late(point: CommitPoint) -> None:
        if point is CommitPoint.LOOKED:
            before.write(0, b"zero")
            before.producer.begin_transaction()
            before.producer.send(target.marker_topic, b"one")
            before.producer.flush()

    monkeypatch.setattr(commit_session, "listener", commit_late)
    assert Committer(target).commit(*batch_of(target, 0, b"zero")) is Outcome.ALREADY_COMMITTED
    assert before.is_fenced()
    assert values_of(target) == [b"zero"]
