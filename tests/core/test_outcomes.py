"""One way to say "no error" in core."""

from __future__ import annotations

from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode


def test_a_refusal_has_a_text_of_its_own_or_that_of_its_error() -> None:
    assert Refused(ErrorCode.INVALID_RECORD, "no key").text == "no key"
    assert Refused(ErrorCode.INVALID_RECORD).text == ErrorCode.INVALID_RECORD.text


def test_the_outcome_of_a_check_has_an_error_code() -> None:
    assert error_of(None) is ErrorCode.NONE
    assert error_of(Refused(ErrorCode.NOT_COORDINATOR)) is ErrorCode.NOT_COORDINATOR
