"""What becomes of a micro-batch, from its plan, the marker and the group's offsets: the whole table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.model import OffsetAndMetadata
from ottla.model import TopicPartition
from ottla.spark.sink.commit_decision import DECISIONS, Decision, Standing, decide, standing
from ottla.spark.sink.commit_plan import CommitPlan, PlannedOffsets, PlanOrigin, TaskPlan
from ottla.spark.sink.progress import (
    DIFFERING,
    CommittedProgress,
    Marker,
    ProgressError,
    TakenOverError,
    Target,
    group_offsets,
    marker_group,
)
from ottla.spark.source.stream_offsets import SourceRange

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
START, END = {ZERO: 10, ONE: 20}, {ZERO: 15, ONE: 20}


FRAUD, CARELESS = Target("fraud", "alerts"), Target("fraud", "alerts", fails_on_unknown=False)


def plan_of(
    number: int, start: dict[TopicPartition, int] = START, end: dict[TopicPartition, int] = END
) -> CommitPlan:
    planned = PlannedOffsets(number, "p", [SourceRange("c", start, end)])
    return CommitPlan("mine", number, offsets_at_commit=planned)


def place(
    marker: Marker | None, number: int, offsets: dict[TopicPartition, int] | None = None
) -> Standing:
    batch = plan_of(number)
    return standing(batch, CommittedProgress(marker, offsets or {}), batch.sources)


@pytest.mark.parametrize(
    ("marker", "number", "expected"),
    [
        (None, 0, Standing.NOTHING_YET),
        (None, 1, Standing.LOST),
        (None, 700, Standing.LOST),
        (Marker("mine", 6, "q"), 7, Standing.JUST_BEFORE),
        (Marker("mine", 7, "p"), 7, Standing.HERE),
        (Marker("mine", 7, None), 7, Standing.HERE),
        (Marker("mine", 7, "q"), 7, Standing.OTHER_PLAN),
        (Marker("mine", 8, "p"), 7, Standing.AHEAD),
        (Marker("mine", 5, "p"), 7, Standing.FAR_BEHIND),
        (Marker("theirs", 7, "p"), 7, Standing.OTHER_QUERY),
        (Marker("theirs", 6, "p"), 7, Standing.OTHER_QUERY),
        (Marker("theirs", 6, "p"), 0, Standing.OTHER_QUERY),
    ],
)
def test_where_the_marker_stands(marker: Marker | None, number: int, expected: Standing) -> None:
    assert place(marker, number) is expected


@pytest.mark.parametrize(
    ("offsets", "is_continued"),
    [
        ({ZERO: 10, ONE: 20}, True),
        # A partition without an offset was in no micro-batch.
        ({ZERO: 10}, True),
        ({}, False),
        ({ZERO: 15, ONE: 20}, False),
        ({ZERO: 9, ONE: 20}, False),
        ({ZERO: 10, ONE: 21}, False),
    ],
)
@pytest.mark.parametrize("number", [0, 3])
def test_another_query_is_continued_only_where_its_output_ends(
    number: int, offsets: dict[TopicPartition, int], is_continued: bool
) -> None:
    expected = Standing.OTHER_QUERY_WE_CONTINUE if is_continued else Standing.ELSEWHERE
    if not offsets:
        expected = Standing.OTHER_QUERY
    assert place(Marker("theirs", 9), number, offsets) is expected


def test_between_equal_offsets_nothing_shows_that_a_batch_was_not_committed() -> None:
    found = CommittedProgress(Marker("theirs", 9), START)
    for number, expected in ((0, Standing.OTHER_QUERY_WE_CONTINUE), (3, Standing.OTHER_QUERY)):
        batch = plan_of(number, START, START)
        assert standing(batch, found, batch.sources) is expected


def test_a_query_that_keeps_state_does_not_go_on_without_it() -> None:
    found = CommittedProgress(Marker("theirs", 9), START)
    batch = replace(plan_of(0), keeps_state=True)
    assert standing(batch, found, batch.sources) is Standing.OTHER_QUERY_HAD_STATE
    with pytest.raises(ProgressError, match="counts would begin at nothing"):
        decide(FRAUD, batch, found, batch.sources)
    assert decide(CARELESS, batch, found, batch.sources) is Decision.WRITE


def test_a_start_that_is_not_known_continues_nothing() -> None:
    batch = plan_of(0, {}, END)
    assert (
        standing(batch, CommittedProgress(Marker("theirs", 9), START), batch.sources)
        is Standing.OTHER_QUERY
    )
    assert (
        standing(plan_of(0), CommittedProgress(Marker("theirs", 9), START), [])
        is Standing.OTHER_QUERY
    )


def test_every_standing_has_its_decision() -> None:
    assert dict(DECISIONS) == {
        Standing.PLAN_REPLACED: Decision.REFUSE,
        Standing.NOT_ASKED: Decision.READ_MARKER,
        Standing.NOTHING_YET: Decision.WRITE,
        Standing.FIRST_OF_OURS: Decision.WRITE,
        Standing.LOST: Decision.REFUSE_UNKNOWN,
        Standing.JUST_BEFORE: Decision.WRITE,
        Standing.HERE: Decision.SKIP,
        Standing.OTHER_PLAN: Decision.REFUSE,
        Standing.AHEAD: Decision.REFUSE,
        Standing.FAR_BEHIND: Decision.REFUSE_UNKNOWN,
        Standing.OTHER_QUERY_WE_CONTINUE: Decision.WRITE,
        Standing.OTHER_QUERY_HAD_STATE: Decision.REFUSE_UNKNOWN,
        Standing.OTHER_QUERY: Decision.REFUSE_UNKNOWN,
        Standing.ELSEWHERE: Decision.REFUSE,
    }
    assert set(DECISIONS) == set(Standing)


def planned(number: int, digest: str) -> PlannedOffsets:
    return PlannedOffsets(number, digest, [SourceRange("c", START, END)])


@pytest.mark.parametrize(
    ("at_planning", "at_commit", "origin", "digest"),
    [
        # The task plan is of this micro-batch: the checkpoint at the commit has to be the same.
        (planned(7, "p"), PlannedOffsets(7, "p"), PlanOrigin.TASK_PLANNING, "p"),
        (planned(7, "p"), None, PlanOrigin.TASK_PLANNING_ONLY, "p"),
        (planned(7, "p"), PlannedOffsets(7, "q"), PlanOrigin.REPLACED, "p"),
        # Another instance has planned on.
        (planned(8, "p"), None, PlanOrigin.REPLACED, None),
        # The tasks were planned without it, or a listing did not have it yet: only the checkpoint at the commit counts.
        (None, planned(7, "q"), PlanOrigin.COMMIT, "q"),
        (planned(6, "p"), planned(7, "q"), PlanOrigin.COMMIT, "q"),
        (None, None, PlanOrigin.NOT_READ, None),
        (planned(6, "p"), None, PlanOrigin.NOT_READ, None),
    ],
)
def test_where_the_offsets_of_a_commit_come_from(
    at_planning: PlannedOffsets | None,
    at_commit: PlannedOffsets | None,
    origin: PlanOrigin,
    digest: str | None,
) -> None:
    plan = CommitPlan("mine", 7, TaskPlan({}, at_planning), at_commit, "ckpt")
    assert plan.origin is origin
    assert plan.marker == Marker("mine", 7, digest)
    assert bool(plan.sources) is (digest is not None)
    before = CommittedProgress(Marker("mine", 6))
    if origin is PlanOrigin.REPLACED:
        # Whatever the marker says, and before it is read.
        for committed in (None, before, CommittedProgress(Marker("mine", 7, digest))):
            with pytest.raises(TakenOverError, match="ckpt has another plan than micro-batch 7"):
                decide(CARELESS, plan, committed)
    else:
        assert decide(FRAUD, plan, None) is Decision.READ_MARKER
        assert decide(FRAUD, plan, before) is Decision.WRITE
    refuted = replace(plan, is_refuted=True)
    assert standing(refuted, before) is Standing.PLAN_REPLACED


def verdict(marker: Marker | None, number: int, *, fails_on_unknown: bool = True) -> Decision:
    batch = plan_of(number)
    target = FRAUD if fails_on_unknown else CARELESS
    return decide(target, batch, CommittedProgress(marker), batch.sources)


@pytest.mark.parametrize(
    ("marker", "error", "words"),
    [
        (None, ProgressError, ["no marker", "seven days", "failOnUnknownProgress=false"]),
        (
            Marker("mine", 2),
            ProgressError,
            ["is 2", "next one is 7", "failOnUnknownProgress=false"],
        ),
        (Marker("theirs", 2), ProgressError, ["query theirs", "failOnUnknownProgress=false"]),
        (Marker("mine", 7, "q"), ProgressError, ["another plan", "new checkpoint"]),
        (Marker("mine", 9), TakenOverError, ["another instance took over", "new checkpoint"]),
    ],
)
def test_a_refusal_says_why_and_what_to_do(
    marker: Marker | None, error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        verdict(marker, 7)
    for word in words:
        assert word in str(caught.value)
    assert "'fraud'" in str(caught.value)


def test_the_user_may_accept_what_is_not_known_but_not_a_loss() -> None:
    for marker in (None, Marker("mine", 2), Marker("theirs", 2)):
        assert verdict(marker, 7, fails_on_unknown=False) is Decision.WRITE
    for known in (Marker("mine", 9), Marker("mine", 7, "q")):
        with pytest.raises((ProgressError, TakenOverError)):
            verdict(known, 7, fails_on_unknown=False)


@pytest.mark.parametrize("marker", [None, Marker("mine", 2), Marker("theirs", 2)])
def test_what_is_known_to_be_written_is_not_accepted_as_unknown(marker: Marker | None) -> None:
    """The group's offsets prove that records of the micro-batch are there."""
    batch = plan_of(7)
    for written in ({ZERO: 15, ONE: 20}, {ZERO: 11}, {ONE: 21}):
        with pytest.raises(ProgressError, match="does not begin where") as caught:
            decide(CARELESS, batch, CommittedProgress(marker, written), batch.sources)
        assert "failOnUnknownProgress" not in str(caught.value)


