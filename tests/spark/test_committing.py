"""The commit core without Spark: whatever dies or sleeps at whatever step, the output is the input, once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from tests.client.producer.meddler import Meddler, meddled_broker
from tests.spark.driver import REFUSED, TAKEN_OVER
from tests.spark.pipelines import WAIT_SECONDS, Pipe
from tests.waiting import in_time

import ottla
from ottla.errors import AbortableError, ErrorCode
from ottla.model import TopicPartition
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.spark.sink import commit_session, transaction
from ottla.spark.sink.commit_plan import CommitPlan, PlannedOffsets
from ottla.spark.sink.commit_session import CommitPoint, DriverSender, EncodedRecords
from ottla.spark.sink.micro_batch_commit import Committer, Outcome
from ottla.spark.sink.progress import (
    ProgressError,
    TakenOverError,
    Target,
    marker_group,
    transactional_id,
)
from ottla.spark.source.stream_offsets import SourceRange

# Which visits of a step are worth a death: the first commit of a process looks and fences, later ones do not.
ONCE = {CommitPoint.LOOKED, CommitPoint.FENCED, CommitPoint.LOOKED_AGAIN}
# In every test run: nothing is begun, a transaction is open without and with its marker, everything is done.
QUICK = ("LOOKED_AGAIN", "SENT_SOME", "SENT_MARKER", "ENDED")
VISITS = [
    pytest.param(
        point.name,
        visit,
        marks=[] if visit == 1 and point.name in QUICK else [pytest.mark.campaign],
    )
    for point in CommitPoint
    # Of three micro-batches in a row one is empty, and sends nothing.
    for visit in (1, 2 if point is CommitPoint.SENT_SOME else 3)
    if visit == 1 or point not in ONCE
]
# Where a zombie may sleep: the others are between two of these, and in the campaign.
LATE = ("LOOKED", "SENT_MARKER")
ZOMBIES = [
    pytest.param(point.name, marks=[] if point.name in LATE else [pytest.mark.campaign])
    for point in CommitPoint
]
QUERY = "11111111-1111-1111-1111-111111111111"


def stop_at(pipe: Pipe, point: str, visit: int = 1, **more: Any) -> subprocess.Popen[str]:
    """A driver that sleeps at a step."""
    process = pipe.start(at=(point, visit, "stop"), **more)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("at "):
            # It says so before it sleeps: to wake it earlier would be to no effect.
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            return process
    raise AssertionError(process.communicate())


def wake(process: subprocess.Popen[str]) -> tuple[int, str]:
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=WAIT_SECONDS)
    return process.returncode, said


@pytest.mark.parametrize(("point", "visit"), VISITS, ids=lambda each: str(each))
def test_a_driver_that_dies_at_any_step_loses_and_repeats_nothing(
    pipe: Pipe, point: str, visit: int
) -> None:
    code, said = pipe.run(at=(point, visit, "die"))
    assert code == -signal.SIGKILL, said
    before = pipe.marker()
    pipe.check_whole()
    pipe.feed(50)
    code, said = pipe.run()
    assert code == 0, said
    if point == "ENDED":
        assert before is not None
        assert f"{before.batch} ALREADY_COMMITTED" in said
    else:
        assert "ALREADY" not in said
    pipe.check_done()


@pytest.mark.campaign
def test_drivers_that_die_again_and_again_lose_and_repeat_nothing(pipe: Pipe) -> None:
    for point in CommitPoint:
        visit = 1 if point in ONCE else 2
        code, said = pipe.run(at=(point.name, visit, "die"))
        assert code == -signal.SIGKILL, said
        pipe.check_whole()
        pipe.feed(120)
    assert pipe.run()[0] == 0
    pipe.check_done()


@pytest.mark.parametrize("point", ZOMBIES)
def test_a_zombie_that_wakes_late_changes_nothing(pipe: Pipe, point: str) -> None:
    zombie = stop_at(pipe, point)
    code, said = pipe.run()
    assert code == 0, said
    pipe.check_done()
    before = pipe.output()
    code, said = wake(zombie)
    # One that had committed finds its checkpoint done.
    assert code == (0 if point == "ENDED" else TAKEN_OVER), said
    pipe.check_done()
    assert pipe.output() == before


def test_a_zombie_that_comes_too_late_does_not_fence_the_living(pipe: Pipe) -> None:
    zombie = stop_at(pipe, "ENTERED")
    living = stop_at(pipe, "SENT_MARKER")
    code, said = wake(living)
    assert code == 0, said
    # A second life of the session of `living` would show a fence; here its transactional id does.
    with ottla.Admin(bootstrap_servers=pipe.servers) as admin:
        name = transactional_id(pipe.name)
        epoch = admin.describe_transactions([name])[name].producer_epoch
        code, said = wake(zombie)
        assert code == TAKEN_OVER
        assert "another instance took over" in said
        assert admin.describe_transactions([name])[name].producer_epoch == epoch


def test_the_second_instance_fences_the_first(pipe: Pipe) -> None:
    first = stop_at(pipe, "SENT_MARKER")
    second = stop_at(pipe, "BEGUN")
    code, said = wake(first)
    assert code == TAKEN_OVER
    assert "Another instance took over" in said
    pipe.check_whole()
    code, said = wake(second)
    assert code == 0, said
    pipe.check_done()


def test_an_instance_with_another_checkpoint_goes_on_where_the_output_ends(pipe: Pipe) -> None:
    assert pipe.run(at=("SENT", 4, "die"))[0] == -signal.SIGKILL
    pipe.check_whole()
    shutil.rmtree(pipe.folder / "checkpoint")
    code, said = pipe.run()
    assert code == 0, said
    assert "0 COMMITTED" in said
    pipe.check_done()


def test_an_instance_with_another_checkpoint_does_not_repeat_what_was_written_meanwhile(
    pipe: Pipe,
) -> None:
    assert pipe.run(at=("ENDED", 1, "die"))[0] == -signal.SIGKILL
    late = stop_at(pipe, "ENTERED", checkpoint="other")
    # The second commit is of an empty micro-batch, which moves no offset.
    living = stop_at(pipe, "ENDED", visit=2)
    code, said = wake(late)
    assert code == REFUSED
    assert "does not begin where the committed output ends" in said
    code, said = wake(living)
    assert code == 0, said
    pipe.check_done()


def test_a_checkpoint_that_is_older_than_the_output_is_refused(pipe: Pipe) -> None:
    assert pipe.run(at=("ENTERED", 3, "die"))[0] == -signal.SIGKILL
    backup = pipe.folder / "backup"
    shutil.copytree(pipe.folder / "checkpoint", backup)
    # The plan of the micro-batch that was not committed is not in the backup: it is made anew, with more records.
    (backup / "offsets" / "2").unlink()
    assert pipe.run()[0] == 0
    pipe.feed(60)
    code, said = pipe.run(checkpoint="backup")
    assert code == TAKEN_OVER
    assert "the checkpoint is older than the output" in said
    assert pipe.run()[0] == 0
    pipe.check_done()


def test_another_plan_under_the_same_number_is_not_taken_for_committed(pipe: Pipe) -> None:
    assert pipe.run(at=("ENDED", 3, "die"))[0] == -signal.SIGKILL
    plan = pipe.folder / "checkpoint" / "offsets" / "2"
    kept = plan.read_text()
    plan.write_text(kept.replace('"at": ', '"at": 1'))
    code, said = pipe.run()
    assert code == REFUSED
    assert "with another plan" in said
    plan.write_text(kept)
    assert pipe.run()[0] == 0
    pipe.check_done()


def test_an_expired_marker_is_an_error_that_names_the_option(pipe: Pipe) -> None:
    assert pipe.run(at=("ENTERED", 3, "die"))[0] == -signal.SIGKILL
    with ottla.Admin(bootstrap_servers=pipe.servers) as admin:
        admin.delete_consumer_groups([marker_group(pipe.name), pipe.name])
    before = pipe.output()
    code, said = pipe.run()
    assert code == REFUSED
    assert "failOnUnknownProgress=false" in said
    assert "offsets.retention.minutes" in said
    assert pipe.output() == before
    assert pipe.run(fails_on_unknown=False)[0] == 0
    pipe.check_done()


# Faults between the committer and the broker


@pytest.fixture(scope="module")
def meddled() -> Iterator[tuple[ottla.Broker, Meddler]]:
    sweep = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
    with meddled_broker(**{"num.partitions": 2, **sweep}) as pair:
        yield pair


@pytest.fixture
def meddler(meddled: tuple[ottla.Broker, Meddler]) -> Iterator[Meddler]:
    meddled[1].calm()
    yield meddled[1]
    meddled[1].calm()


@pytest.fixture
def target(meddler: Meddler, ottla_topic_name: Callable[[], str]) -> Iterator[Target]:
    servers = {"bootstrap.servers": f"127.0.0.1:{meddler.port}"}
    quick = {"retry.backoff.ms": "10", "retry.backoff.max.ms": "20"}
    made = Target(ottla_topic_name(), ottla_topic_name(), {**servers, **quick}, servers)
    yield made
    Committer(made).forget()


def batch_of(
    target: Target, number: int, *values: bytes, sources: Sequence[SourceRange] = ()
) -> tuple[CommitPlan, DriverSender]:
    records = [Record(at, 1_790_000_000_000, None, each) for at, each in enumerate(values)]
    made = [EncodedRecords(target.marker_topic, 0, build_batch(records))] if records else []
    planned = PlannedOffsets(number, "p", sources)
    return CommitPlan(QUERY, number, offsets_at_commit=planned), DriverSender(made)


def values_of(target: Target) -> list[bytes]:
    with ottla.Consumer({**target.admin_options, "isolation.level": "read_committed"}) as consumer:
        place = TopicPartition(target.marker_topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([place])[place]
        found: list[bytes] = []
        while consumer.position(place) < end:
            found += [record.value for record in consumer.poll(5.0)]
        return found


@pytest.mark.parametrize("deed", ["is_lost", "answer_is_lost"])
@pytest.mark.parametrize(
    "request_name",
    ["InitProducerId", "OffsetFetch", "Produce", "TxnOffsetCommit", "EndTxn"],
)
def test_lost_requests_and_answers_change_nothing(
    target: Target, meddler: Meddler, request_name: str, deed: str
) -> None:
    for number in range(3):
        lost = meddler.on(request_name, times=2, **{deed: True})
        outcome = Committer(target).commit(*batch_of(target, number, b"%d" % number))
        assert outcome is Outcome.COMMITTED
        assert lost.done == 2 or (number and request_name in ("InitProducerId", "OffsetFetch"))
        meddler.calm()
    assert values_of(target) == [b"0", b"1", b"2"]
    Committer(target).forget()
    assert Committer(target).commit(*batch_of(target, 2, b"2")) is Outcome.ALREADY_COMMITTED
    assert values_of(target) == [b"0", b"1", b"2"]


def test_the_commit_is_asked_for_until_there_is_an_answer(
    target: Target, meddler: Meddler, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**target.options, "max.block.ms": "1500"}
    patient = Target(target.pipeline, target.marker_topic, options, target.admin_options)
    Committer(patient).commit(*batch_of(patient, 0, b"a"))
    held = threading.Event()
    meddler.on("EndTxn", hold=held)
    told: list[str] = []

    def tell(words: str, *_: object) -> None:
        told.append(words)
        held.set()

    monkeypatch.setattr(transaction.log, "warning", tell)
    assert Committer(patient).commit(*batch_of(patient, 1, b"b")) is Outcome.COMMITTED
    assert told[0] == "%s: the commit is not answered yet, asking again: %s"
    Committer(patient).forget()
    assert values_of(patient) == [b"a", b"b"]


def test_a_session_saves_the_fence_and_the_look(target: Target, meddler: Meddler) -> None:
    Committer(target).commit(*batch_of(target, 0, b"a"))
    meddler.calm()
    Committer(target).commit(*batch_of(target, 1, b"b"))
    assert not meddler.seen("InitProducerId")
    assert not meddler.seen("OffsetFetch")
    # One that is not of the micro-batch before is of no use.
    Committer(target).commit(*batch_of(target, 1, b"b"))
    assert meddler.seen("OffsetFetch")
    assert values_of(target) == [b"a", b"b"]


def test_a_session_that_was_fenced_says_so_and_is_not_used_again(target: Target) -> None:
    committer = Committer(target)
    committer.commit(*batch_of(target, 0, b"a"))
    with ottla.Producer({**target.options, "transactional.id": target.transactional_id}) as other:
        other.init_transactions()
        with pytest.raises(TakenOverError, match="Another instance took over pipeline"):
            committer.commit(*batch_of(target, 1, b"b"))
    assert committer.commit(*batch_of(target, 1, b"b")) is Outcome.COMMITTED
    assert values_of(target) == [b"a", b"b"]


def test_a_batch_that_is_refused_leaves_no_open_transaction(target: Target) -> None:
    committer = Committer(target)
    good = build_batch([Record(0, 1_790_000_000_000, None, b"a")])
    bad = [EncodedRecords(target.marker_topic, 0, data) for data in (good, b"no batch")]
    with pytest.raises(AbortableError, match="cannot be sent") as caught:
        committer.commit(CommitPlan(QUERY, 0), DriverSender(bad))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    # Readers do not wait: with an open transaction the end would be before the aborted record.
    assert values_of(target) == []
    assert committer.commit(*batch_of(target, 0, b"b")) is Outcome.COMMITTED
    assert values_of(target) == [b"b"]


@pytest.fixture
def short(target: Target) -> Target:
    """As `target`, with transactions that time out after a second."""
    options = {**target.options, "transaction.timeout.ms": "1000"}
    return Target(target.pipeline, target.marker_topic, options, target.admin_options)


def wait_for_timeout(target: Target) -> None:
    """Until the coordinator has aborted the transaction."""
    with ottla.Admin(dict(target.admin_options)) as admin:
        deadline = time.monotonic() + WAIT_SECONDS
        while admin.list_transactions()[target.transactional_id].state != "CompleteAbort":
            in_time(deadline)
            threading.Event().wait(0.05)


def test_a_transaction_that_took_too_long_is_not_called_a_takeover(
    short: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(point: CommitPoint) -> None:
        if point is CommitPoint.SENT_MARKER:
            wait_for_timeout(short)

    monkeypatch.setattr(commit_session, "listener", wait)
    with pytest.raises(AbortableError, match=r"transaction\.timeout\.ms"):
        Committer(short).commit(*batch_of(short, 0, b"a"))
    monkeypatch.setattr(commit_session, "listener", None)
    assert Committer(short).commit(*batch_of(short, 0, b"a")) is Outcome.COMMITTED
    assert values_of(short) == [b"a"]


@pytest.mark.parametrize("successor", ["begins", "commits"])
def test_whoever_slept_longer_than_the_timeout_is_told_of_a_takeover(
    short: Target, monkeypatch: pytest.MonkeyPatch, successor: str
) -> None:
    def sleep(point: CommitPoint) -> None:
        if point is not CommitPoint.SENT_MARKER:
            return
        wait_for_timeout(short)
        other = {**short.options, "transactional.id": short.transactional_id}
        with ottla.Producer(other) as producer:
            producer.init_transactions()
            if successor == "commits":
                with producer.transaction():
                    producer.send(short.marker_topic, b"b", partition=0)

    monkeypatch.setattr(commit_session, "listener", sleep)
    with pytest.raises(TakenOverError, match="Another instance took over"):
        Committer(short).commit(*batch_of(short, 0, b"a"))
    assert values_of(short) == ([b"b"] if successor == "commits" else [])


def test_offsets_of_another_clusters_source_are_not_committed(target: Target) -> None:
    elsewhere = SourceRange("another", {TopicPartition("far", 0): 0}, {TopicPartition("far", 0): 9})
    outcome = Committer(target).commit(*batch_of(target, 0, b"a", sources=[elsewhere]))
    assert outcome is Outcome.COMMITTED
    with ottla.Admin(dict(target.admin_options)) as admin:
        groups = set(admin.list_consumer_groups())
    assert marker_group(target.pipeline) in groups
    assert target.pipeline not in groups


def test_micro_batches_without_records_are_committed_too(target: Target) -> None:
    for number in range(3):
        assert Committer(target).commit(*batch_of(target, number)) is Outcome.COMMITTED
    Committer(target).forget()
    assert Committer(target).commit(*batch_of(target, 2)) is Outcome.ALREADY_COMMITTED
    with pytest.raises(ProgressError, match="those between"):
        Committer(target).commit(*batch_of(target, 9))


def test_forgetting_neither_ends_nor_fences(target: Target) -> None:
    committer = Committer(target)
    committer.commit(*batch_of(target, 0, b"a"))
    with ottla.Producer({**target.options, "transactional.id": target.transactional_id}) as winner:
        winner.init_transactions()
        winner.begin_transaction()
        winner.send(target.marker_topic, b"winner", partition=0).result(10)
        committer.forget()
        winner.commit_transaction()
    assert values_of(target) == [b"a", b"winner"]
