"""Tables and error lines."""

from __future__ import annotations

from ottla.cli.errors import line_of
from ottla.cli.terminal.output import columns, table
from ottla.errors import ErrorCode, exception_for


def test_names_cannot_end_a_line_or_steer_the_terminal() -> None:
    rows = [{"group": "a\n\x1b[2Jb", "members": ["c\x9b", "d\u2028"]}]
    _, line = table(columns(group="GROUP", members="MEMBERS"), rows)
    assert line.split() == [r"a\n\x1b[2Jb", r"c\x9b,d\u2028"]
    error = exception_for(ErrorCode.GROUP_ID_NOT_FOUND, "No group \x1b[2J.", group="\x07")
    assert line_of(error).startswith(r"No group \x1b[2J (group \x07): ")
