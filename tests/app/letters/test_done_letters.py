"""Which letters are done, as ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.app.letters.done_letters import DoneLetters

# Offsets of letters: others belong to markers, or were compacted away.
OFFSETS = st.sets(st.integers(0, 60), min_size=1).map(sorted)


@given(OFFSETS, st.lists(st.sets(st.integers(0, 60)), max_size=4), st.integers(0, 60))
def test_exactly_the_finished_letters_are_done(
    letters: list[int], runs: list[set[int]], log_start: int
) -> None:
    done = DoneLetters()
    expected: set[int] = set()
    for number, wanted in enumerate(runs):
        done = DoneLetters.decode(done.encode("id"), "id")
        if number == len(runs) - 1:
            # Somebody else has deleted the first records meanwhile.
            letters = [each for each in letters if each >= log_start]
            done.trim(log_start)
        for letter in letters:
            assert (letter in done) == (letter in expected)
            if letter in wanted and letter not in done:
                done.finish(letter)
                expected.add(letter)
            else:
                done.pass_by(letter)
        assert [each for each in letters if each in done] == [
            each for each in letters if each in expected
        ]
        open_letters = [each for each in letters if each not in expected]
        assert all(done.start_offset <= each for each in open_letters)
        if not open_letters:
            assert done.ranges == []


def test_markers_between_letters_leave_one_range() -> None:
    done = DoneLetters()
    for offset in (3, 5, 7, 9):
        done.finish(offset)
    assert (done.start_offset, done.ranges) == (10, [])
    assert 11 not in done


def test_a_topic_that_was_created_again_has_no_letters_that_are_done() -> None:
    done = DoneLetters()
    done.finish(0)
    assert 0 in DoneLetters.decode(done.encode("one"), "one")
    assert 0 not in DoneLetters.decode(done.encode("one"), "other")
    assert 0 not in DoneLetters.decode(None, "other")


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b'{"version": 2}'])
def test_garbage_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        DoneLetters.decode(value, None)