@pytest.mark.parametrize("marker", [None, Marker("mine", 2)])
def test_what_lies_between_may_have_been_written_by_others(marker: Marker | None) -> None:
    batch = plan_of(7)
    found = CommittedProgress(marker, {ZERO: 9, ONE: 20})
    with pytest.raises(ProgressError, match="failOnUnknownProgress=false"):
        decide(FRAUD, batch, found, batch.sources)
    assert decide(CARELESS, batch, found, batch.sources) is Decision.WRITE


def test_the_group_has_the_least_end_of_several_sources_and_says_that_they_differ() -> None:
    behind = SourceRange("c", {ZERO: 0}, {ZERO: 5})
    ahead = SourceRange("c", {ZERO: 0}, {ZERO: 10, ONE: 2})
    for sources in ([behind, ahead], [ahead, behind]):
        kept = group_offsets(sources)
        assert {each: (at.offset, at.metadata) for each, at in kept.items()} == {
            ZERO: (5, DIFFERING),
            ONE: (2, ""),
        }


def test_sources_that_do_not_begin_together_continue_nothing() -> None:
    def place_of(committed: CommittedProgress, *starts: int) -> Standing:
        sources = [SourceRange("c", {ZERO: at}, {ZERO: 20}) for at in starts]
        return standing(CommitPlan("mine", 0), committed, sources)

    found = CommittedProgress(Marker("theirs", 9), {ZERO: 5})
    assert place_of(found, 5, 5) is Standing.OTHER_QUERY_WE_CONTINUE
    assert place_of(found, 5, 10) is Standing.ELSEWHERE
    assert place_of(found, 10, 5) is Standing.ELSEWHERE
    # One of the sources before had read further: to begin at the least repeats what it read.
    differing = CommittedProgress(Marker("theirs", 9), {ZERO: 5}, [ZERO])
    assert place_of(differing, 5, 5) is Standing.OTHER_QUERY


@given(st.text(), st.integers(0, 2**63 - 1), st.none() | st.text())
def test_a_marker_is_read_as_it_was_written(query: str, batch: int, plan: str | None) -> None:
    marker = Marker(query, batch, plan)
    assert Marker.from_offset(marker.to_offset(), "g") == marker


NO_MARKERS = [
    '{"query":"q"}',
    '{"query":1,"batch":2}',
    '{"query":"q","batch":true}',
    "[]",
    "null",
    "7",
]


@given(
    st.integers(0, 100),
    st.text() | st.sampled_from(NO_MARKERS),
)
def test_what_is_no_marker_is_not_taken_for_one(offset: int, metadata: str) -> None:
    with pytest.raises(ProgressError, match="no pipeline wrote"):
        Marker.from_offset(OffsetAndMetadata(offset, metadata), "g")


def test_the_marker_has_a_group_of_its_own() -> None:
    assert marker_group("fraud") == "fraud.marker"
    # A group takes metadata of 4096 bytes.
    query = "6ba98283-13c6-4538-8087-02f2f68bc607"
    assert len(Marker(query, 2**63 - 1, "f" * 64).to_offset().metadata or "") < 500
