"""Progress against a model: every order of finishing, restarts, holes, positions, and the limit of the metadata."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.app.delivery.gaps import decode_gaps
from ottla.app.delivery.progress import PartitionProgress

MAX_BYTES = 80
PAUSE_BYTES = 60


class ProgressMachine(RuleBasedStateMachine):
    """A partition whose offsets partly have no records, and a listener that restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[int] = []  # the offsets that have records
        self.end = 0
        self.finished: set[int] = set()
        self.committed_finished: set[int] = set()
        self.committed: tuple[int, str] | None = None
        self.start()

    def start(self) -> None:
        if self.committed is None:
            self.progress = PartitionProgress()
        else:
            offset, metadata = self.committed
            self.progress = PartitionProgress(offset, decode_gaps(metadata, offset))
        self.position = 0 if self.committed is None else self.committed[0]
        self.waiting: list[int] = []
        self.started: list[int] = []

    @rule(holes=st.lists(st.integers(0, 40), min_size=1, max_size=12))
    def append(self, holes: list[int]) -> None:
        """Records come to the log, each behind so many offsets without a record."""
        for hole in holes:
            self.end += hole
            self.log.append(self.end)
            self.end += 1

    @rule(count=st.integers(0, 10))
    def poll(self, count: int) -> None:
        taken = [offset for offset in self.log if offset >= self.position][:count]
        self.position = taken[-1] + 1 if taken else self.position
        known = self.progress.take(taken, self.position)
        assert known == {offset for offset in taken if offset in self.finished}, "done again"
        self.waiting += [offset for offset in taken if offset not in known]

    @rule()
    def pass_the_end(self) -> None:
        """The position passes control records."""
        if not [offset for offset in self.log if offset >= self.position]:
            self.end += 1
            self.position = self.end
            self.progress.take([], self.position)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def start_one(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.waiting))
        has_room = self.progress.has_room(len(self.started), MAX_BYTES, PAUSE_BYTES)
        if has_room or offset == self.progress.commit_offset:
            self.waiting.remove(offset)
            self.started.append(offset)

    @precondition(lambda self: self.started)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.started))
        self.started.remove(offset)
        self.progress.finish(offset)
        self.finished.add(offset)

    @rule()
    def commit(self) -> None:
        offset = self.progress.commit_offset
        if offset is not None:
            metadata = self.progress.metadata((), MAX_BYTES)
            assert metadata is not None, "the metadata does not fit"
            self.committed = (offset, metadata)
            self.committed_finished = set(self.finished)

    @rule()
    def restart(self) -> None:
        self.finished = set(self.committed_finished)
        self.start()

    @rule(data=st.data())
    def reset_by_hand(self, data: st.DataObject) -> None:
        """A tool sets the offset, and leaves the metadata as it is, or not."""
        if self.committed is None:
            return
        offset = data.draw(st.integers(0, self.end))
        if offset == self.committed[0]:
            return
        self.committed = (offset, data.draw(st.sampled_from(["", self.committed[1]])))
        self.committed_finished = {each for each in self.log if each < offset}
        self.restart()

    @invariant()
    def nothing_unfinished_is_passed(self) -> None:
        offset = self.progress.commit_offset
        if offset is not None and self.committed is not None:
            passed = [each for each in self.log if self.committed[0] <= each < offset]
            assert set(passed) <= self.finished

    @invariant()
    def a_commit_now_would_say_exactly_what_is_finished(self) -> None:
        offset = self.progress.commit_offset
        if offset is None:
            return
        ranges = self.progress.finished_ranges()
        said = {each for each in self.log if any(start <= each < end for start, end in ranges)}
        assert said == {each for each in self.finished if each >= offset}
        assert all(start > offset for start, _ in ranges)


TestProgress = ProgressMachine.TestCase


def test_finishing_in_order_leaves_no_gaps() -> None:
    progress = PartitionProgress(100)
    progress.take(list(range(100, 200)), 201)
    for offset in range(100, 150):
        progress.finish(offset)
    assert progress.commit_offset == 150
    assert progress.metadata((), 4096) == ""


def test_control_records_and_compacted_offsets_never_block_the_commit() -> None:
    progress = PartitionProgress(0)
    progress.take([3, 9], 15)
    progress.finish(9)
    progress.finish(3)
    assert progress.commit_offset == 15


def test_offsets_without_records_cost_no_metadata() -> None:
    progress = PartitionProgress(0)
    progress.take(list(range(0, 20_000, 2)), 20_000)
    progress.finish(9_998)
    assert progress.finished_ranges() == [(9_998, 10_000)]
    metadata = progress.metadata((), 4096)
    assert metadata is not None
    assert len(metadata) < 30


def test_a_topic_that_was_made_again_forgets_what_was_finished() -> None:
    progress = PartitionProgress(1_000, decode_gaps("ottla1:1000:BB:", 1_000))
    assert progress.take([0, 1, 1001], 1002) == set()
    assert progress.commit_offset == 0
