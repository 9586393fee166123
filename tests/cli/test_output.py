"""Tables and error lines."""

from __future__ import annotations

import io
import json
from uuid import UUID

import pytest
import yaml

from ottla.cli.errors import line_of
from ottla.cli.terminal.output import Output, columns, table
from ottla.errors import ErrorCode, exception_for


def test_names_cannot_end_a_line_or_steer_the_terminal() -> None:
    rows = [{"group": "a\n\x1b[2Jb", "members": ["c\x9b", "d\u2028"]}]
    _, line = table(columns(group="GROUP", members="MEMBERS"), rows)
    assert line.split() == [r"a\n\x1b[2Jb", r"c\x9b,d\u2028"]
    error = exception_for(ErrorCode.GROUP_ID_NOT_FOUND, "No group \x1b[2J.", group="\x07")
    assert line_of(error).startswith(r"No group \x1b[2J (group \x07): ")


@pytest.mark.parametrize(
    "value",
    [
        [{"name": "orders", "partitions": 3, "configs": {}, "isr": [1, 2]}, {"name": "no"}],
        {"on": None, "0x1f": ["1.5", "a: b", "- x", "", "a\nb", "\u2028", "\x1b[2J", "größe"]},
        [],
        {"deep": [[1], [{"a": [True, 1.5]}]]},
    ],
)
def test_yaml_says_what_json_says(value: object) -> None:
    found = {}
    for form in ("json", "yaml"):
        stream = io.StringIO()
        Output(form, stream).data(value)
        found[form] = stream.getvalue()
    assert yaml.safe_load(found["yaml"]) == json.loads(found["json"]) == value


def test_what_has_no_form_of_its_own_is_text_in_yaml() -> None:
    stream = io.StringIO()
    ids = (UUID(int=1), UUID(int=1))
    Output("yaml", stream).data({"ids": ids})
    assert yaml.safe_load(stream.getvalue()) == {"ids": [str(each) for each in ids]}
    assert "&" not in stream.getvalue()
